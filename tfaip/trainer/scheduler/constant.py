"""The constant learning rate."""

from __future__ import annotations

from dataclasses import dataclass

from tfaip.params import pai_dataclass
from tfaip.trainer.scheduler.params import LearningRateParams


@pai_dataclass
@dataclass
class ConstantParams(LearningRateParams):
    """The same rate in every epoch."""

    def rate(self, epoch: int) -> float:
        return self.lr
