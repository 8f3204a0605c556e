"""Base of all learning rate schedules."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tfaip.params import ParamsBase, pai_dataclass, pai_meta


@pai_dataclass
@dataclass
class LearningRateParams(ParamsBase):
    """A learning rate schedule. Epochs count from 1; `rate` is a pure function, so that resume needs no state."""

    lr: float = field(default=0.001, metadata=pai_meta(help="Base learning rate"))
    offset_epochs: int = field(
        default=0,
        metadata=pai_meta(help="Number of epochs by which the schedule starts later, at its first rate"),
    )

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lr) and self.lr >= 0):
            raise ValueError(f"learning rate {self.lr} is not a finite number >= 0: change --learning_rate.lr")

    def rate(self, epoch: int) -> float:
        """The learning rate of `epoch` (from 1)."""
        raise NotImplementedError(f"{type(self).__name__} does not implement rate()")

    def completed_epochs(self, epoch: int) -> int:
        """The time x of the rules: epochs completed before `epoch`, less `offset_epochs`, not below 0."""
        return max(0, epoch - 1 - self.offset_epochs)
