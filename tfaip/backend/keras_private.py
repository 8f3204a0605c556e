"""Names of Keras that are not public, or not documented: used here alone, each with the public way that is missing.

What Keras guarantees ends at its public names, so that a new version may rename what is used here without notice.
`test/backend/test_keras_*.py` check what is expected of each; `requirements.txt` bounds the version.

`tools/budgets.toml` lists all names of this kind, of other libraries and in other modules too.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import keras
from keras.src.random.seed_generator import global_seed_generator

from tfaip.backend.kerastools import layers_of
from tfaip.util.typing import Tensor

# The random generator that draws without a seed: checkpoints store its state, and those of layers are public alone


def global_random_state() -> list[int]:
    """Return the state of the generator that draws without a seed."""
    return [int(number) for number in keras.ops.convert_to_numpy(global_seed_generator().state)]


def set_global_random_state(state: list[int]) -> None:
    """Set the state of the generator that draws without a seed."""
    global_seed_generator().state.assign(state)


def seed_global_generator(number: int) -> None:
    """Seed the generator of Python, and from it the one that draws without a seed, as Keras does at its first draw."""
    random.seed(number)
    state = [random.randint(1, 10**9), 0]  # noqa: S311
    random.seed(number)
    global_seed_generator().state.assign(state)  # if it is made here, it draws
    random.seed(number)


# Scopes


def keep_changes(scope: keras.StatelessScope, layer: keras.layers.Layer, replaced: set[int], draws: bool) -> None:
    """Assign, and add as losses of a layer, what its parts have assigned and added in a scope that was left.

    Args:
        scope: collected losses.
        layer: holds the variables; `Layer.losses` in the scope would contain the regularisers too.
        replaced: ids of the variables to leave as they are.
        draws: the generator that draws without a seed may have been used.
    """
    for variable in [*layer.variables, *([global_seed_generator().state] if draws else [])]:
        value = scope.get_current_value(variable)
        if value is not None and id(variable) not in replaced:
            variable.assign(value)
    for loss in scope.losses:
        layer.add_loss(loss)


# Models


class BuiltModel(keras.Model):
    """Base of a model whose variables all exist before `fit`, and whose compiled steps can be replaced."""

    loss_mean: Any = None
    """The mean of the total loss, which `fit` updates; None: the model is not compiled."""
    steps_per_execution: int
    train_function: Any
    test_function: Any
    """What `fit` and `evaluate` call for each execution; None: Keras makes it."""

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the model as Keras does."""
        super().compile(*args, **kwargs)
        # Once: it is a search of all layers. Past the attribute tracking: it is the first of the metrics already.
        total = next(metric for metric in keras.Model.metrics.fget(self) if metric.name == "loss")
        object.__setattr__(self, "loss_mean", total)

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

    def executing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return what `fit` and `evaluate` call for each execution, given what Keras has made for that."""
        return function

    def make_train_function(self, force: bool = False) -> None:
        """Compile what `fit` calls, unless it was chosen; `compile` takes no function."""
        before = self.train_function
        super().make_train_function(force)
        if self.train_function is not before:
            self.train_function = self.executing(self.train_function)

    def make_test_function(self, force: bool = False) -> None:
        """Compile what `evaluate` calls."""
        before = self.test_function
        super().make_test_function(force)
        if self.test_function is not before:
            self.test_function = self.executing(self.test_function)

    def forget_compiled_steps(self) -> None:
        """Let `fit` and `evaluate` compile their steps again.

        `compile` would do it too, but forgets the optimizer's and the metrics' place in a running training.
        """
        self.train_function = self.test_function = None
        # JAX finds what it has traced by the function, and a bound method is equal to itself: a new object is not.
        for name in ("train_step", "test_step"):
            object.__setattr__(self, name, partial(getattr(type(self), name), self))


def keep_state(model: keras.Model, state: Sequence[Any]) -> None:
    """Let `fit` on JAX assign a state to the variables when it ends, also by an error within an execution.

    Keras would assign the state from before the execution, whose arrays may have been given away.
    """
    names = ("trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables")
    model._jax_state = dict(zip(names, state, strict=True))


def running_metrics(model: keras.Model) -> Sequence[Any]:
    """Return the values of the metrics in a running `fit` on JAX: to assign all that it keeps takes longer."""
    return list(model._jax_state["metrics_variables"])


def assign_kept_state(model: keras.Model) -> None:
    """Assign to the variables what `fit` on JAX keeps: a callback would read arrays that a step has given away."""
    model.jax_state_sync()


def stop_evaluation(model: keras.Model) -> None:
    """Let `evaluate` end after this batch: `stop_training`, which is documented, ends `fit` only."""
    model.stop_evaluating = True


def layers_without_xla(model: keras.Model) -> list[keras.layers.Layer]:
    """Return the layers on all levels for whose sake Keras compiles no step; it does not name them."""
    return [layer for layer in layers_of(model) if not layer.supports_jit]


# Optimizers


class OpenOptimizer(keras.optimizers.Optimizer):
    """Optimizer whose handling of a whole batch, and of a list of weights, can be replaced.

    The public `apply` and `update_step` come before and after what Keras does on its own: it reduces gradients over
    replicas within the update, and enters the context of all of them, which no branch of a compiled step can.
    """

    trained_weights: Sequence[keras.Variable] = ()
    """The weights that the optimizer was built for."""

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Create the variables for some weights."""
        super().build(variables)
        # Past the attribute tracking: the weights do not belong to the optimizer.
        object.__setattr__(self, "trained_weights", list(variables))

    @property
    def batch_counter(self) -> keras.Variable:
        """The number of calls of `apply`; `iterations` of a subclass may count something else."""
        return super().iterations

    @property
    def state(self) -> list[keras.Variable]:
        """All variables but the counter and the learning rate."""
        others = (id(self.batch_counter), id(self.learning_rate))
        return [variable for variable in self.variables if id(variable) not in others]

    def track(self, variable: keras.Variable) -> None:
        """Take over a variable that was made elsewhere: an optimizer owns those that its attributes hold."""
        setattr(self, f"taken_{len(super().variables)}", variable)

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


# Exports


def archive_variables(archive: Any) -> Mapping[str, Sequence[Any]]:
    """Return the variables that a SavedModel of a `keras.export.ExportArchive` holds, by the name of their list in it.

    The second list, of those that the functions use, exists when the archive has been written once.
    """
    return {"variables": archive.variables, "_all_variables": archive._tf_trackable._all_variables}
