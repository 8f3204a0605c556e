"""Private names of models: variables before `fit`, compiled steps, the loss of `fit`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import keras

from tfaip.backend.keras_private.layers import sublayers


class BuiltModel(keras.Model):
    """Base of a model whose variables all exist before `fit`."""

    steps_per_execution: int
    train_function: Any
    """What `fit` calls for each execution; None: Keras makes it."""

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


def keep_state(model: keras.Model, state: Sequence[Any]) -> None:
    """Let `fit` on JAX assign a state to the variables when it ends, also by an error within an execution.

    Keras would assign the state from before the execution, whose arrays may have been given away. The public
    `jax_state_sync` assigns what was kept.

    Args:
        model: in `fit`.
        state: the values of all variables, as `train_step` returns them.
    """
    names = ("trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables")
    model._jax_state = dict(zip(names, state, strict=True))


def running_metrics(model: keras.Model) -> Sequence[Any]:
    """Return the values of the metrics in a running `fit` on JAX: `jax_state_sync` assigns all, which takes longer."""
    values: Sequence[Any] = model._jax_state["metrics_variables"]
    return values


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
    found, left = {}, [model]
    while left:
        layer = left.pop(0)
        if id(layer) not in found:
            found[id(layer)] = layer
            left.extend(sublayers(layer))
    return list(found.values())


def is_functional(model: keras.Model) -> bool:
    """Return True if the layers of a model are those of a graph of calls, which have no attributes.

    The class of such models is not public.
    """
    return isinstance(model, keras.Sequential) or type(model).__name__ == "Functional"
