"""The constant learning rate."""

from __future__ import annotations

from typing import Any

from tfaip.trainer.history import History
from tfaip.trainer.scheduler.params import LearningRateParams
from tfaip.util.typing import Tensor


class FlatParams(LearningRateParams):
    """Base of the rules whose factor is always 1."""

    def value(self, x: Tensor, xp: Any) -> Tensor:
        return xp.ones_like(x)


class ConstantParams(FlatParams):
    """Constant lr; after `rates` is exhausted, its last value."""

    def rule_rate(self, epoch: int, history: History) -> float:
        last = self.last_listed(before=epoch)
        return self.lr if last is None else last[1]

    def _uses_lr(self) -> bool:
        return 1 not in self.listed()

    def is_continuous(self) -> bool:
        return False
