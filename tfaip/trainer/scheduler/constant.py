"""The constant learning rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tfaip.params import pai_dataclass
from tfaip.trainer.scheduler.params import LearningRateParams
from tfaip.util.typing import Tensor


@pai_dataclass
@dataclass
class ConstantParams(LearningRateParams):
    """lr, in every epoch."""

    def value(self, x: Tensor, xp: Any) -> Tensor:
        return xp.ones_like(x)
