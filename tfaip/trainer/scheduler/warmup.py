"""Warm-up of the learning rate, in front of other schedules."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tfaip.params import pai_dataclass, pai_meta
from tfaip.trainer.scheduler.constant import FlatParams
from tfaip.trainer.scheduler.cosine import CosineDecayParams
from tfaip.trainer.scheduler.exponential import ExponentialDecayParams
from tfaip.trainer.scheduler.params import LearningRateParams
from tfaip.util.typing import Tensor


class Warmup(StrEnum):
    """How the rate grows."""

    LINEAR = "linear"
    EXPONENTIAL = "exponential"


@pai_dataclass
@dataclass
class WarmupParams(LearningRateParams):
    """The first base of a schedule with warm-up; the second one gives the rule that follows.

    The rate is lr / warmup_factor at x = 0 and lr at x = warmup_epochs, x = completed epochs. It stays there for
    `constant_epochs`, follows the rule, and keeps what it has reached for the last `final_epochs` of the training.
    """

    warmup_epochs: int = field(default=10, metadata=pai_meta(help="Epochs until the rate is lr (0: no warm-up)"))
    warmup_factor: float = field(default=10.0, metadata=pai_meta(help="The first rate is lr / warmup_factor"))
    warmup: Warmup = field(default=Warmup.LINEAR, metadata=pai_meta(help="Growth of the rate"))
    constant_epochs: int = field(default=0, metadata=pai_meta(help="Epochs with rate lr between warm-up and decay"))
    final_epochs: int = field(
        default=0, metadata=pai_meta(help="Epochs at the end of the training in which the rate decays no more")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("warmup_factor", 1 <= self.warmup_factor < math.inf, "a finite number from 1")
        for name in ("warmup_epochs", "constant_epochs", "final_epochs"):
            self._check(name, getattr(self, name) >= 0, "at least 0")

    def value(self, x: Tensor, xp: Any) -> Tensor:
        begin = self.warmup_epochs + self.constant_epochs
        # The rule is 1 at its beginning, the warm-up at its end.
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


@pai_dataclass
@dataclass
class WarmupConstantParams(WarmupParams, FlatParams):
    """Warm-up, then lr."""


@pai_dataclass
@dataclass
class WarmupExponentialDecayParams(WarmupParams, ExponentialDecayParams):
    """Warm-up, then exponential decay."""


@pai_dataclass
@dataclass
class WarmupCosineDecayParams(WarmupParams, CosineDecayParams):
    """Warm-up, then cosine decay over the epochs that are left."""
