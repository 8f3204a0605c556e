"""Optimizers of Keras as parts of the optimizer of a training: each updates its own weights."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import keras

from tfaip.trainer.optimizer.params import OptimizerParams
from tfaip.util.typing import Tensor


@dataclass(frozen=True)
class Slot:
    """A variable that an optimizer keeps for a weight.

    Args:
        kind: what it is, e.g. `momentum`.
        weight: the weight.
        variable: the slot itself.
    """

    kind: str
    weight: keras.Variable
    variable: keras.Variable


class _Slots:
    """A list in an object, since Keras would take the weights in a list for the optimizer's own variables."""

    def __init__(self) -> None:
        self.entries: list[Slot] = []


class SlotOptimizer(keras.optimizers.Optimizer):
    """Remembers which weight each of its slots belongs to."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._slots = _Slots()

    @property
    def slots(self) -> list[Slot]:
        """The slots, in the order of their creation."""
        return self._slots.entries

    def add_variable_from_reference(
        self, reference_variable: keras.Variable, name: str | None = None, initializer: Any = "zeros"
    ) -> keras.Variable:
        """As in Keras."""
        variable = super().add_variable_from_reference(reference_variable, name=name, initializer=initializer)
        self._slots.entries.append(Slot(name or "slot", reference_variable, variable))
        return variable


@dataclass(frozen=True)
class PartSetup:
    """How a part updates its weights.

    Args:
        params: Keras class, its arguments, and weight decay.
        rate_factor: factor on the learning rate.
        undecayed: ids of the weights that do not decay.
    """

    params: OptimizerParams
    rate_factor: float
    undecayed: Collection[int]


class PartOptimizer(SlotOptimizer):
    """Base behind a Keras optimizer class, so that what is here takes the place of what Keras has for all classes."""

    setup: PartSetup
    _updates: Tensor = 0

    @property
    def iterations(self) -> Tensor:
        """Number of updates so far, while it updates: a part does not count itself."""
        return self._updates

    @property
    def state(self) -> list[keras.Variable]:
        """Everything that the part remembers."""
        return [v for v in self.variables if v is not self._iterations and v is not self._learning_rate]

    def reset(self) -> None:
        """Set the state as it was at first."""
        fresh = build_part(self.setup, list(self._trainable_variables))
        for variable, start in zip(self.state, fresh.state, strict=True):
            variable.assign(start.value)

    def update(self, gradients: list[Tensor], weights: list[keras.Variable], rate: Tensor, updates: Tensor) -> None:
        """Update weights.

        Args:
            gradients: of the weights.
            weights: all or some of those that it was built for.
            rate: the learning rate.
            updates: number of updates so far, as the moments count them.
        """
        self._updates = updates  # read once for all weights: on TensorFlow that is five operations less for each
        self._backend_update_step(gradients, weights, rate)

    def _backend_update_step(self, grads: list[Tensor], trainable_variables: Any, learning_rate: Tensor) -> None:
        # Keras reduces over the replicas here and enters the context of all of them, which no branch of a compiled
        # step can. Here the gradients are reduced already, and each replica updates its own copy.
        rate = learning_rate if self.setup.rate_factor == 1 else learning_rate * self.setup.rate_factor
        for gradient, weight in zip(grads, trainable_variables, strict=True):
            if self.setup.params.weight_decay and id(weight) not in self.setup.undecayed:
                shrink = keras.ops.cast(self.setup.params.weight_decay * rate, weight.dtype)
                self.assign_sub(weight, shrink * weight)
            self.update_step(gradient, weight, rate)


def build_part(setup: PartSetup, weights: list[keras.Variable]) -> Any:
    """A part that updates `weights`."""
    keras_class = setup.params.cls()
    part_class = type(keras_class.__name__, (keras_class, PartOptimizer), {})
    # Without a rate of its own: it is told the rate of every update.
    part = part_class(learning_rate=0.0, **setup.params.arguments())
    part.setup = setup
    part.build(weights)
    return part
