"""Exponential decay of the learning rate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tfaip.params import pai_dataclass, pai_meta
from tfaip.trainer.scheduler.params import LearningRateParams
from tfaip.util.typing import Tensor


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
        self._check("decay", 0 < self.decay <= 1, "a number in (0, 1]")
        self._check("learning_circle", self.learning_circle >= 1, "at least 1")
        self._check("decay_min_fraction", 0 <= self.decay_min_fraction <= 1, "a number in [0, 1]")

    def value(self, x: Tensor, xp: Any) -> Tensor:
        circles = xp.floor(x / self.learning_circle)
        return xp.maximum(xp.power(self.decay, circles), self.decay_min_fraction)
