"""Keras optimizers of the groups of weights: the optimizer of a training contains one for each group."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import keras

from tfaip.backend.active import backend
from tfaip.backend.keras_private import OpenOptimizer
from tfaip.trainer.optimizer.optimizers import OptimizerParams
from tfaip.util.typing import Tensor


@dataclass(frozen=True)
class Slot:
    """Variable that an optimizer keeps for a weight.

    Args:
        kind: its purpose, e.g. `momentum`.
        weight: the weight.
        variable: the slot itself.
    """

    kind: str
    weight: keras.Variable
    variable: keras.Variable


class SlotOptimizer(OpenOptimizer):
    """Optimizer that records the weight of each of its slots."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.slots: list[Slot] = []
        """The slots, in the order of their creation."""

    def add_variable_from_reference(
        self, reference_variable: keras.Variable, name: str | None = None, initializer: Any = "zeros"
    ) -> keras.Variable:
        """Create a slot and record its weight; see Keras."""
        variable = super().add_variable_from_reference(reference_variable, name=name, initializer=initializer)
        self.slots.append(Slot(name or "slot", reference_variable, variable))
        return variable


@dataclass(frozen=True)
class GroupSetup:
    """Settings of the optimizer of a group.

    Args:
        params: they give the Keras class, its arguments, and the weight decay.
        rate_factor: factor on the learning rate, a number or a variable.
        undecayed: ids of the weights that do not decay.
        weight_decay: the weight decay, a number or a variable.
        momentum: path of the momentum from the params of the optimizer, if the Keras class has one.
    """

    params: OptimizerParams
    rate_factor: float | keras.Variable
    undecayed: Collection[int]
    weight_decay: float | keras.Variable = 0.0
    momentum: str = ""


class GroupOptimizer(SlotOptimizer):
    """Mixin placed after the Keras class in the MRO, to override the methods that all of them share.

    It only applies the update rule of its Keras class. `TrainingOptimizer` does the rest (mean,
    noise, clips, skips, averages, rate), for all weights together.
    """

    setup: GroupSetup
    _updates: Tensor = 0

    @property
    def iterations(self) -> Tensor:
        """Number of updates so far, as passed to `update`: a group does not count by itself."""
        return self._updates

    def reset(self) -> None:
        """Reset the state to its initial values."""
        fresh = build_group(self.setup, list(self.trained_weights))
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
        # Read once for all weights: this saves five operations per weight on TensorFlow.
        self._updates = updates
        self.run_update(gradients, weights, rate)

    def update_weights(self, gradients: list[Tensor], weights: Sequence[keras.Variable], rate: Tensor) -> None:
        """Apply weight decay and the update rule; the gradients are already summed over the replicas."""
        factor, decay = self.setup.rate_factor, self.setup.weight_decay
        if isinstance(factor, keras.Variable) or factor != 1:
            rate = rate * factor
        decays = isinstance(decay, keras.Variable) or decay != 0
        for gradient, weight in zip(gradients, weights, strict=True):
            if decays and id(weight) not in self.setup.undecayed:
                shrink = keras.ops.cast(decay * rate, weight.dtype)
                self.assign_sub(weight, shrink * weight)
            self.update_step(gradient, weight, rate)


def build_group(setup: GroupSetup, weights: list[keras.Variable]) -> Any:
    """Build the optimizer of a group, which updates `weights`."""
    keras_class = setup.params.cls()
    group_class = type(keras_class.__name__, (backend.with_fewest_operations(keras_class), GroupOptimizer), {})
    # `update` gets the rate as an argument, so the group needs none of its own.
    group = group_class(learning_rate=0.0, **setup.params.arguments())
    group.setup = setup
    group.build(weights)
    return group
