"""A function of batches compiled by TensorFlow, called with little overhead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


class TensorFlowStep:
    """Compiles a function of nested arrays, called with batches of any size.

    A `tf.function` decides in every call which of its graphs fits, which takes longer than a tiny model; and it makes
    another graph for the smaller last batch. Here there is one graph for all sizes of the batch; where another
    dimension changes it is traced once more with that dimension left open.

    Args:
        function: of one argument, dicts or tuples of arrays whose first dimension is the batch.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._shapes: list[tuple[int | None, ...]] = []
        self._concrete: Any = None

    def __call__(self, arrays: Any) -> Any:
        """The result of the function, tensors."""
        shapes = [array.shape for array in tf.nest.flatten(arrays)]
        tensors = tf.nest.map_structure(tf.convert_to_tensor, arrays)
        if self._concrete is None or not all(map(_fits, shapes, self._shapes)):
            self._trace(tensors, shapes)
        return self._concrete(tensors)

    def _trace(self, tensors: Any, shapes: list[tuple[int, ...]]) -> None:
        known = self._shapes if list(map(len, self._shapes)) == list(map(len, shapes)) else shapes
        self._shapes = [
            (None, *(a if a == b else None for a, b in zip(old[1:], new[1:], strict=True)))
            for old, new in zip(known, shapes, strict=True)
        ]
        dtypes = [tensor.dtype for tensor in tf.nest.flatten(tensors)]
        specs = [tf.TensorSpec(shape, dtype) for shape, dtype in zip(self._shapes, dtypes, strict=True)]
        # A new tf.function: the old graph is not needed any more. Without AutoGraph, as in `fit`: it takes longer than
        # the rest of the trace.
        function = tf.function(self._function, autograph=False)
        self._concrete = function.get_concrete_function(tf.nest.pack_sequence_as(tensors, specs))


def _fits(shape: tuple[int, ...], known: tuple[int | None, ...]) -> bool:
    return len(shape) == len(known) and all(b is None or a == b for a, b in zip(shape, known, strict=True))
