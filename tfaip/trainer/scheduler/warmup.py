"""Warm-up of the learning rate, before other schedules."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from tfaip.params import option
from tfaip.trainer.scheduler.constant import FlatParams
from tfaip.trainer.scheduler.cosine import CosineDecayParams
from tfaip.trainer.scheduler.exponential import ExponentialDecayParams
from tfaip.trainer.scheduler.params import LearningRateParams
from tfaip.util.typing import Tensor


class Warmup(StrEnum):
    """Growth of the rate."""

    LINEAR = "linear"
    EXPONENTIAL = "exponential"


class WarmupParams(LearningRateParams):
    """First base class of a schedule with warm-up; the second base class is the rule after it.

    The rate is lr / warmup_factor at x = 0 and lr at x = warmup_epochs, x = completed epochs. It stays lr for
    `constant_epochs`, then follows the rule, and is constant in the last `final_epochs` of the training.
    """

    warmup_epochs: int = option(10, "Number of epochs until the rate is lr (0: no warm-up)", low=0)
    warmup_factor: float = option(10.0, "Quotient of lr and the first rate, at least 1", low=1)
    warmup: Warmup = option(Warmup.LINEAR, "Growth of the rate")
    constant_epochs: int = option(0, "Number of epochs with rate lr between warm-up and decay", low=0)
    final_epochs: int = option(
        0, "Number of epochs at the end of the training in which the rate no longer decays", low=0
    )

    def value(self, x: Tensor, xp: Any) -> Tensor:
        begin = self.warmup_epochs + self.constant_epochs
        # The product has no jump: the rule is 1 at its beginning, the warm-up is 1 at its end.
        rule_x = xp.maximum(x - begin, 0.0)
        if self.final_epochs:
            rule_x = xp.minimum(rule_x, float(self.rule_epochs()))
        return self._warmup_value(x, xp) * super().value(rule_x, xp)

    def rule_epochs(self) -> int:
        others = self.warmup_epochs + self.constant_epochs + self.final_epochs
        return max(super().rule_epochs() - others, 0)

    def _warmup_value(self, x: Tensor, xp: Any) -> Tensor:
        if self.warmup_epochs == 0:
            return 1.0
        share = xp.minimum(x / self.warmup_epochs, 1.0)
        if self.warmup is Warmup.EXPONENTIAL:
            return xp.power(self.warmup_factor, share - 1.0)
        first = 1.0 / self.warmup_factor
        return first + (1.0 - first) * share


class WarmupConstantParams(WarmupParams, FlatParams):
    """Warm-up, then lr."""


class WarmupExponentialDecayParams(WarmupParams, ExponentialDecayParams):
    """Warm-up, then exponential decay."""


class WarmupCosineDecayParams(WarmupParams, CosineDecayParams):
    """Warm-up, then cosine decay over the remaining epochs."""
