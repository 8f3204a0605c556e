"""Polynomial decay of the learning rate."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from tfaip.params import pai_dataclass, pai_meta
from tfaip.trainer.scheduler.params import LearningRateParams
from tfaip.util.typing import Tensor


@pai_dataclass
@dataclass
class PolynomialDecayParams(LearningRateParams):
    """lr * (alpha + (1 - alpha) * (1 - x / N)^power), N = epochs of the training.

    `lr * alpha` is reached with the end of the last epoch.
    """

    alpha: float = field(default=0.0, metadata=pai_meta(help="Fraction of lr at the end of the training, in [0, 1]"))
    power: float = field(default=1.0, metadata=pai_meta(help="Exponent; 1: linear decay"))

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("alpha", 0 <= self.alpha <= 1, "a number in [0, 1]")
        self._check("power", 0 < self.power < math.inf, "a finite number above 0")

    def value(self, x: Tensor, xp: Any) -> Tensor:
        left = xp.power(1.0 - self.rule_share(x, xp), self.power)
        return self.alpha + (1.0 - self.alpha) * left
