"""Batches of NumPy arrays, with positions, in the form that `keras.Model.fit` and `evaluate` read fastest."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tfaip.backend.active import backend
from tfaip.backend.selection import compiles_each_shape
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.bucketing import LengthPadding
from tfaip.data.pipeline.definitions import SampleSpecs
from tfaip.data.pipeline.position import Position
from tfaip.data.pipeline.prefetch import Prefetcher
from tfaip.util.typing import Element


class Feed:
    """Batches of one call of `fit` or `evaluate`, which may read ahead of what it has trained.

    Args:
        batches: opens a stream of batches, each with the position of the data after it (None: does not matter).
        data: gives the specs of inputs and targets.
        lengths: variable dimensions are padded up to the next of these if each shape is compiled (JAX).
    """

    def __init__(
        self,
        batches: AbstractContextManager[Iterator[tuple[Batch, Position | None]]],
        data: SampleSpecs,
        lengths: Sequence[int] = (),
    ) -> None:
        self._data = data
        self._lengths = lengths
        self._positions: deque[Position | None] = deque()
        self._released = 0
        self._error: BaseException | None = None
        self._cause: BaseException | None = None
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()
        self._iterator: Iterator[tuple[Batch, Position | None]] | None = self._stack.enter_context(batches)
        specs = (data.input_layer_specs(), data.target_layer_specs())
        self.dataset: Any = backend.dataset(self._prepared, specs)

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any) -> None:
        """Close the stream; raise an error of the data pipeline as itself, not as the backend has reported it."""
        with self._lock:
            self._iterator = None
        self._stack.close()
        if self._error is not None:
            self._error.__cause__ = self._cause  # the traceback of a data worker, which Keras drops
            if error is not self._error:
                raise self._error from self._cause

    def position_after(self, batches: int) -> Position | None:
        """Return the position of the data after the first `batches` batches (at least 1); forget earlier ones."""
        while self._released < batches - 1:
            self._positions.popleft()
            self._released += 1
        return self._positions[0]

    def _elements(self) -> Iterator[Element]:
        while True:
            # The reader may be a thread of the backend; closing must wait for a batch that is being made.
            with self._lock:
                if self._iterator is None:
                    return
                try:
                    item = next(self._iterator, None)
                except BaseException as error:
                    self._error, self._cause = error, error.__cause__
                    raise
                if item is None:
                    return
                batch, position = item
                self._positions.append(position)
            yield batch.inputs, batch.targets

    def _prepared(self) -> Iterator[Element]:
        """Return the elements as the backend reads them."""
        elements: Iterator[Any] = self._elements()
        if self._lengths and compiles_each_shape():
            elements = map(LengthPadding(self._data, self._lengths), elements)
        waiting = backend.num_waiting_batches()
        if waiting:
            ahead = Prefetcher(map(backend.to_device, elements), waiting)
            self._stack.callback(ahead.close)
            return ahead
        return elements
