"""Exponential decay of the learning rate."""

from __future__ import annotations

from typing import Any

from tfaip.params import option
from tfaip.trainer.scheduler.params import LearningRateParams
from tfaip.util.typing import Tensor


class ExponentialDecayParams(LearningRateParams):
    """lr * decay^floor(x / learning_circle), x = completed epochs, not below lr * decay_min_fraction."""

    decay: float = option(0.99, "Factor per learning circle, in (0, 1]", above=0, high=1)
    learning_circle: int = option(3, "Number of epochs between two decays", low=1)
    decay_min_fraction: float = option(0.0, "Lower bound of the rate as a fraction of lr, in [0, 1]", low=0, high=1)

    def value(self, x: Tensor, xp: Any) -> Tensor:
        circles = xp.floor(x / self.learning_circle)
        return xp.maximum(xp.power(self.decay, circles), self.decay_min_fraction)
