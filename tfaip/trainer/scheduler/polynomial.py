"""Polynomial decay of the learning rate."""

from __future__ import annotations

from typing import Any

from tfaip.params import option
from tfaip.trainer.scheduler.params import LearningRateParams
from tfaip.util.typing import Tensor


class PolynomialDecayParams(LearningRateParams):
    """lr * (alpha + (1 - alpha) * (1 - x / N)^power), N = epochs of the training.

    `lr * alpha` is reached with the end of the last epoch.
    """

    alpha: float = option(0.0, "Fraction of lr at the end of the training, in [0, 1]", low=0, high=1)
    power: float = option(1.0, "Exponent (1: linear decay)", above=0)

    def value(self, x: Tensor, xp: Any) -> Tensor:
        left = xp.power(1.0 - self.rule_share(x, xp), self.power)
        return self.alpha + (1.0 - self.alpha) * left
