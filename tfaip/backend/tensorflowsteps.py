"""Compiled steps of TensorFlow, their data and their fused update; `jaxsteps.py` has the same for JAX."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfaip.backend.kerastools import Shapes, of_one_shape, packed, stacked
from tfaip.util.typing import Element, Tensor

# Steps


class CompiledStep:
    """A compiled function of batches that reads and assigns Keras variables.

    A `tf.function` decides in every call which of its graphs fits, which takes longer than a tiny model; and it makes
    another graph for the smaller last batch. Here there is one graph for all sizes of the batch; where another
    dimension changes it is traced once more with that dimension left open.

    Args:
        function: of dicts or tuples of arrays whose first dimension is the batch.
        variables: all that the function reads. On TensorFlow it reads and assigns them in place.
        accumulators: further variables, which every call updates.
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
        names = [argument.keys() if isinstance(argument, Mapping) else frozenset() for argument in arrays]
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
        pairs = [zip(old[1:], new[1:], strict=True) for old, new in zip(known, shapes, strict=True)]
        self._shapes = [(None, *(a if a == b else None for a, b in pair)) for pair in pairs]  # the batch stays open
        dtypes = [tf.convert_to_tensor(array).dtype for array in tf.nest.flatten(arrays)]
        specs = [tf.TensorSpec(shape, dtype) for shape, dtype in zip(self._shapes, dtypes, strict=True)]

        def on_flat_tensors(*flat: Tensor) -> Any:
            return self._function(*tf.nest.pack_sequence_as(arrays, flat))

        # A new tf.function: the old graph is not needed any more. Without AutoGraph, as in `fit`: it takes longer than
        # the rest of the trace.
        self._concrete = tf.function(on_flat_tensors, autograph=False).get_concrete_function(*specs)


def _fits(shape: tuple[int, ...], known: tuple[int | None, ...]) -> bool:
    return len(shape) == len(known) and all(b is None or a == b for a, b in zip(shape, known, strict=True))


class LoopedSteps:
    """What `fit` or `evaluate` calls for each execution: steps in one compiled loop over chunks of batches.

    Keras would pass every batch through tf.data, and branch on whether there is one, which takes longer than the
    update of a tiny model.

    Args:
        model: compiled.
        step: its `train_step` or `test_step`.
    """

    data: Chunks
    """The batches of the next call of `fit` or `evaluate`."""

    def __init__(self, model: Any, step: Callable[..., Any]) -> None:
        self._model = model
        self._step = step
        self._loop: Any = None
        self._chunk: list[Tensor] = []
        self._done = 0

    def read(self, data: Chunks) -> None:
        """Take the batches of the next call of `fit` or `evaluate`."""
        self.data, self._chunk = data, []

    def __call__(self, iterator: Any) -> Any:
        """Run the steps of one execution; return the logs after them."""
        logs, left = None, self._model.steps_per_execution
        while left and (self._chunk or self._next()):
            end = min(len(self._chunk[0]), self._done + left)
            left -= end - self._done
            logs = self._run(self._done, end)
            self._done = end
            if end == len(self._chunk[0]):
                self._chunk = []
        if logs is None:
            raise StopIteration
        return logs

    def _next(self) -> bool:
        self._chunk, self._done = tf.nest.flatten(next(self.data.chunks, ())), 0
        return bool(self._chunk)

    def _run(self, begin: int, end: int) -> Any:
        """Run the steps of some batches of the chunk."""
        if self._model.run_eagerly:
            for number in range(begin, end):
                self._step(tf.nest.pack_sequence_as(self.data.spec, [array[number] for array in self._chunk]))
            return self._model.get_metrics_result()
        if self._loop is None:
            self._loop = self._traced(self.data.spec)
        return self._loop(tf.constant(begin), tf.constant(end), *self._chunk)

    def _traced(self, spec: Any) -> Any:
        """Return the compiled loop over chunks of such specs."""
        step = tf.function(self._step, autograph=False, jit_compile=True) if self._model.jit_compile else self._step

        def loop(begin: Tensor, end: Tensor, *chunk: Tensor) -> Any:
            def body(number: Tensor) -> Tensor:
                with tf.device("CPU"):  # so that a batch, and not the chunk, is copied to a GPU in each round
                    arrays = [tf.gather(array, number) for array in chunk]
                step(tf.nest.pack_sequence_as(spec, arrays))
                return number + 1

            tf.while_loop(lambda number: number < end, body, [begin])
            return self._model.get_metrics_result()

        numbers = [tf.TensorSpec((), tf.int32)] * 2
        return tf.function(loop, autograph=False).get_concrete_function(*numbers, *tf.nest.flatten(spec))


# Data of `fit` and `evaluate`

CHUNK_BATCHES = 32
CHUNK_BYTES = 16 * 2**20
PREFETCHED_BATCHES = 16


@dataclass(frozen=True)
class Chunks:
    """Batches for `LoopedSteps`.

    Args:
        spec: of a chunk.
        chunks: batches of equal shapes, stacked, in the structure of `spec`.
    """

    spec: Any
    chunks: Iterator[Any]


def dataset(specs: Sequence[Mapping[str, Any]], elements: Iterator[Any]) -> Any:
    """Return what `fit` and `evaluate` read, once.

    Args:
        specs: shape without the batch, and dtype, of the inputs, of the targets, and of what marks the batches that
            several devices share, by name.
        elements: what `prepared` has returned.
    """
    if len(specs) == 2:  # no device shares them
        return Chunks(packed([_specs(part, 2) for part in specs]), elements)
    # Keras alone shares batches among several devices.
    signature = packed([_specs(part, 1) for part in specs])
    batches = tf.data.Dataset.from_generator(lambda: map(packed, elements), output_signature=signature)
    return batches.prefetch(PREFETCHED_BATCHES).with_options(_options())


@cache
def no_data() -> Any:
    """Return an endless dataset for `fit` and `evaluate` whose steps read other data."""
    return tf.data.Dataset.from_tensors(0).repeat().with_options(_options())


def _options() -> tf.data.Options:
    options = tf.data.Options()
    # The autotuner's thread sleeps 10, 20, ... 5120 ms, and the end of an epoch waits for it to wake up: epochs of
    # 2.6 s took 5.11 s, the sum of its naps, every other time.
    options.autotune.enabled = False
    return options


def _specs(specs: Mapping[str, Any], added: int) -> dict[str, Any]:
    return {name: tf.TensorSpec((*[None] * added, *spec.shape), spec.dtype) for name, spec in specs.items()}


def prepared(elements: Iterator[Element], is_shared: bool) -> Iterator[Any]:
    """Return chunks of consecutive elements of equal shapes; those that several devices share as they are."""
    if is_shared:
        return elements
    return map(_stacked, of_one_shape(elements, _shapes, CHUNK_BATCHES, CHUNK_BYTES))


def _shapes(element: Element) -> Shapes:
    return [(array.shape, array.dtype) for part in element for array in part.values()]


def _stacked(chunk: list[Element]) -> Any:
    parts = zip(*chunk, strict=True)
    return packed([{key: _one([part[key] for part in same]) for key in same[0]} for same in parts])


def _one(arrays: list[np.ndarray]) -> Tensor:
    if arrays[0].dtype.kind in "iuf":
        # `tf.constant` would copy it twice, which takes as long as the rest of the work on small batches.
        return tf.experimental.dlpack.from_dlpack(stacked(arrays, len(arrays)).__dlpack__())
    with tf.device("CPU"):
        return tf.constant(np.stack(arrays))


# Updates

# Of `1 - beta`, relative: 0.999 has 1.3e-5, 0.9999 has 1.7e-4.
_LARGEST_ROUNDING = 2e-5


class FusedAdam(keras.optimizers.Adam):
    """Adam whose update is one kernel of TensorFlow, instead of a dozen operations that each read and write a weight.

    The kernel computes `1 - beta` in float32, which is 0.00099998713 for `beta_2 = 0.999`: an update differs from that
    of Keras by less than a 100,000th of its size. What would differ by more, betas that are closer to 1, is
    left to Keras.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._moments: dict[tuple[Any, str], keras.Variable] = {}

    def add_variable_from_reference(
        self, reference_variable: keras.Variable, name: str | None = None, initializer: Any = "zeros"
    ) -> keras.Variable:
        """Create a moment of a weight; see Keras."""
        variable = super().add_variable_from_reference(reference_variable, name=name, initializer=initializer)
        self._moments[id(_variable(reference_variable)), str(name)] = variable
        return variable

    def update_step(self, gradient: Tensor, variable: keras.Variable | tf.Variable, learning_rate: Tensor) -> None:
        """Update a weight by the kernel; with AMSGrad or a gradient that is sparse or not float32, as Keras does."""
        weight = _variable(variable)
        is_dense = isinstance(gradient, tf.Tensor) and gradient.dtype == weight.dtype == tf.float32
        if self.amsgrad or not is_dense or not (_is_precise(self.beta_1) and _is_precise(self.beta_2)):
            super().update_step(gradient, variable, learning_rate)
            return
        momentum, velocity = (self._moments[id(weight), name] for name in ("momentum", "velocity"))
        beta_1, beta_2 = tf.cast(self.beta_1, tf.float32), tf.cast(self.beta_2, tf.float32)
        count = tf.cast(self.iterations + 1, tf.float32)
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle,
            m=momentum.value.handle,
            v=velocity.value.handle,
            beta1_power=tf.pow(beta_1, count),
            beta2_power=tf.pow(beta_2, count),
            lr=tf.cast(learning_rate, tf.float32),
            beta1=beta_1,
            beta2=beta_2,
            epsilon=tf.cast(self.epsilon, tf.float32),
            grad=gradient,
        )


def _variable(variable: keras.Variable | tf.Variable) -> tf.Variable:
    """Return the variable of TensorFlow, which Keras itself passes to `update_step`."""
    return variable.value if isinstance(variable, keras.Variable) else variable


def _is_precise(beta: float) -> bool:
    """Return True if float32 has enough digits for `1 - beta`."""
    return abs(float(1 - np.float32(beta)) - (1 - beta)) <= _LARGEST_ROUNDING * (1 - beta)
