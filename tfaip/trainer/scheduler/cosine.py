"""Cosine decay of the learning rate."""

from __future__ import annotations

import math
from typing import Any

from tfaip.params import option
from tfaip.trainer.scheduler.params import LearningRateParams
from tfaip.util.typing import Tensor


class CosineDecayParams(LearningRateParams):
    """lr * (alpha + (1 - alpha) * (1 + cos(pi * x / N)) / 2), N = epochs of the training (Loshchilov, Hutter, 2016).

    `lr * alpha` is reached with the end of the last epoch.
    """

    alpha: float = option(0.0, "Fraction of lr at the end of the training, in [0, 1]", low=0, high=1)

    def value(self, x: Tensor, xp: Any) -> Tensor:
        wave = (1.0 + xp.cos(math.pi * self.rule_share(x, xp))) / 2.0
        return self.alpha + (1.0 - self.alpha) * wave
