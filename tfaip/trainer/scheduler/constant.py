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
        rates = {epoch: rate for epoch in chosen.epochs if (rate := chosen[epoch].lr) is not None}
        if not rates:
            return chosen
        last, given, rate = max(rates), {**self.listed(), **rates}, self._bounded(self.lr)
        for epoch in range(1, min(last, (self.epochs or last) + 1)):
            rate = rates[epoch] = given.get(epoch, rate)
        self.lr, self.rates = rates[last], {epoch: given[epoch] for epoch in self.listed() if epoch > last}
        return History({epoch: EpochRecord(rate) for epoch, rate in rates.items()})

    def uses_lr(self, epoch: int) -> bool:
        return self.last_listed(before=epoch + 1) is None

    def is_continuous(self) -> bool:
        return False
