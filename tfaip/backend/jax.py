"""Functions of the JAX backend; `tensorflow.py` has the same ones for TensorFlow, with longer descriptions."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np
from jax import export
from keras import ops

from tfaip.backend.jaxsteps import (
    CompiledStep as CompiledStep,
    LoopedSteps as LoopedSteps,
    dataset as dataset,
    local_value,
)
from tfaip.backend.keras_private import assign_kept_state, running_metrics, seed_global_generator
from tfaip.backend.kerastools import Execution, without_autocast
from tfaip.util.typing import Element, Tensor, TensorDict

STRATEGY = "data_parallel"

MODEL_KEEPS_STRATEGY = False
"""`fit` asks for the distribution whose scope is active."""

# A step that is not compiled runs operation by operation.
ALWAYS_COMPILES = True

ADVICE_WITHOUT_COMPILATION = (
    "the training is not compiled, which is many times slower, since these layers do not support it: %s. Do their work "
    "in a pre-processor of the data, or set supports_jit = True on a layer that jax compiles"
)

MOST_SHARED_STEPS: int | None = None

# Besides the batch that is trained and one that is on its way.
_WAITING_ON_DEVICE = 1

# Operations of an export that other programs may not know: TensorFlow has no `top_k`, and no LAPACK of JAX.
_CALLS = re.compile(r"(?:custom_call @|chlo\.(?=top_k\b))([\w.$]+)")
_CALLS_ANYWHERE = frozenset({"shape_assertion"})


# Devices


def configure_devices(gpu_memory: int | None) -> None:
    """Do nothing: JAX reads environment variables (see `environment.py`)."""


def device_names() -> list[str]:
    """Return the names of the devices of all processes."""
    return [f"{device.platform}:{device.id}" for device in jax.devices()]


def create_strategy(names: tuple[str, ...]) -> Any:
    """Return the distribution that shares batches among devices."""
    return keras.distribution.DataParallel(devices=list(names), auto_shard_dataset=False)


def outside_strategy(variables: Sequence[keras.Variable]) -> list[str]:
    """Return the paths of variables that were made outside of the distribution that is active."""
    distribution = keras.distribution.distribution()
    number = 1 if distribution is None else distribution.device_mesh.devices.size
    return [variable.path for variable in variables if len(variable.value.sharding.device_set) < number]


def seed(number: int) -> None:
    """Seed the global generators of Python, NumPy and Keras; JAX has none."""
    # As `keras.utils.set_random_seed`, which would import an installed TensorFlow to seed it too.
    np.random.seed(number)
    seed_global_generator(number)


# Compiled steps


def train_function(model: Any, execution: Execution, data: Any) -> tuple[Callable[..., Any] | None, Any]:
    """Decide how `fit` executes the steps of a model; return its train function and the data."""
    if model.train_function is not None:
        return model.train_function, data
    looped = None
    if model.jit_compile and not model.run_eagerly and keras.distribution.distribution() is None:
        steps = LoopedSteps(model, jax.default_backend())
        first = next(data, None) if execution.loops is None else None
        if first is not None:
            execution.loops = steps.can_loop(first)
            data = (item for item in chain([first], data))  # `fit` takes a generator
        looped = steps if execution.loops else None
    if looped is None and execution.is_automatic:
        # Nothing is gained by more, and signals are seen later.
        model.steps_per_execution = 1
    return looped, data


def evaluation_function(model: Any, function: Any, step: Callable[..., Any], data: Any) -> tuple[Any, Any]:
    """Return what `evaluate` calls for each execution of a step (None: Keras makes it), and the data."""
    return function, data


def synchronize(model: keras.Model) -> None:
    """Assign to the variables of a model what `fit` keeps elsewhere while it runs."""
    assign_kept_state(model)


def metric_values(model: keras.Model) -> Sequence[Any]:
    """Return copies of the metrics in a running `fit`, without waiting: the next execution gives the arrays away."""
    return _copies([local_value(value) for value in running_metrics(model)])


_copies = jax.jit(partial(jax.tree.map, jax.numpy.copy))


def named_part(name: str) -> AbstractContextManager[Any]:
    """Return an empty context: shapes are known when a step is traced."""
    return nullcontext()


def failed_operation(error: Exception) -> str | None:
    """Return None, see `named_part`."""
    return None


def after_the_data(data: Any) -> AbstractContextManager[Any]:
    """Return an empty context: there is no step without a batch."""
    return nullcontext()


def before_step(model: Any, arguments: tuple[Any, ...], assign: Callable[[], None]) -> tuple[Any, ...]:
    """Return the arguments of a training step after a function has assigned variables."""
    state, data = arguments
    trained, others, optimizer, metrics = state
    named = (model.trainable_variables, model.non_trainable_variables, model.optimizer.variables)
    variables = [variable for part in named for variable in part]
    with keras.StatelessScope(list(zip(variables, [*trained, *others, *optimizer], strict=True))) as scope:
        assign()
    values = [[scope.get_current_value(variable) for variable in part] for part in named]
    return (*values, metrics), data


def keeping_finite(
    model: Any, step: Callable[..., Any], groups: Sequence[tuple[keras.Variable, Sequence[keras.Variable]]]
) -> Callable[..., Any]:
    """Return a training step that leaves variables as they are where one would become infinite or NaN."""
    if not groups:
        return step

    def checked(state: Any, data: Any) -> Any:
        logs, (trained, others, optimizer, metrics) = step(state, data)
        variables = [*model.non_trainable_variables, *model.metrics_variables]
        place = {id(variable): i for i, variable in enumerate(variables)}
        before, after = [*state[1], *state[3]], [*others, *metrics]
        for decisive, group in groups:
            at = place[id(decisive)]
            stays = (jax.numpy.isfinite(after[at]) | ~jax.numpy.isfinite(before[at])).all()
            for i in (place[id(variable)] for variable in group):
                after[i] = jax.numpy.where(stays, after[i], before[i])
        return logs, (trained, after[: len(others)], optimizer, after[len(others) :])

    return checked


def with_fewest_operations(optimizer: type[keras.optimizers.Optimizer]) -> type[keras.optimizers.Optimizer]:
    """Return a class with the update rule of a Keras class, in the form that this backend computes fastest."""
    return optimizer  # XLA fuses the operations


def exported_outputs(
    function: Callable[[TensorDict], TensorDict],
    variables: Sequence[keras.Variable],
    inputs: Mapping[str, np.ndarray],
    shapes: Mapping[str, Sequence[int | None]],
) -> dict[str, np.ndarray] | None:
    """Export a function for batches of any size in the format of the backend itself; return its outputs for a batch.

    It needs no TensorFlow, whose import takes longer than the rest of a SavedModel.
    """

    def stateless(values: list[Any], batch: TensorDict) -> TensorDict:
        with keras.StatelessScope(list(zip(variables, values, strict=True))):
            return function(batch)

    values = [local_value(variable.value) for variable in variables]
    try:
        exported = export.export(jax.jit(stateless))(values, _specs(inputs, shapes))
        outputs = exported.call(values, dict(inputs))
    except Exception:  # it is code of the user; the export itself says more
        return None
    is_flat = all(isinstance(name, str) and isinstance(value, jax.Array) for name, value in outputs.items())
    if not is_flat or any(name not in _CALLS_ANYWHERE for name in _CALLS.findall(exported.mlir_module())):
        return None
    return {name: np.asarray(output) for name, output in outputs.items()}


def _specs(inputs: Mapping[str, np.ndarray], shapes: Mapping[str, Sequence[int | None]]) -> TensorDict:
    """Return the specs of inputs for batches of any size."""
    scope = export.SymbolicScope()
    specs = {}
    for number, (name, array) in enumerate(inputs.items()):
        sizes = [f"size_{number}_{axis}" if size is None else str(size) for axis, size in enumerate(shapes[name])]
        shape = export.symbolic_shape(",".join(["batch", *sizes[1:]]), scope=scope)
        specs[name] = jax.ShapeDtypeStruct(shape, array.dtype)
    return specs


def branch(
    predicate: Tensor, then: Callable[[], None], otherwise: Callable[[], None], variables: Sequence[keras.Variable]
) -> None:
    """Run one of two functions, and only that one."""
    if not isinstance(predicate, jax.core.Tracer):
        # Not compiled: a condition of JAX would be, again in every step, which takes 0.3 s.
        chosen = then if predicate else otherwise
        chosen()
        return
    # JAX has no assignments: each branch computes all new values, which are assigned outside.
    before = [(variable, variable.value) for variable in variables]

    def values_after(function: Callable[[], None]) -> list[Tensor]:
        with keras.StatelessScope(state_mapping=before) as scope:
            function()
        return [scope.get_current_value(variable) for variable in variables]

    after = ops.cond(predicate, lambda: values_after(then), lambda: values_after(otherwise))
    for variable, value in zip(variables, after, strict=True):
        variable.assign(value)


@contextlib.contextmanager
def replaced_values(layer: keras.layers.Layer, values: Sequence[tuple[keras.Variable, Tensor]]) -> Iterator[None]:
    """Context in which variables have other values; what is assigned to others, or added as a loss, stays."""
    # What is assigned in a compiled step is a value, and not the memory of the variable.
    before = without_autocast(lambda: [variable.value for variable, _ in values])
    try:
        for variable, value in values:
            variable.assign(value)
        yield
    finally:
        for (variable, _), value in zip(values, before, strict=True):
            variable.assign(value)


def losses_and_gradients(
    sample_losses: Callable[[TensorDict], Tensor], inputs: TensorDict
) -> tuple[Tensor, TensorDict]:
    """Return the loss of each sample, and the gradient of their sum with respect to the inputs."""

    def total(inputs: TensorDict) -> tuple[Tensor, Tensor]:
        losses = sample_losses(inputs)
        return ops.sum(losses), losses

    gradients, losses = jax.grad(total, has_aux=True)(inputs)
    return losses, gradients


# Replicas


def num_replicas() -> int:
    """Return 1: a step sees whole batches on any number of devices."""
    return 1


@contextlib.contextmanager
def kept_means() -> Iterator[None]:
    """Context without effect: loss objects of Keras return means over the whole batch."""
    yield


def replica_number() -> Any:
    """Return 0: there is one."""
    return 0


def samples_of_batch(rows: Tensor) -> Tensor:
    """Return the number of samples of a batch, which is that of its rows."""
    return rows


@contextlib.contextmanager
def numerics_checked() -> Iterator[None]:
    """Context in which the result of an operation, not compiled, that is NaN raises a FloatingPointError."""
    try:
        with jax.debug_nans(True):
            yield
    except FloatingPointError as error:
        text = re.sub(r"\x1b\[\d+m", "", str(error)).partition("Arguments received by")[0]
        raise FloatingPointError(" ".join(text.split())) from error


def sum_over_replicas(gradients: Sequence[Any], weights: Sequence[Any]) -> list[Tensor]:
    """Return the gradients as they are, those of the whole batch."""
    return list(gradients)


def mark(rows: int, copies: int, is_whole: bool) -> np.ndarray:
    """Return what tells the steps, by its shape, whether every device has the whole batch."""
    return np.zeros(2 * copies if is_whole else copies, np.int8)


def run_step(model: Any, step: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Run a step of `fit` or `evaluate`."""
    return step(*arguments)


def with_whole_batches(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what `fit` or `evaluate` calls for each execution, given batches that a device may have as a whole."""
    if keras.distribution.distribution() is None:
        return function
    return lambda state, iterator: function(state, map(_as_one_device_has_it, iterator))


def _as_one_device_has_it(data: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a batch without its mark; a whole one with the rows that it has on one device, the same on all."""
    if len(data) == 1:
        return data
    batch, marked = data
    if marked.shape[0] == marked.sharding.num_devices:
        return (batch,)

    def of_all(copies: Any) -> Any:
        # No bytes are moved: each device has its copy.
        own = [part.data for part in copies.addressable_shards]
        sharding = jax.sharding.NamedSharding(copies.sharding.mesh, jax.sharding.PartitionSpec())
        return jax.make_array_from_single_device_arrays(own[0].shape, sharding, own)

    return (jax.tree.map(of_all, batch),)


# Data of `fit` and `evaluate`


def num_waiting(is_shared: bool) -> int:
    """Return how many of its items a thread must prepare ahead of the step; 0: no thread is needed."""
    # A step runs while Python continues. On a CPU that is enough: a thread competes with it for the interpreter, and
    # 480 us a step became 640. On other devices the thread works while Keras waits for a value.
    return 0 if jax.default_backend() == "cpu" else _WAITING_ON_DEVICE


def prepared(elements: Iterator[Element], is_shared: bool) -> Iterator[Any]:
    """Return the elements on the device, where a thread sends them ahead; as they are where that is for Keras to do."""
    if is_shared or not num_waiting(is_shared):
        return elements  # Keras knows which device gets which rows
    return map(jax.device_put, elements)


def to_numpy(value: Any) -> np.ndarray:
    """Return a copy of an array; waits for its computation."""
    # `keras.ops.convert_to_numpy` looks for symbolic tensors first, which takes 5 us.
    return np.array(value)


def host_view(variable: keras.Variable) -> np.ndarray:
    """Return the value of a variable, a view if it is in memory of the host: drop it before the next step."""
    # While there is a view, a step that gives the array away cannot use its memory.
    return np.asarray(variable.value)


# Operations


def fused(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function of element-wise operations that runs as one loop over the elements: XLA does that by itself."""
    return function


def fold(step: Callable[[Any, Tensor], Any], initial: Any, elements: Tensor) -> Any:
    """Return the state after a loop over the first axis of `elements`: `state = step(state, element)`."""
    final, _ = jax.lax.scan(lambda state, element: (step(state, element), None), initial, elements)
    return final


def take_classes(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the scores of the classes of each sample in all frames."""
    return _take_classes(scores, labels, scores.shape[2])


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _take_classes(scores: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    index = ops.repeat(labels[:, None], scores.shape[1], axis=1)
    return ops.take_along_axis(scores, index, axis=2)


def _take_classes_forward(scores: Tensor, labels: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    return _take_classes(scores, labels, num_classes), labels


def _take_classes_backward(num_classes: int, labels: Tensor, gradient: Tensor) -> tuple[Tensor, None]:
    # JAX would add the elements one by one, which takes as long as all the rest of the CTC loss.
    one_hot = jax.nn.one_hot(labels, num_classes, dtype=gradient.dtype)
    return jax.numpy.einsum("btn,bnk->btk", gradient, one_hot, precision="highest"), None


_take_classes.defvjp(_take_classes_forward, _take_classes_backward)


# Profiling


def start_profile(directory: Path) -> None:
    """Begin to trace all that the backend does."""
    jax.profiler.start_trace(directory)


def stop_profile() -> None:
    """Stop tracing and write the trace."""
    jax.profiler.stop_trace()


def profiled_step(number: int) -> AbstractContextManager[Any]:
    """Return a context whose extent the profiler's page shows as one step."""
    context: AbstractContextManager[Any] = jax.profiler.StepTraceAnnotation("train", step_num=number)
    return context
