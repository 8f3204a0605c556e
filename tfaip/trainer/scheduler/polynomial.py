"""Polynomial decay of the learning rate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tfaip.params import pai_dataclass, pai_meta
from tfaip.params.limits import limits
from tfaip.trainer.scheduler.params import LearningRateParams
from tfaip.util.typing import Tensor


@pai_dataclass
@dataclass
class PolynomialDecayParams(LearningRateParams):
    """lr * (alpha + (1 - alpha) * (1 - x / N)^power), N = epochs of the training.

    `lr * alpha` is reached with the end of the last epoch.
    """

    alpha: float = field(
        default=0.0,
        metadata=pai_meta(help="Fraction of lr at the end of the training, in [0, 1]") | limits(low=0, high=1),
    )
    power: float = field(default=1.0, metadata=pai_meta(help="Exponent (1: linear decay)") | limits(above=0))

    def value(self, x: Tensor, xp: Any) -> Tensor:
        left = xp.power(1.0 - self.rule_share(x, xp), self.power)
        return self.alpha + (1.0 - self.alpha) * left
