"""Names of Keras that are not public, or not documented: used here alone, each with the public way that is missing.

What Keras guarantees ends at its public names, so that a new version may rename what is used here without notice.
`test/backend/test_keras_private.py` checks each name and what is expected of it; `requirements.txt` bounds the version.

Further names of this kind are in `jax.py` and `tensorflow.py` (one each), `processes.py` and `tensorboard_private.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import keras
from keras.src.backend.common import global_state
from keras.src.backend.common.masking import get_keras_mask
from keras.src.backend.common.variables import AutocastScope
from keras.src.losses.losses import LossFunctionWrapper
from keras.src.random import seed_generator
from keras.src.utils.naming import to_snake_case

from tfaip.util.typing import Tensor

# Attributes of Keras objects that list what other attributes hold already. There is no public list of the attributes
# that the author of a layer has set.
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

    def __init__(self) -> None:
        super().__init__()
        self.assigned: list[keras.Variable] = []

    def add_update(self, update: tuple[keras.Variable, Tensor]) -> None:
        """Record an assignment; called by `Variable.assign`."""
        self.assigned.append(update[0])
        super().add_update(update)


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


def snake_case(name: str) -> str:
    """Return the name that Keras gives to the first object of a class."""
    return to_snake_case(name)


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
