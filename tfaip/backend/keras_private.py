"""Names of Keras that are not public, or not documented: used here alone, each with the public way that is missing.

What Keras guarantees ends at its public names, so that a new version may rename what is used here without notice.
`test/backend/test_keras_private.py` checks each name and what is expected of it; `requirements.txt` bounds the version.

Further names of this kind are in `jax.py` and `tensorflow.py` (one each), `processes.py` and `tensorboard_private.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
from keras import ops
from keras.src.backend.common import global_state
from keras.src.backend.common.masking import get_keras_mask
from keras.src.backend.common.stateless_scope import get_stateless_scope
from keras.src.backend.common.variables import AutocastScope
from keras.src.layers.rnn.conv_lstm import ConvLSTMCell
from keras.src.losses.losses import LossFunctionWrapper
from keras.src.random import seed_generator
from keras.src.utils.naming import to_snake_case

from tfaip.util.typing import Tensor

# Attributes of Keras objects that list what other attributes hold already. There is no public list of the attributes
# that the author of a layer has set.
__all__ = ["ConvLSTMCell"]
COLLECTIONS = frozenset(
    {
        "_layers",
        "_metrics",
        "_trainable_variables",
        "_non_trainable_variables",
        "_seed_generators",
        "_tracker",
    }
)


# Models


class BuiltModel(keras.Model):
    """Base of a model whose variables all exist before `fit`."""

    def __setattr__(self, name: str, value: Any) -> None:
        # Set after every step on JAX: searching it for layers and variables to track costs a third of a small step.
        # There is no public way to exclude an attribute from the tracking.
        if name == "_jax_state":
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Do nothing: all is built.

        With a distribution strategy `fit` takes the first batch of a dataset to build the model, and loses what was
        prefetched after it. `Model.built` does not prevent that.
        """

    def forget_compiled_steps(self) -> None:
        """Let `fit` and `evaluate` compile their steps again.

        `compile` would do it too, but forgets the optimizer's and the metrics' place in a running training.
        """
        self.train_function = self.test_function = None
        # JAX finds what it has traced by the function, and a bound method is equal to itself: a new object is not.
        for name in ("train_step", "test_step"):
            object.__setattr__(self, name, partial(getattr(type(self), name), self))


def loss_tracker(model: keras.Model) -> keras.metrics.Metric:
    """Return the mean of the total loss, which `fit` updates; it exists once the model is compiled.

    `Model.metrics` contains it among others, in a search of all layers.
    """
    return model._loss_tracker


def stop_evaluation(model: keras.Model) -> None:
    """Let `evaluate` end after this batch: `stop_training`, which is documented, ends `fit` only."""
    model.stop_evaluating = True


def layers_of(model: keras.Model) -> list[keras.layers.Layer]:
    """Return the layers on all levels that Keras asks for `supports_jit`; `Model.layers` has the uppermost ones."""
    return list(model._flatten_layers())


def sublayers(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Return the layers that a layer holds itself, in the order in which it got them.

    `Model.layers` has them of models only.
    """
    return list(layer._layers)


def is_functional(model: keras.Model) -> bool:
    """Return True if the layers of a model are those of a graph of calls, which have no attributes.

    The class of such models is not public.
    """
    return isinstance(model, keras.Sequential) or type(model).__name__ == "Functional"


@contextmanager
def own_training_flag(layer: keras.layers.Layer) -> Iterator[None]:
    """Context of a call of a layer, after which `training` is as it was before for the calling layer.

    Keras passes `training` on through a context, in which a nested call leaves its value: after a
    `self.decoder.predict(...)` no dropout of the calling graph would act any more.
    """
    context = layer._get_call_context()
    training = context.get_value("training")
    try:
        yield
    finally:
        context.set_value("training", training)
        layer._maybe_reset_call_context()


class RecordingScope(keras.StatelessScope):
    """Scope that also knows which variables were assigned in it; the public one finds the value of a given variable."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.assigned: list[keras.Variable] = []

    def add_update(self, update: tuple[keras.Variable, Tensor]) -> None:
        """Record an assignment; called by `Variable.assign`."""
        self.assigned.append(update[0])
        super().add_update(update)


@contextmanager
def replaced_values(layer: keras.layers.Layer, values: Sequence[tuple[keras.Variable, Tensor]]) -> Iterator[None]:
    """Context in which variables have other values; what is assigned to others, and added as a loss, holds afterwards.

    Args:
        layer: takes over the losses that layers add in the block.
        values: variables and their values in the block.
    """
    outer = get_stateless_scope()
    with RecordingScope(state_mapping=values, collect_losses=True, initialize_variables=False) as scope:
        if outer is not None:
            known = {id(variable) for variable, _ in values}
            scope.state_mapping = {**outer.state_mapping, **{i: scope.state_mapping[i] for i in known}}
        yield
    replaced = {id(variable) for variable, _ in values}
    for variable in {id(v): v for v in scope.assigned if id(v) not in replaced}.values():
        variable.assign(scope.get_current_value(variable))
    for loss in scope.losses:
        if outer is None:
            layer.add_loss(loss)
        elif outer.collect_losses:
            outer.add_loss(loss)  # the layer that it is from knows it


def without_autocast() -> AutocastScope:
    """Return a context in which variables have their own type, whatever the precision of the calling layer."""
    return AutocastScope(None)


def call_with_values(
    layer: keras.layers.Layer, variables: Sequence[keras.Variable], values: Mapping[int, Tensor], inputs: Tensor
) -> tuple[Tensor, list[Tensor], list[tuple[keras.Variable, Tensor]]]:
    """Call a layer with other values of its variables, also within a call that does the same with other variables.

    The public `stateless_call` adds the regularizers of the weights, with the other values, to the losses of the call,
    and the layer keeps the losses, which would count twice if the caller adds them to its own.

    Args:
        layer: the layer, built.
        variables: all its variables.
        values: their values by the `id` of the variable.
        inputs: of the layer.

    Returns:
        The outputs, the losses that the layer has added, and the variables that it has assigned with their new values.
    """
    with keras.StatelessScope([(v, values[id(v)]) for v in variables], collect_losses=True) as scope:
        before = [scope.get_current_value(v) for v in variables]
        outputs = layer(inputs)
        after = [scope.get_current_value(v) for v in variables]
        losses = list(scope.losses)
        layer._clear_losses()  # the caller adds them: they would count twice
    updates = [(v, new) for v, old, new in zip(variables, before, after, strict=True) if new is not old]
    return outputs, losses, updates


# Losses and metrics


def mask_of(tensor: Tensor) -> Tensor | None:
    """Return the mask that layers have attached to a tensor; None: none."""
    return get_keras_mask(tensor)


class FunctionLoss(LossFunctionWrapper):
    """The loss that `compile` makes of a function: it gives target and output the same rank."""


def has_label_smoothing(loss: Any) -> bool:
    """Return True if a loss smooths labels by a number that can be a variable, see `set_label_smoothing`."""
    return isinstance(loss, LossFunctionWrapper) and "label_smoothing" in loss._fn_kwargs


def set_label_smoothing(loss: Any, value: float | keras.Variable) -> float | keras.Variable:
    """Let a loss smooth labels by another number; return the one before. A new object would lose its other settings."""
    before: float | keras.Variable = loss._fn_kwargs["label_smoothing"]
    loss._fn_kwargs["label_smoothing"] = value
    return before


def snake_case(name: str) -> str:
    """Return the name that Keras gives to the first object of a class."""
    return to_snake_case(name)


# Numbers that are variables


class NumberVariable(keras.Variable):
    """Variable in the place of a number above 0.

    Some objects of Keras ask `if self.momentum > 0` or `if label_smoothing` to leave an operation out. The answer for a
    variable is always yes.
    """

    def __init__(self, value: float, name: str | None = None, autocast: bool = False) -> None:
        start = keras.initializers.Constant(value)
        super().__init__(start, shape=(), dtype="float32", trainable=False, autocast=autocast, name=name)

    def __gt__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return True

    def __bool__(self) -> bool:
        return True

    __hash__ = keras.Variable.__hash__


def set_number(target: Any, name: str, variable: keras.Variable) -> None:
    """Put a variable in the place of a number of an object of Keras, which does not take the variable as its own."""
    object.__setattr__(target, name, variable)


# Dropout

_DROPOUTS = (
    keras.layers.Dropout,
    keras.layers.SpatialDropout1D,
    keras.layers.SpatialDropout2D,
    keras.layers.SpatialDropout3D,
    keras.layers.GaussianDropout,
)


def is_dropout(layer: keras.layers.Layer) -> bool:
    """Return True if the rate of a layer can be a variable, see `set_dropout_rate`."""
    return type(layer) in _DROPOUTS


def set_dropout_rate(layer: keras.layers.Layer, rate: keras.Variable, seed: int) -> None:
    """Let a dropout layer of Keras read its rate from a variable; `reset_dropout_rate` undoes it.

    The `call` of Keras asks `if self.rate > 0`, and divides by 0 at rate 1. This one gives zeros there, whose gradient
    is 0. The class and the config of the layer stay, so that Keras can store it.

    Args:
        layer: one for which `is_dropout` is True.
        rate: in [0, 1].
        seed: of its random numbers, if the rate of the layer is 0: then it has no generator.
    """
    if not hasattr(layer, "seed_generator"):
        layer._tracker.unlock()
        layer.seed_generator = keras.random.SeedGenerator(seed)
        layer._tracker.lock()
    is_gaussian = isinstance(layer, keras.layers.GaussianDropout)

    def call(inputs: Tensor, training: bool = False) -> Tensor:
        if not training:
            return inputs
        share = ops.cast(rate.value, "float32")
        kept = ops.maximum(1.0 - share, keras.config.epsilon())
        if is_gaussian:
            noise = keras.random.normal(ops.shape(inputs), dtype="float32", seed=layer.seed_generator)
            factor = ops.where(share < 1.0, 1.0 + ops.sqrt(share / kept) * noise, 0.0)
        else:
            shape = _noise_shape(layer, inputs)
            drawn = keras.random.uniform(shape, dtype="float32", seed=layer.seed_generator)
            factor = ops.where(drawn >= share, 1.0 / kept, 0.0)
        return inputs * ops.cast(factor, inputs.dtype)

    object.__setattr__(layer, "call", call)


def reset_dropout_rate(layer: keras.layers.Layer) -> None:
    """Let a dropout layer read its rate from its own attribute again."""
    vars(layer).pop("call", None)


def _noise_shape(layer: Any, inputs: Tensor) -> tuple[Any, ...]:
    sizes = ops.shape(inputs)
    chosen = layer._get_noise_shape(inputs) if hasattr(layer, "_get_noise_shape") else layer.noise_shape
    if chosen is None:
        return tuple(sizes)
    return tuple(size if own is None else own for own, size in zip(chosen, sizes, strict=True))


# Optimizers


class OpenOptimizer(keras.optimizers.Optimizer):
    """Optimizer whose handling of a whole batch, and of a list of weights, can be replaced.

    The public `apply` and `update_step` come before and after what Keras does on its own: it reduces gradients over
    replicas within the update, and enters the context of all of them, which no branch of a compiled step can.
    """

    @property
    def trained_weights(self) -> Sequence[keras.Variable]:
        """The weights that the optimizer was built for."""
        weights: Sequence[keras.Variable] = self._trainable_variables
        return weights

    @property
    def batch_counter(self) -> keras.Variable:
        """The number of calls of `apply`; `iterations` of a subclass may count something else."""
        return self._iterations

    @property
    def state(self) -> list[keras.Variable]:
        """All variables but the counter and the learning rate."""
        return [v for v in self.variables if v is not self._iterations and v is not self._learning_rate]

    def track(self, variable: keras.Variable) -> None:
        """Take over a variable that was made elsewhere; the public `add_variable` only makes new ones."""
        self._track_variable(variable)

    def apply_gradients_of_batch(self, gradients: list[Tensor], weights: list[Any]) -> None:
        """Update the weights with the gradients of a batch; default: as Keras."""
        super()._backend_apply_gradients(gradients, weights)

    def run_update(self, gradients: list[Tensor], weights: Sequence[Any], rate: Tensor) -> None:
        """Call `update_weights`, after what the Keras class does once per update: Nadam multiplies a variable there."""
        self._backend_update_step(gradients, weights, rate)

    def update_weights(self, gradients: list[Tensor], weights: Sequence[Any], rate: Tensor) -> None:
        """Update each weight; default: as Keras."""
        super()._backend_update_step(gradients, weights, rate)

    def _backend_apply_gradients(self, grads: list[Tensor], trainable_variables: list[Any]) -> None:
        self.apply_gradients_of_batch(grads, trainable_variables)

    def _backend_update_step(self, grads: list[Tensor], trainable_variables: Any, learning_rate: Tensor) -> None:
        self.update_weights(grads, trainable_variables, learning_rate)


# Callbacks


class SynchronousCallbacks(keras.callbacks.CallbackList):
    """Callbacks that are all called by the thread of the training.

    Keras calls `on_test_batch_end` from a pool of threads, where calls overtake each other and outlive an interruption.
    A callback can ask for that (`async_safe`), but not for the opposite.
    """

    def _configure_async_dispatch(self, callbacks: Any) -> None:
        """Leave out the pool of threads."""


# Random numbers


def global_random_state() -> list[int] | None:
    """Return the state of the generator that draws without a seed; None: nothing was drawn so far.

    Checkpoints hold it. The public `keras.random.SeedGenerator` are those of layers.
    """
    generator = global_state.get_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR)
    if generator is None:
        return None
    state: list[int] = keras.ops.convert_to_numpy(generator.state).tolist()
    return state


def set_global_random_state(state: list[int]) -> None:
    """Set the state of the generator that draws without a seed, which is made if there is none."""
    seed_generator.global_seed_generator().state.assign(state)


def forget_global_random_state() -> None:
    """Remove the generator that draws without a seed: the next one takes its seed from the generator of Python.

    The public `keras.utils.set_random_seed` does it too, but imports an installed TensorFlow.
    """
    global_state.set_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR, None)


# Symbolic calls


@dataclass(frozen=True)
class SymbolicCall:
    """Call that made a Keras tensor.

    Args:
        operation: the layer or operation.
        args: positional arguments.
        kwargs: keyword arguments.
        outputs: all tensors that it returned.
    """

    operation: keras.Operation
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: Sequence[keras.KerasTensor]


def symbolic_call(tensor: keras.KerasTensor) -> SymbolicCall | None:
    """Return the call that made a tensor; None: it is an input, or was made without a record.

    Only whole functional models are public.
    """
    history = getattr(tensor, "_keras_history", None)
    if history is None or history.operation is None:
        return None
    return recorded_calls(history.operation)[history.node_index]


def recorded_calls(operation: keras.Operation) -> list[SymbolicCall]:
    """Return all calls of a layer or operation with Keras tensors."""
    nodes = operation._inbound_nodes
    return [SymbolicCall(operation, node.arguments.args, node.arguments.kwargs, node.outputs) for node in nodes]


@contextmanager
def variables_in_symbolic_calls() -> Iterator[None]:
    """Context in which arithmetic of a variable with a Keras tensor makes a Keras tensor, as with any other operand.

    Keras computes `variable * x` at once, which fails if `x` has no values. It is the same class for all variables, so
    use it for the short time of a symbolic call.
    """
    own = {name: getattr(keras.Variable, name) for name in _ARITHMETIC}
    had = {name for name in own if name in vars(keras.Variable)}
    for name, (operation, is_reflected) in _ARITHMETIC.items():
        setattr(keras.Variable, name, _symbolic_arithmetic(own[name], getattr(keras.ops, operation), is_reflected))
    try:
        yield
    finally:
        for name, method in own.items():
            if name in had:
                setattr(keras.Variable, name, method)
            else:
                delattr(keras.Variable, name)


_ARITHMETIC = {
    **{f"__{name}__": (op, False) for name, op in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"))},
    **{f"__r{name}__": (op, True) for name, op in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"))},
    "__truediv__": ("true_divide", False),
    "__rtruediv__": ("true_divide", True),
    "__pow__": ("power", False),
    "__matmul__": ("matmul", False),
    "__rmatmul__": ("matmul", True),
}


def _symbolic_arithmetic(own: Any, operation: Any, is_reflected: bool) -> Any:
    def arithmetic(variable: keras.Variable, other: Any) -> Any:
        if not isinstance(other, keras.KerasTensor):
            return own(variable, other)
        return operation(other, variable) if is_reflected else operation(variable, other)

    return arithmetic


def attention_layers(layer: keras.layers.Layer) -> dict[str, keras.layers.Layer | None]:
    """Return the layers inside of an attention with heads: query, key, value, gate and output.

    They have public names in one of the two classes only.
    """
    return {name: getattr(layer, f"_{name}_dense", None) for name in ("query", "key", "value", "gate", "output")}
