"""Compiled steps of JAX, alone and in a loop, and their data; `tensorflowsteps.py` has the same for TensorFlow."""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import keras
import numpy as np

from tfaip.backend.keras_private import keep_state
from tfaip.backend.kerastools import Shapes, capacity, of_one_shape, packed, stacked
from tfaip.util.typing import Tensor

# Steps


class CompiledStep:
    """A compiled function of batches that reads and assigns Keras variables.

    JAX compiles functions without state. So the values of all variables are arguments of what is compiled, and what
    the function has changed is among its results. These values are kept here between the calls: assigning Keras
    variables after every one would take longer than a tiny model.

    Args:
        function: of dicts or tuples of arrays whose first dimension is the batch.
        variables: all that the function reads; what it changes of them is kept for the next call.
        accumulators: further variables, which every call updates in place.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        variables: Iterable[keras.Variable] = (),
        accumulators: Iterable[keras.Variable] = (),
        run_eagerly: bool = False,
    ) -> None:
        self._function = function
        self._variables = list(variables)
        self._accumulators = list(accumulators)
        # The accumulators alone are given away: what a compiled function returns is a copy, of all weights if it
        # returned them.
        self._step = self._stateless if run_eagerly else jax.jit(self._stateless, donate_argnums=0)
        self._accumulated: list[Any] = []
        self._values: list[Any] = []
        self._changed: set[int] = set()

    def read(self, of_this_process: bool = False) -> None:
        """Take the values of all variables, on which the following calls work.

        `fit` and `evaluate` give the arrays of the variables away: call it again after them.

        Args:
            of_this_process: each process goes its own way from here, on a copy of its own.
        """

        def value(variable: keras.Variable) -> Any:
            return local_value(variable.value) if of_this_process else variable.value

        self._values = [value(variable) for variable in self._variables]
        # Copies: the step gives away what it gets of them.
        self._accumulated = [value(variable).copy() for variable in self._accumulators]
        self._changed = set()

    def __call__(self, *arrays: Any) -> Any:
        """Return the result of the function, on the device, which may still be at work on it."""
        result, self._accumulated, changed = self._step(self._accumulated, self._values, arrays)
        for position, value in changed.items():
            self._values[position] = value
            self._changed.add(position)
        return result

    def write_variables(self) -> None:
        """Assign what the calls have changed of the variables."""
        for position in self._changed:
            self._variables[position].assign(self._values[position])

    def write_accumulators(self) -> None:
        """Assign the accumulators."""
        for variable, value in zip(self._accumulators, self._accumulated, strict=True):
            # Its own copy: the next call gives ours away.
            variable.assign(value.copy())

    def accumulated(self) -> list[np.ndarray]:
        """Return the values of the accumulators."""
        return [np.array(value) for value in self._accumulated]

    def _stateless(
        self, accumulated: list[Any], values: list[Any], arrays: tuple[Any, ...]
    ) -> tuple[Any, list[Any], dict[int, Any]]:
        """Return the result of the function, the accumulators, and of the other variables those that it changed."""
        state = [*zip(self._accumulators, accumulated, strict=True), *zip(self._variables, values, strict=True)]
        with keras.StatelessScope(state, collect_losses=True) as scope:
            result = self._function(*arrays)
        after = [scope.get_current_value(variable) for variable in self._variables]
        changed = {i: new for i, (old, new) in enumerate(zip(values, after, strict=True)) if new is not old}
        return result, [scope.get_current_value(variable) for variable in self._accumulators], changed


def local_value(value: Any) -> Any:
    """Return an array, or what this process has of one that several share."""
    return value if value.is_fully_addressable else value.addressable_data(0)


# Data of `fit` and `evaluate`


def dataset(specs: Sequence[Mapping[str, Any]], elements: Iterator[Any]) -> Any:
    """Return what `fit` and `evaluate` read, once: a generator."""
    return (packed(element) for element in elements)


# Steps in a loop

# Batches of one call, as of an execution on TensorFlow.
_STEPS = 16
# Bytes of the batches of one call, which are copied. For larger batches a call costs little against a step.
_BYTES = 2**20
# Steps that Python may be ahead of the device. A stop and a checkpoint wait for them.
_STEPS_AHEAD = 32

# Operations without fast code in a loop on a CPU: 10 to 30 times slower there than in a single call.
_SLOW_IN_LOOPS_ON_CPU = frozenset({"conv_general_dilated"})


class LoopedSteps:
    """Train function that `fit` calls for each execution: each call of the compiled loop trains several batches.

    Every step runs in one compiled loop (for each shape of a batch), whose length is an argument: a full call, a rest
    and a single step are the same program, which gives the same bits however the batches are divided into executions.
    Batches so large that a call has one of them need no loop. A GPU waits for the host before each round of one, which
    added 11 ms to the 26 ms of a step of a ResNet-50; on a CPU they keep the loop and with it their bits.

    Args:
        model: the training model, compiled.
        platform: of the devices: cpu, gpu, ...
    """

    def __init__(self, model: Any, platform: str) -> None:
        self._model = model
        self._is_on_cpu = platform == "cpu"
        self._step = jax.jit(model.train_step)
        self._loop = jax.jit(self._train, donate_argnums=0)
        self._alone = jax.jit(model.train_step, donate_argnums=0)
        self._running: deque[Any] = deque()

    def can_loop(self, batch: Any) -> bool:
        """Return True if the steps can run in a loop, as fast as each by itself."""
        if not self._is_on_cpu:
            return True
        model = self._model
        parts = (model.trainable_variables, model.non_trainable_variables, model.optimizer.variables)
        state = tuple([variable.value for variable in part] for part in (*parts, model.metrics_variables))
        return _SLOW_IN_LOOPS_ON_CPU.isdisjoint(operations(self._step.trace(state, batch).jaxpr.jaxpr))

    def __call__(self, state: Any, iterator: Iterator[Any]) -> tuple[Any, Any]:
        """Train the batches of one execution; return the logs of the last step, and the state after it."""
        logs = None
        try:
            some = itertools.islice(iterator, self._model.steps_per_execution)
            for batches in of_one_shape(some, _shapes, _STEPS, _BYTES):
                logs, state = self._call(state, batches)
                self._wait_for_earlier(logs, len(batches))
        except BaseException:
            # The state that was given is no more; `fit` assigns what the model has when it ends.
            keep_state(self._model, state)
            raise
        if logs is None:
            raise StopIteration
        return logs, state

    def _call(self, state: Any, batches: list[Any]) -> tuple[Any, Any]:
        is_large = _capacity(batches[0]) == 1
        result: tuple[Any, Any]
        if is_large and not self._is_on_cpu:
            result = self._alone(state, batches[0])
        else:
            result = self._loop(state, _stacked(batches), np.int32(len(batches)))
        return result

    def _wait_for_earlier(self, logs: Any, steps: int) -> None:
        self._running.append((logs, steps))
        while sum(steps for _, steps in self._running) > _STEPS_AHEAD:
            jax.block_until_ready(self._running.popleft()[0])

    def _train(self, state: Any, batches: Any, count: Tensor) -> tuple[Any, Any]:
        """Train the first `count` of some batches, which are stacked; this is compiled."""

        def step(number: Tensor, before: tuple[Any, Any]) -> tuple[Any, Any]:
            logs, after = self._step(before[1], jax.tree.map(lambda array: array[number], batches))
            # Keras returns other kinds of sequences than it takes.
            return logs, jax.tree.unflatten(jax.tree.structure(state), jax.tree.leaves(after))

        logs, _ = self._step.eval_shape(state, jax.tree.map(lambda array: array[0], batches))
        start = jax.tree.map(lambda value: jax.numpy.zeros(value.shape, value.dtype), logs)
        result: tuple[Any, Any] = jax.lax.fori_loop(0, count, step, (start, state))
        return result


def operations(program: Any) -> set[str]:
    """Return the names of all operations of a jaxpr, those in branches, loops and calls included."""
    names: set[str] = set()
    for equation in program.eqns:
        names.add(equation.primitive.name)
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_program):
            if _is_program(inner):
                names |= operations(getattr(inner, "jaxpr", inner))
    return names


def _is_program(value: Any) -> bool:
    return hasattr(value, "eqns") or hasattr(value, "jaxpr")


def _shapes(batch: Any) -> Shapes:
    return [(array.shape, array.dtype) for array in jax.tree.leaves(batch)]


def _capacity(batch: Any) -> int:
    """Return the batches of a full call: of nothing but their shapes, so that there is one program for each."""
    return capacity(_shapes(batch), _STEPS, _BYTES)


def _stacked(batches: Sequence[Any]) -> Any:
    """Return batches of one shape as one, with room for a full call."""
    room = _capacity(batches[0])
    if room == 1:
        return jax.tree.map(lambda array: array[None], batches[0])

    def stack(*arrays: Any) -> Any:
        if isinstance(arrays[0], jax.Array):  # was sent to the device ahead of the step
            return _stack_on_device([*arrays, *[arrays[0]] * (room - len(arrays))])
        return stacked(arrays, room)

    return jax.tree.map(stack, *batches)


_stack_on_device = jax.jit(jax.numpy.stack)
