"""Errors of the data that would end a process without a word: `sys.exit()` and the like in the code of users."""

from __future__ import annotations

import threading
from typing import NoReturn

from tfaip.util.process import is_data_worker


def as_failure(error: BaseException) -> BaseException:
    """Return an ordinary error in place of one that ends the process, and others as they are.

    A KeyboardInterrupt is Ctrl-C only in the main thread of the training process, and then stays one.
    """
    if isinstance(error, KeyboardInterrupt):
        is_raised = is_data_worker() or threading.current_thread() is not threading.main_thread()
    else:
        is_raised = isinstance(error, SystemExit)
    if not is_raised:
        return error
    failure = RuntimeError(f"{type(error).__name__}: {error}: the code of the data must raise an error instead")
    failure.__cause__ = error
    return failure.with_traceback(error.__traceback__)


def raise_noted(error: BaseException, note: str) -> NoReturn:
    """Raise `as_failure(error)` with a note."""
    failure = as_failure(error)
    failure.add_note(note)
    raise failure
