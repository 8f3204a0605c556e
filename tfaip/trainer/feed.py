"""Batches of NumPy arrays, with positions, in the form that `keras.Model.fit` and `evaluate` read fastest."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from tfaip.backend.active import backend
from tfaip.backend.environment import compiles_each_shape
from tfaip.backend.kerastools import MARK
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.bucketing import LengthPadding
from tfaip.data.pipeline.definitions import SampleSpecs
from tfaip.data.pipeline.position import Position
from tfaip.data.pipeline.prefetch import Prefetcher
from tfaip.data.specs import TensorSpec
from tfaip.util.logging import logger
from tfaip.util.typing import Element

log = logger(__name__)
MANY_SHAPES = 4  # the first one, and three new ones
OpenBatches = AbstractContextManager[Iterator[tuple[Batch, Position | None]]]


class Feeder:
    """Makes feeds of batches of equal specs, one after the other.

    Args:
        data: gives the specs of inputs and targets.
        devices: devices of this process, if several share the batches; 0: there is one.
    """

    def __init__(self, data: SampleSpecs, devices: int = 0) -> None:
        self._data = data
        self._devices = devices
        marks = [{MARK: TensorSpec((), "bool")}] if devices else []
        specs = [*data.input_layer_specs().values(), *data.target_layer_specs().values()]
        self._varies = any(None in spec.shape for spec in specs)
        self._shapes: set[tuple[tuple[int, ...], ...]] = set()
        self._datasets = backend.Datasets((data.input_layer_specs(), data.target_layer_specs(), *marks))

    def feed(self, batches: OpenBatches, lengths: Sequence[int] = ()) -> Feed:
        """Return a feed, a context; the one before has ended.

        Args:
            batches: opens a stream of batches, each with the position of the data after it (None: does not matter).
            lengths: variable dimensions are padded up to the next of these if each shape is compiled (JAX).
        """
        padding: Callable[[Any], Any] | None = None
        if compiles_each_shape() and lengths:
            padding = LengthPadding(self._data, lengths)
        elif compiles_each_shape() and self._varies and len(self._shapes) < MANY_SHAPES:
            padding = self._counted
        return Feed(batches, padding, self._datasets, self._devices)

    def _counted(self, element: Any) -> Any:
        """Return an element as it is; log once that samples have many shapes."""
        if len(self._shapes) < MANY_SHAPES:
            self._shapes.add(tuple(array.shape[1:] for part in element for array in part.values()))
            if len(self._shapes) == MANY_SHAPES:
                log.info(
                    "batches had %d shapes so far, and JAX compiles the step for each: --train.bucket_boundaries (and "
                    "--val.bucket_boundaries) pad them to a few lengths",
                    MANY_SHAPES,
                )
        return element


class Feed:
    """Batches of one call of `fit` or `evaluate`, which may read ahead of what it has trained; see `Feeder.feed`.

    Args:
        batches: opens the stream.
        padding: function of an element, such as the padding of its variable dimensions; None: as they are.
        datasets: makes what `fit` and `evaluate` read, the attribute `dataset`.
        devices: see `Feeder`.
    """

    def __init__(
        self, batches: OpenBatches, padding: Callable[[Any], Any] | None, datasets: backend.Datasets, devices: int
    ) -> None:
        self._padding = padding
        self._devices = devices
        self._datasets = datasets
        self._positions: deque[Position | None] = deque()
        self._released = 0
        self._error: BaseException | None = None
        self._cause: BaseException | None = None
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()
        self._iterator: Iterator[tuple[Batch, Position | None]] | None = self._stack.enter_context(batches)
        self.dataset: Any = datasets.reading(self._prepared)

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any) -> None:
        """Close the stream; raise an error of the data pipeline as itself, not as the backend has reported it."""
        with self._lock:
            self._iterator = None
        self._stack.close()
        self._datasets.release()
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
            yield self._element(batch)

    def _element(self, batch: Batch) -> Element:
        element: Any = batch.inputs, batch.targets
        if self._padding is not None:
            element = self._padding(element)
        if not self._devices:
            return element
        rows = batch.size
        if batch.is_whole:
            rows *= self._devices
            element = [{key: self._copies(array) for key, array in part.items()} for part in element]
        return (*element, {MARK: backend.mark(rows, self._devices, batch.is_whole)})

    def _copies(self, array: np.ndarray) -> np.ndarray:
        return np.concatenate([array] * self._devices)

    def _prepared(self) -> Iterator[Element]:
        """Return the elements as the backend reads them."""
        elements: Iterator[Any] = self._elements()
        waiting = backend.num_waiting_batches()
        if waiting:
            ahead = Prefetcher(map(backend.to_device, elements), waiting)
            self._stack.callback(ahead.close)
            return ahead
        return elements
