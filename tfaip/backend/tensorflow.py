"""Functions of the TensorFlow backend; `jax.py` has the same ones for JAX."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from tfaip.backend.keras_private import keep_changes, seed_global_generator
from tfaip.backend.kerastools import Execution
from tfaip.backend.tensorflowsteps import (
    CompiledStep as CompiledStep,
    FusedAdam,
    LoopedSteps as LoopedSteps,
    dataset as dataset,
    no_data,
    prepared as prepared,
)
from tfaip.util.typing import Tensor, TensorDict

STRATEGY = "mirror"
"""Value of `dist_strategy` that shares the work among several devices."""

MODEL_KEEPS_STRATEGY = True
"""A model remembers the strategy in whose scope it was built."""

ALWAYS_COMPILES = False
"""XLA fails on graphs with string, sparse or CTC operations, so that it is used on request only."""

ADVICE_WITHOUT_COMPILATION = "XLA is off: these layers do not support it: %s. Leave out jit_compile"
"""Warning if layers do not support the compilation that was asked for."""

MOST_SHARED_STEPS: int | None = 1
"""Limit of `steps_per_execution` on several devices; None: there is none. Keras fails under MirroredStrategy."""

# Besides the chunk of batches that is trained and one that is being made.
_WAITING_CHUNKS = 1


# Devices


def configure_devices(gpu_memory: int | None) -> None:
    """Set up the devices, before they are used first.

    Args:
        gpu_memory: MiB to take of each GPU; None: as much as is needed.
    """
    for gpu in tf.config.list_physical_devices("GPU"):
        if gpu_memory is None:
            tf.config.experimental.set_memory_growth(gpu, True)
        else:
            limit = tf.config.LogicalDeviceConfiguration(memory_limit=gpu_memory)
            tf.config.set_logical_device_configuration(gpu, [limit])


def device_names() -> list[str]:
    """Return the names of all GPUs, or of the CPUs if there is none."""
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    return [device.name.removeprefix("/device:") for device in devices]


# True while losses are computed whose means Keras must not divide by the replicas.
_keeps_means: ContextVar[bool] = ContextVar("keeps_means", default=False)


class _Strategy(tf.distribute.MirroredStrategy):
    """Strategy whose replicas Keras does not see where means are kept."""

    @property
    def num_replicas_in_sync(self) -> int:
        return 1 if _keeps_means.get() else int(super().num_replicas_in_sync)


@cache
def create_strategy(names: tuple[str, ...]) -> Any:
    """Return the strategy that shares batches among devices."""
    # One for the process: TensorFlow mixes up the collective operations of two, which are numbered alike ("Shape
    # mismatch in the collective instance").
    return _Strategy(list(names))


def outside_strategy(variables: Sequence[keras.Variable]) -> list[str]:
    """Return the paths of variables that were not made in the scope of the strategy that is active."""
    extended = tf.distribute.get_strategy().extended
    return [variable.path for variable in variables if not extended.variable_created_in_scope(variable.value)]


def seed(number: int) -> None:
    """Seed the global generators of Python, NumPy and the backend."""
    keras.utils.set_random_seed(number)
    seed_global_generator(number)


# Compiled steps


def train_function(model: Any, execution: Execution, data: Any) -> tuple[Callable[..., Any] | None, Any]:
    """Decide how `fit` executes the steps of a model; return its train function and the data.

    Args:
        model: compiled; its `steps_per_execution` may be changed.
        execution: what was decided so far, and here.
        data: those of `fit`, of which the first batch may be read.

    Returns:
        What `fit` calls for each execution (None: Keras makes it), and the data with its first batch.
    """
    return evaluation_function(model, model.train_function, model.train_step, data)


def evaluation_function(model: Any, function: Any, step: Callable[..., Any], data: Any) -> tuple[Any, Any]:
    """Return what `evaluate` calls for each execution of a step (None: Keras makes it), and the data.

    Args:
        function: what this has returned before; None: the first call.
        step: of the model.
        data: those of `evaluate`.
    """
    if isinstance(model.distribute_strategy, _Strategy):
        return function, data
    looped = function or LoopedSteps(model, step)
    looped.read(data)
    return looped, no_data()


def synchronize(model: keras.Model) -> None:
    """Assign to the variables of a model what `fit` keeps elsewhere while it runs; on TensorFlow there is nothing."""


def metric_values(model: keras.Model) -> Sequence[Any]:
    """Return what `metrics_variables` of a model hold after the last execution of a running `fit`; a read may wait."""
    return [host_view(variable).copy() for variable in model.metrics_variables]


def named_part(name: str) -> AbstractContextManager[Any]:
    """Return a context whose operations have a name: letters, digits, dots and underscores."""
    context: AbstractContextManager[Any] = tf.name_scope(name)
    return context


def failed_operation(error: Exception) -> str | None:
    """Return the full text of an error of an operation, with its names; None: it is another error."""
    return error.message if isinstance(error, tf.errors.OpError) else None


def after_the_data(data: Any) -> AbstractContextManager[Any]:
    """Return a context in which all operations wait for the batch of the step.

    One execution of an evaluation may be the one that finds the end of the data. With one step per execution TensorFlow
    would run in it whatever does not depend on the batch: a `Mean` of a scalar would count one batch too many, and a
    random generator would draw once more.

    Args:
        data: the batch, nested tensors.
    """
    context: AbstractContextManager[Any] = tf.control_dependencies(tf.nest.flatten(data))
    return context


def before_step(model: Any, arguments: tuple[Any, ...], assign: Callable[[], None]) -> tuple[Any, ...]:
    """Return the arguments of a training step after a function has assigned variables.

    Args:
        arguments: of its `train_step`.
        assign: may assign variables of the model that are not trained, and those of its optimizer.
    """
    assign()
    return arguments


def keeping_finite(
    model: Any, step: Callable[..., Any], groups: Sequence[tuple[keras.Variable, Sequence[keras.Variable]]]
) -> Callable[..., Any]:
    """Return a training step that leaves variables as they are where one would become infinite or NaN.

    Args:
        step: its `train_step`.
        groups: the variable that must stay finite, and all variables (itself too) that keep their values with it: not
            trained, or of the metrics.
    """
    if not groups:
        return step

    def checked(*arguments: Any) -> Any:
        before = [[tf.identity(variable.value) for variable in group] for _, group in groups]
        logs = step(*arguments)
        for (decisive, group), values in zip(groups, before, strict=True):
            was = next(value for variable, value in zip(group, values, strict=True) if variable is decisive)
            stays = _on_all_replicas(tf.reduce_all(tf.math.is_finite(decisive.value) | ~tf.math.is_finite(was)))
            for variable, value in zip(group, values, strict=True):
                variable.assign(tf.where(stays, tf.identity(variable.value), value))
        return logs

    return checked


def _on_all_replicas(flag: Tensor) -> Tensor:
    """Return a boolean scalar: True if the flag is so on each replica."""
    if not tf.distribute.has_strategy():
        return flag
    context = tf.distribute.get_replica_context()
    return tf.equal(context.all_reduce(tf.distribute.ReduceOp.SUM, 1.0 - tf.cast(flag, tf.float32)), 0.0)


def with_fewest_operations(optimizer: type[keras.optimizers.Optimizer]) -> type[keras.optimizers.Optimizer]:
    """Return a class with the update rule of a Keras class, in the form that this backend computes fastest."""
    return FusedAdam if optimizer is keras.optimizers.Adam else optimizer


def exported_outputs(
    function: Callable[[TensorDict], TensorDict],
    variables: Sequence[keras.Variable],
    inputs: Mapping[str, np.ndarray],
    shapes: Mapping[str, Sequence[int | None]],
) -> dict[str, np.ndarray] | None:
    """Export a function for batches of any size in the format of the backend itself; return its outputs for a batch.

    Args:
        function: inputs -> outputs, both by name.
        variables: all that the function reads.
        shapes: shape of each input, with the batch; None: any size.

    Returns:
        The outputs by name; None: the function cannot be exported so.
    """
    return None  # that format is the SavedModel, which is checked itself


def branch(
    predicate: Tensor, then: Callable[[], None], otherwise: Callable[[], None], variables: Sequence[keras.Variable]
) -> None:
    """Run one of two functions, and only that one.

    Args:
        predicate: a boolean scalar.
        then: assigns variables, if the predicate is true.
        otherwise: likewise, if it is false.
        variables: everything that the two may read or assign.
    """
    ops.cond(predicate, then, otherwise)


@contextlib.contextmanager
def replaced_values(layer: keras.layers.Layer, values: Sequence[tuple[keras.Variable, Tensor]]) -> Iterator[None]:
    """Context in which variables have other values; what is assigned to others, and added as a loss, holds afterwards.

    Args:
        layer: holds all layers that run in the block; takes over the losses that they add.
        values: variables and their values in the block.
    """
    with keras.StatelessScope(state_mapping=values, collect_losses=True, initialize_variables=False) as scope:
        yield
    # In a replica Keras cannot draw without a seed: it would make the generator there.
    keep_changes(scope, layer, {id(variable) for variable, _ in values}, not tf.distribute.has_strategy())


def losses_and_gradients(
    sample_losses: Callable[[TensorDict], Tensor], inputs: TensorDict
) -> tuple[Tensor, TensorDict]:
    """Return the loss of each sample, and the gradient of their sum with respect to the inputs."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(inputs)
        losses = sample_losses(inputs)
    gradients = tape.gradient(losses, inputs, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return losses, {name: _dense(gradient, inputs[name]) for name, gradient in gradients.items()}


# Replicas


def num_replicas() -> int:
    """Return into how many parts a batch is split, each of which runs the step; 1 where a step sees whole batches."""
    return int(tf.distribute.get_strategy().num_replicas_in_sync)


@contextlib.contextmanager
def kept_means() -> Iterator[None]:
    """Context in which loss objects of Keras return means over the part of a batch that a replica has."""
    token = _keeps_means.set(True)
    try:
        yield
    finally:
        _keeps_means.reset(token)


def replica_number() -> Any:
    """Return which part of a batch this replica has, from 0; 0 also where nothing is split."""
    context = tf.distribute.get_replica_context()
    if context is None:  # while the model is built
        return 0
    number, is_whole = context.replica_id_in_sync_group, _is_whole.get()
    return number if is_whole is None else tf.where(is_whole, 0, number)


def samples_of_batch(rows: Tensor) -> Tensor:
    """Return the number of samples of a batch, over all replicas (`rows`: of this replica; all have equally many)."""
    is_whole, of_all = _is_whole.get(), rows * num_replicas()
    return of_all if is_whole is None else tf.where(is_whole, rows, of_all)


@contextlib.contextmanager
def numerics_checked() -> Iterator[None]:
    """Context in which the result of an operation, not compiled, that is not finite raises a FloatingPointError."""
    tf.debugging.enable_check_numerics()
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        found = re.search(r'Detected Infinity or NaN in .* op "(\w+)"', str(error))
        if found is None:
            raise
        raise FloatingPointError(f"{found[1]} gives NaN or infinity") from error
    finally:
        tf.debugging.disable_check_numerics()


def sum_over_replicas(gradients: Sequence[Any], weights: Sequence[Any]) -> list[Tensor]:
    """Return the gradients of the whole batch, equal on all replicas, dense and with the shapes of their weights."""
    if tf.distribute.has_strategy():
        context = tf.distribute.get_replica_context()
        gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, list(gradients))
    return [_dense(gradient, weight) for gradient, weight in zip(gradients, weights, strict=True)]


def _dense(gradient: Any, of: Any) -> Tensor:
    """Return the gradient of a variable or tensor as one tensor of its shape: slices list a row once for each use."""
    if isinstance(gradient, tf.IndexedSlices):
        gradient = tf.math.unsorted_segment_sum(gradient.values, gradient.indices, ops.shape(of)[0])
    gradient.set_shape(of.shape)
    return gradient


def mark(rows: int, copies: int, is_whole: bool) -> np.ndarray:
    """Return what tells the steps whether every device has the whole batch; it is split as the batch is.

    Args:
        rows: of all copies of the batch together.
        copies: number of devices of this process.
        is_whole: the batch has so many copies, one for each device.
    """
    return np.full(rows, is_whole)


# True in a step whose replicas all have the whole batch, a boolean tensor; replicas are threads.
_is_whole: ContextVar[Any] = ContextVar("is_whole", default=None)


def run_step(model: Any, step: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Run a step of `fit` or `evaluate`. A batch that all replicas have as a whole is measured by the first one alone.

    Args:
        model: whose `metrics_variables` measure.
        arguments: its own; the batch may come with what `mark` has returned.
    """
    data = arguments[-1]
    if len(data) == 1:
        return step(*arguments)
    batch, marked = data
    is_whole = marked[0]
    before = [(variable, tf.identity(variable.value)) for variable in model.metrics_variables]
    token = _is_whole.set(is_whole)
    try:
        logs = step((batch,))
    finally:
        _is_whole.reset(token)

    def forget() -> None:
        for variable, value in before:
            variable.assign(value)

    number = tf.distribute.get_replica_context().replica_id_in_sync_group
    ops.cond(tf.logical_and(is_whole, number > 0), forget, lambda: None)
    return logs


def with_whole_batches(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what `fit` or `evaluate` calls for each execution, given batches that a device may have as a whole."""
    return function  # `run_step` deals with them


# Data of `fit` and `evaluate`


def num_waiting(is_shared: bool) -> int:
    """Return how many of its items a thread must prepare ahead of the step; 0: no thread is needed.

    Args:
        is_shared: several devices share the batches.
    """
    return 0 if is_shared else _WAITING_CHUNKS  # tf.data has threads of its own


def to_numpy(value: Any) -> np.ndarray:
    """Return a copy of a tensor, dense if it is sparse or ragged; waits for its computation."""
    array: np.ndarray = ops.convert_to_numpy(value)
    return array


def host_view(variable: keras.Variable) -> np.ndarray:
    """Return the value of a variable, a view if it is in memory of the host: drop it before the next step."""
    # A tensor of TensorFlow and the variable share their memory until the variable is assigned.
    return np.asarray(tf.convert_to_tensor(variable.value))


# Operations


@cache
def fused(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function of element-wise operations that runs as one loop over the elements."""
    # On a GPU, XLA needs parts of CUDA that the package of TensorFlow does not bring.
    return tf.function(function, jit_compile=not tf.config.list_logical_devices("GPU"), autograph=False)


def fold(step: Callable[[Any, Tensor], Any], initial: Any, elements: Tensor) -> Any:
    """Return the state after a loop over the first axis of `elements`: `state = step(state, element)`.

    As `keras.ops.scan`, but differentiable where XLA compiles, which must know the largest number of steps.

    Args:
        step: `state, element -> state`; states keep their structure, shapes and types.
        initial: tensors in any structure.
        elements: `[steps, ...]`.
    """
    count = tf.shape(elements)[0]
    array = tf.TensorArray(elements.dtype, size=count, element_shape=elements.shape[1:]).unstack(elements)

    def body(index: Tensor, state: Any) -> tuple[Tensor, Any]:
        new = step(state, array.read(index))
        for after, before in zip(tf.nest.flatten(new), tf.nest.flatten(state), strict=True):
            after.set_shape(before.shape)
        return index + 1, new

    _, final = tf.while_loop(lambda index, _: index < count, body, (0, initial), maximum_iterations=count)
    return final


def take_classes(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the scores of the classes of each sample in all frames.

    Args:
        scores: `[batch, time, class]`.
        labels: classes, `[batch, label]`.

    Returns:
        `[batch, time, label]`.
    """
    index = ops.repeat(labels[:, None], ops.shape(scores)[1], axis=1)
    return ops.take_along_axis(scores, index, axis=2)


# Profiling


def start_profile(directory: Path) -> None:
    """Begin to trace all that the backend does."""
    tf.profiler.experimental.start(str(directory))


def stop_profile() -> None:
    """Stop tracing and write the trace."""
    tf.profiler.experimental.stop()


def profiled_step(number: int) -> AbstractContextManager[Any]:
    """Return a context whose extent the profiler's page shows as one step."""
    # `_r=1` marks the root of a step. It is not documented; without it the page finds no steps.
    context: AbstractContextManager[Any] = tf.profiler.experimental.Trace("train", step_num=number, _r=1)
    return context
