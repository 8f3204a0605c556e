"""Exponential decay of the learning rate."""

from __future__ import annotations

from dataclasses import dataclass, field

from tfaip.params import pai_dataclass, pai_meta
from tfaip.trainer.scheduler.params import LearningRateParams


@pai_dataclass
@dataclass
class ExponentialDecayParams(LearningRateParams):
    """lr * decay^floor(x / learning_circle), x = completed epochs, not below lr * decay_min_fraction."""

    decay: float = field(default=0.99, metadata=pai_meta(help="Factor per learning circle, in (0, 1]"))
    learning_circle: int = field(default=3, metadata=pai_meta(help="Epochs between two decays"))
    decay_min_fraction: float = field(
        default=0.0, metadata=pai_meta(help="Fraction of lr below which the rate does not fall, in [0, 1]")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.decay <= 1:
            raise ValueError(f"decay {self.decay} is not in (0, 1]: change --learning_rate.decay")
        if self.learning_circle < 1:
            raise ValueError(
                f"learning circle {self.learning_circle} is below 1: change --learning_rate.learning_circle"
            )
        if not 0 <= self.decay_min_fraction <= 1:
            raise ValueError(
                f"decay_min_fraction {self.decay_min_fraction} is not in [0, 1]: "
                "change --learning_rate.decay_min_fraction"
            )

    def rate(self, epoch: int) -> float:
        circles = self.completed_epochs(epoch) // self.learning_circle
        return self.lr * max(self.decay**circles, self.decay_min_fraction)
