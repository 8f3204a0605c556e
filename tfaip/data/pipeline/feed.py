"""Batches of NumPy arrays in the form that `keras.Model.fit` and `evaluate` read fastest on the active backend."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from tfaip.data.data import DataBase
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.bucketing import LengthPadding
from tfaip.data.pipeline.readahead import ReadAhead
from tfaip.data.pipeline.stream import Position

# TensorFlow pays about 150 us per element that crosses from Python into tf.data; many batches cross as one chunk.
CHUNK_BATCHES = 32
CHUNK_BYTES = 16 * 2**20
PREFETCHED_CHUNKS = 2
PREFETCHED_BATCHES = 16
# JAX: the batch that is trained, one that waits on the device, and one that is on its way there.
WAITING_ON_DEVICE = 1

Element = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]


class Feed:
    """The batches of one call of `fit` or `evaluate`, which may read ahead of what it has trained.

    Args:
        batches: opens a stream of batches, each with the position of the data behind it (None: does not matter).
        data: gives the specs of inputs and targets.
        backend: name of the Keras backend.
        lengths: JAX only: variable dimensions are padded up to the next of these, so that few shapes are compiled.
    """

    def __init__(
        self,
        batches: AbstractContextManager[Iterator[tuple[Batch, Position | None]]],
        data: DataBase[Any],
        backend: str,
        lengths: Sequence[int] = (),
    ) -> None:
        self._data = data
        self._positions: deque[Position | None] = deque()
        self._released = 0
        self._error: BaseException | None = None
        self._cause: BaseException | None = None
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()
        self._iterator: Iterator[tuple[Batch, Position | None]] | None = self._stack.enter_context(batches)
        self.dataset: Any = self._tensorflow_dataset() if backend == "tensorflow" else self._jax_iterator(lengths)

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any) -> None:
        """Close the stream. An error of the data pipeline is raised as itself, not as what the backend made of it."""
        with self._lock:
            self._iterator = None
        self._stack.close()
        if self._error is not None:
            self._error.__cause__ = self._cause  # Keras drops it
            if error is not self._error:
                raise self._error from self._cause

    def position_after(self, batches: int) -> Position | None:
        """Where the data stands after the first `batches` batches (at least 1); forgets earlier positions."""
        while self._released < batches - 1:
            self._positions.popleft()
            self._released += 1
        return self._positions[0]

    def _elements(self) -> Iterator[Element]:
        while True:
            # The reader may be a thread of TensorFlow; closing must wait for a batch that is being made.
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

    def _jax_iterator(self, lengths: Sequence[int]) -> Iterator[tuple[Any]]:
        """Batches for a plain generator, which is what Keras takes.

        A step on JAX runs while Python goes on. On a CPU that is enough: a thread only competes with it for the
        interpreter, which costs 150 us a step. On other devices a thread makes the next batch and sends it while
        Keras waits for a value.
        """
        import jax

        elements: Iterator[Any] = self._elements()
        if lengths:
            elements = map(LengthPadding(self._data, lengths), elements)
        if jax.default_backend() != "cpu":
            elements = ReadAhead(map(_on_device, elements), WAITING_ON_DEVICE)
            self._stack.callback(elements.close)
        return ((element,) for element in elements)

    def _tensorflow_dataset(self) -> Any:
        import tensorflow as tf

        signature = tuple(
            {key: tf.TensorSpec((None, None, *spec.shape), spec.dtype) for key, spec in specs.items()}
            for specs in (self._data.input_layer_specs(), self._data.target_layer_specs())
        )
        chunks = tf.data.Dataset.from_generator(lambda: _chunks(self._elements()), output_signature=signature)
        sliced = chunks.prefetch(PREFETCHED_CHUNKS).flat_map(_slices(tf))
        batches = sliced.map(lambda inputs, targets: ((inputs, targets),)).prefetch(PREFETCHED_BATCHES)
        options = tf.data.Options()
        # The autotuner's thread sleeps 10, 20, ... 5120 ms, and the end of an epoch waits for it to wake up.
        options.autotune.enabled = False
        return batches.with_options(options)


def _on_device(element: Element) -> Element:
    import jax
    import keras

    if keras.distribution.distribution() is not None:
        return element  # Keras knows which device gets which rows
    return jax.device_put(element)


def _slices(tf: Any) -> Callable[..., Any]:
    return lambda inputs, targets: tf.data.Dataset.from_tensor_slices((inputs, targets))


def _chunks(elements: Iterable[Element]) -> Iterator[Element]:
    """Stack consecutive elements of equal shapes."""
    chunk: list[Element] = []
    shapes: Any = None
    size = 0
    for element in elements:
        arrays = [array for part in element for array in part.values()]
        if chunk and ([a.shape for a in arrays] != shapes or len(chunk) >= CHUNK_BATCHES or size >= CHUNK_BYTES):
            yield _stacked(chunk)
            chunk, size = [], 0
        shapes = [array.shape for array in arrays]
        size += sum(array.nbytes for array in arrays)
        chunk.append(element)
    if chunk:
        yield _stacked(chunk)


def _stacked(chunk: list[Element]) -> Element:
    return tuple({key: np.stack([e[part][key] for e in chunk]) for key in chunk[0][part]} for part in (0, 1))  # type: ignore[return-value]
