"""Base of all learning rate schedules."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from tfaip.params import ParamsBase, pai_dataclass, pai_meta
from tfaip.util.typing import Tensor


@pai_dataclass
@dataclass
class LearningRateParams(ParamsBase):
    """A learning rate schedule. Its rates are a pure function of time, so that resume needs no state.

    A subclass implements `value`, which serves both ways of using it: one rate per epoch, computed with NumPy, and a
    rate that changes with every update, computed by the numeric backend inside the compiled step. A schedule that is
    only ever used per epoch may implement `rate` instead.
    """

    lr: float = field(default=0.001, metadata=pai_meta(help="Base learning rate"))
    step_function: bool = field(
        default=True,
        metadata=pai_meta(help="True: one rate per epoch; False: the rate changes with every update"),
    )
    offset_epochs: int = field(
        default=0,
        metadata=pai_meta(help="Number of epochs by which the schedule starts later, at its first rate"),
    )
    epochs: int | None = field(
        default=None, metadata=pai_meta(mode="ignore", help="Epochs of the whole training, as the trainer has them")
    )

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lr) and self.lr >= 0):
            raise ValueError(f"learning rate {self.lr} is not a finite number >= 0: change --learning_rate.lr")
        if not self.step_function and type(self).value is LearningRateParams.value:
            raise ValueError(
                f"{type(self).__name__} has one rate per epoch only, as it does not implement value(): "
                "set --learning_rate.step_function True"
            )

    def value(self, x: Tensor, xp: Any) -> Tensor:
        """The rule: the factor on `scale()` at a time.

        Args:
            x: completed epochs less `offset_epochs`, not below 0: float64 of NumPy, or a float32 tensor.
            xp: `numpy` or `keras.ops`, to compute with.
        """
        raise NotImplementedError(f"{type(self).__name__} implements neither value() nor rate()")

    def scale(self) -> float:
        """What `value` is a factor of."""
        return self.lr

    def rate(self, epoch: int) -> float:
        """The learning rate of `epoch` (from 1); of its first update, if it changes with every update."""
        import numpy as np

        return self.scale() * float(self.value_after(np.float64(epoch - 1), np))

    def base(self, epoch: int) -> float:
        """What the optimizer is told before `epoch`: the rate, or the scale of a rule that it computes itself."""
        return self.rate(epoch) if self.step_function else self.scale()

    def value_after(self, epochs: Tensor, xp: Any) -> Tensor:
        """`value` after so many completed epochs, a fractional number."""
        return self.value(xp.maximum(epochs - self.offset_epochs, 0.0), xp)

    def rule_epochs(self) -> int:
        """Epochs that a rule with an end has to get there: all that follow `offset_epochs`.

        Raises:
            ValueError: nobody told how many epochs the training has.
        """
        if self.epochs is None:
            raise ValueError(f"{type(self).__name__} needs to know the length of the training: set its field epochs")
        return max(self.epochs - self.offset_epochs, 0)

    def rule_share(self, x: Tensor, xp: Any) -> Tensor:
        """How much of `rule_epochs()` is over at time x, from 0 to 1."""
        return xp.clip(x / max(self.rule_epochs(), 1), 0.0, 1.0)

    def _check(self, name: str, is_valid: bool, expected: str) -> None:
        """Raise the ValueError of a field that is not valid."""
        if not is_valid:
            received = getattr(self, name)
            raise ValueError(f"{name} is {received}, expected {expected}: change --learning_rate.{name}")
