"""Decay of the learning rate with the inverse square root of time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from tfaip.params import pai_dataclass, pai_meta
from tfaip.trainer.scheduler.params import LearningRateParams
from tfaip.util.typing import Tensor


@pai_dataclass
@dataclass
class InverseSqrtDecayParams(LearningRateParams):
    """lr / sqrt(1 + x / timescale_epochs), x = completed epochs (Zhai et al., 2021); it needs no end."""

    timescale_epochs: float = field(
        default=1.0, metadata=pai_meta(help="After three times as many epochs the rate has halved")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        # Below it the quotient of an epoch may exceed what a float holds.
        self._check("timescale_epochs", 1e-6 <= self.timescale_epochs < math.inf, "a finite number above 0, from 1e-6")

    def value(self, x: Tensor, xp: Any) -> Tensor:
        return 1.0 / xp.sqrt(1.0 + x / self.timescale_epochs)
