"""Data of `fit` and `evaluate` on TensorFlow: datasets that are read in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfaip.backend.elements import packed
from tfaip.util.typing import Element

# TensorFlow pays about 150 us per element that crosses from Python into tf.data; many batches cross as one chunk.
CHUNK_BATCHES = 32
CHUNK_BYTES = 16 * 2**20
PREFETCHED_CHUNKS = 2
PREFETCHED_BATCHES = 16


class Datasets:
    """Makes datasets of equal specs, in the form that `fit` reads fastest: a `tf.data.Dataset`.

    They are one, which is traced once (60 ms) and reads other batches each time.

    Args:
        specs: shape without the batch, and dtype, of the inputs and of the targets by name.
    """

    def __init__(self, specs: Sequence[Mapping[str, Any]]) -> None:
        self._specs = specs
        self._dataset: Any = None
        self._elements: Callable[[], Iterator[Element]] | None = None

    def reading(self, elements: Callable[[], Iterator[Element]]) -> Any:
        """Return a dataset that can be read once, before the next one is asked for.

        Args:
            elements: opens an iterator over inputs and targets.
        """
        self._elements = elements
        if self._dataset is None:
            self._dataset = self._traced()
        return self._dataset

    def release(self) -> None:
        """Forget the batches, which may belong to much data."""
        self._elements = None

    def _traced(self) -> Any:
        signature = tuple(_chunk_specs(part) for part in self._specs)
        chunks = tf.data.Dataset.from_generator(self._opened, output_signature=signature)
        batches = chunks.prefetch(PREFETCHED_CHUNKS).flat_map(
            lambda *parts: tf.data.Dataset.from_tensor_slices(packed(parts))
        )
        options = tf.data.Options()
        # The autotuner's thread sleeps 10, 20, ... 5120 ms, and the end of an epoch waits for it to wake up: epochs of
        # 2.6 s took 5.11 s, the sum of its naps, every other time.
        options.autotune.enabled = False
        return batches.prefetch(PREFETCHED_BATCHES).with_options(options)

    def _opened(self) -> Iterator[Element]:
        elements = self._elements
        # Nothing is left if the training has ended before its first batch was read.
        return _chunks(() if elements is None else elements())


def consume(data: Any) -> None:
    """Read all batches of a dataset, as `fit` does, and do nothing with them."""
    data.reduce(0, lambda count, _: count + 1)  # without Python


def _chunk_specs(specs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tf.TensorSpec((None, None, *spec.shape), spec.dtype) for name, spec in specs.items()}


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
    parts = zip(*chunk, strict=True)
    return tuple({name: np.stack([part[name] for part in same]) for name in same[0]} for same in parts)
