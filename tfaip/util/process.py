"""The process: its garbage collections, and the mark of a data worker."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

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
