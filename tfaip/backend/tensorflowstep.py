"""Compiled functions of batches on TensorFlow; `jaxstep.py` has the same class for JAX."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfaip.util.typing import Tensor


class CompiledStep:
    """A compiled function of batches that reads and assigns Keras variables.

    A `tf.function` decides in every call which of its graphs fits, which takes longer than a tiny model; and it makes
    another graph for the smaller last batch. Here there is one graph for all sizes of the batch; where another
    dimension changes it is traced once more with that dimension left open.

    Args:
        function: of dicts or tuples of arrays whose first dimension is the batch.
        variables: all that the function reads. On TensorFlow it reads and assigns them in place.
        accumulators: further variables, which every call updates.
        run_eagerly: do not compile.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        variables: Iterable[keras.Variable] = (),
        accumulators: Iterable[keras.Variable] = (),
        run_eagerly: bool = False,
    ) -> None:
        self._function = function
        self._accumulators = list(accumulators)
        self._run_eagerly = run_eagerly
        self._names: list[Set[str]] = []
        self._shapes: list[tuple[int | None, ...]] = []
        self._concrete: Any = None

    def read(self, of_this_process: bool = False) -> None:
        """Take the values of all variables, on which the following calls work.

        Args:
            of_this_process: each process goes its own way from here.
        """

    def __call__(self, *arrays: Any) -> Any:
        """Return the result of the function, tensors."""
        if self._run_eagerly:
            return self._function(*arrays)
        flat = tf.nest.flatten(arrays)
        shapes = [array.shape for array in flat]
        names = [_names(argument) for argument in arrays]
        if names != self._names or not all(map(_fits, shapes, self._shapes)):
            self._trace(arrays, shapes)
            self._names = [frozenset(keys) for keys in names]
        # A graph of flat tensors takes 20 us less to call than one of dicts.
        return self._concrete(*[tf.convert_to_tensor(array) for array in flat])

    def write_variables(self) -> None:
        """Assign what the calls have changed of the variables."""

    def write_accumulators(self) -> None:
        """Assign the accumulators."""

    def accumulated(self) -> list[np.ndarray]:
        """Return the values of the accumulators."""
        return [np.array(keras.ops.convert_to_numpy(variable)) for variable in self._accumulators]

    def _trace(self, arrays: tuple[Any, ...], shapes: list[tuple[int, ...]]) -> None:
        known = self._shapes if list(map(len, self._shapes)) == list(map(len, shapes)) else shapes
        self._shapes = [_common_shape(old, new) for old, new in zip(known, shapes, strict=True)]
        dtypes = [tf.convert_to_tensor(array).dtype for array in tf.nest.flatten(arrays)]
        specs = [tf.TensorSpec(shape, dtype) for shape, dtype in zip(self._shapes, dtypes, strict=True)]

        def on_flat_tensors(*flat: Tensor) -> Any:
            return self._function(*tf.nest.pack_sequence_as(arrays, flat))

        # A new tf.function: the old graph is not needed any more. Without AutoGraph, as in `fit`: it takes longer than
        # the rest of the trace.
        self._concrete = tf.function(on_flat_tensors, autograph=False).get_concrete_function(*specs)


def _names(argument: Any) -> Set[str]:
    return argument.keys() if isinstance(argument, Mapping) else frozenset()


def _common_shape(old: tuple[int | None, ...], new: tuple[int, ...]) -> tuple[int | None, ...]:
    """Return the shape with the batch and what differs left open."""
    return (None, *(a if a == b else None for a, b in zip(old[1:], new[1:], strict=True)))


def _fits(shape: tuple[int, ...], known: tuple[int | None, ...]) -> bool:
    return len(shape) == len(known) and all(b is None or a == b for a, b in zip(shape, known, strict=True))
