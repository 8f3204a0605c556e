"""The process: its garbage collections, the mark of a data worker, and a thread for work in the background."""

from __future__ import annotations

import contextlib
import gc
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tfaip.util.logging import logger
from tfaip.util.text import shorten_text

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

# A data worker trains nothing and parses no flags.
_is_data_worker = False


def mark_data_worker() -> None:
    """Mark this process; it stays a data worker until its end."""
    global _is_data_worker  # noqa: PLW0603 - a fact about the process
    _is_data_worker = True


def is_data_worker() -> bool:
    """Return True in a data worker."""
    return _is_data_worker


@contextlib.contextmanager
def collecting_new_objects() -> Iterator[None]:
    """Context in which full collections search only what was made in it, after one that searches all.

    Keras and a backend make hundred thousands of objects, so each full collection takes 0.2 to 0.5 s of CPU time
    (TensorFlow 2.21). If objects are frozen already (`gc.freeze`), this is left to whoever has done it.
    """
    is_ours = not gc.get_freeze_count()
    if is_ours:
        gc.collect()
        gc.freeze()
    try:
        yield
    finally:
        if is_ours:
            gc.unfreeze()


log = logger(__name__)


class BackgroundWriter:
    """Context of a thread that does jobs in their order; it is started with the first one.

    When a job fails, those after it are not done, since they may build on it. The error is raised by every method from
    then on. The end of the context waits for all jobs; it raises the error unless there is another one, or this one was
    raised before.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._jobs: deque[Future[None]] = deque()
        self._error: BaseException | None = None
        self._is_raised = False

    def submit(self, job: Callable[[], object]) -> Future[None]:
        """Do a job after those before it."""
        self.check()
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="writer")

        def do() -> None:
            if self._error is None:
                try:
                    job()
                except BaseException as error:  # noqa: BLE001 (it is raised in the thread that submits)
                    self._error = error

        future = self._pool.submit(do)
        self._jobs.append(future)
        return future

    def check(self) -> None:
        """Raise the error of a job that has failed, if there is one; do not wait."""
        if self._error is not None:
            self._is_raised = True
            raise self._error

    def wait(self) -> None:
        """Wait until all jobs are done."""
        while self._jobs:
            self._jobs[0].result()
            self._jobs.popleft()
        self.check()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        self._jobs.clear()
        failure, is_raised = self._error, self._is_raised
        self._error, self._is_raised = None, False
        if failure is None or is_raised:
            return
        if error is None:
            raise failure
        log.error("%s", shorten_text(str(failure), 300))
