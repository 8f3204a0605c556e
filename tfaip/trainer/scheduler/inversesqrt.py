"""Decay of the learning rate with the inverse square root of time."""

from __future__ import annotations

from typing import Any

from tfaip.params import option
from tfaip.trainer.scheduler.params import LearningRateParams
from tfaip.util.typing import Tensor


class InverseSqrtDecayParams(LearningRateParams):
    """lr / sqrt(1 + x / timescale_epochs), x = completed epochs (Zhai et al., 2021); it needs no end."""

    # Below 1e-6 the quotient of an epoch could exceed the range of a float.
    timescale_epochs: float = option(
        1.0, "Time scale in epochs; the rate has halved after 3 * timescale_epochs", low=1e-6
    )

    def value(self, x: Tensor, xp: Any) -> Tensor:
        return 1.0 / xp.sqrt(1.0 + x / self.timescale_epochs)
