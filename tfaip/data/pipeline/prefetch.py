"""Prefetching in a thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from tfaip.data.pipeline.failures import as_failure

T = TypeVar("T")


class Prefetcher(Iterator[T], Generic[T]):
    """Iterator that makes items in a thread while the reader works with earlier ones.

    The thread starts with the first item that is requested and has ended when `close` returns.

    Args:
        items: runs in the thread; its errors are raised to the reader, after the items before them.
        buffer_size: number of finished items that may wait for the reader.
    """

    def __init__(self, items: Iterator[T], buffer_size: int) -> None:
        self._items = items
        self._buffer_size = buffer_size
        self._ready: deque[T] = deque()
        self._error: BaseException | None = None
        self._ended = False
        self._closed = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def __next__(self) -> T:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name="tfaip-prefetch", daemon=True)
            self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._ended or self._closed)
            if self._ready:
                self._changed.notify_all()
                return self._ready.popleft()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        raise StopIteration

    def close(self) -> None:
        """Let the thread finish its current item, and discard the items that were not read."""
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            for item in self._items:
                with self._changed:
                    self._changed.wait_for(lambda: len(self._ready) < self._buffer_size or self._closed)
                    if self._closed:
                        return
                    self._ready.append(item)
                    self._changed.notify_all()
        except BaseException as error:  # of any kind: the reader gets it
            self._error = as_failure(error)
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()
