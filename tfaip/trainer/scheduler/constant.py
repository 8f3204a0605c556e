"""The constant learning rate."""

from __future__ import annotations

from typing import Any

from tfaip.trainer.history import EpochRecord, History
from tfaip.trainer.scheduler.params import LearningRateParams
from tfaip.util.typing import Tensor


class FlatParams(LearningRateParams):
    """Base of the rules whose factor is always 1."""

    def value(self, x: Tensor, xp: Any) -> Tensor:
        return xp.ones_like(x)


class ConstantParams(FlatParams):
    """Constant lr; after `rates`, or the rates of a `history_file`, its last value."""

    def rule_rate(self, epoch: int, history: History) -> float:
        last = self.last_listed(before=epoch)
        return self.lr if last is None else last[1]

    def continue_from(self, chosen: History) -> History:
        end = max(chosen.epochs, default=0) + 1
        last = chosen.most_recent_rate(end)
        if last is None:
            return chosen
        records = {epoch: chosen[epoch] for epoch in chosen.epochs}
        for epoch in range(1, min(end, (self.epochs or end) + 1)):
            rate = chosen.most_recent_rate(epoch)
            if rate is None or epoch in self.listed():
                rate = self.rate(epoch, chosen)
            records.setdefault(epoch, EpochRecord(rate))
        self.lr, self.rates = last, {epoch: rate for epoch, rate in self.listed().items() if epoch >= end}
        return History(records)

    def uses_lr(self, epoch: int) -> bool:
        return self.last_listed(before=epoch + 1) is None

    def is_continuous(self) -> bool:
        return False
