"""Exponential decay of the learning rate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tfaip.params import pai_dataclass, pai_meta
from tfaip.params.limits import limits
from tfaip.trainer.scheduler.params import LearningRateParams
from tfaip.util.typing import Tensor


@pai_dataclass
@dataclass
class ExponentialDecayParams(LearningRateParams):
    """lr * decay^floor(x / learning_circle), x = completed epochs, not below lr * decay_min_fraction."""

    decay: float = field(
        default=0.99, metadata=pai_meta(help="Factor per learning circle, in (0, 1]") | limits(above=0, high=1)
    )
    learning_circle: int = field(
        default=3, metadata=pai_meta(help="Number of epochs between two decays") | limits(low=1)
    )
    decay_min_fraction: float = field(
        default=0.0,
        metadata=pai_meta(help="Lower bound of the rate as a fraction of lr, in [0, 1]") | limits(low=0, high=1),
    )

    def value(self, x: Tensor, xp: Any) -> Tensor:
        circles = xp.floor(x / self.learning_circle)
        return xp.maximum(xp.power(self.decay, circles), self.decay_min_fraction)
