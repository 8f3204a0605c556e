"""Learning rates that follow what was measured: what all such controls share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tfaip.errors import UsageError
from tfaip.params import pai_dataclass, pai_meta
from tfaip.params.functions import FunctionName, check_function_name, load_function
from tfaip.trainer.best import BestModel
from tfaip.trainer.history import History
from tfaip.trainer.lognames import LAV_NAME
from tfaip.trainer.scheduler.params import LearningRateParams


class Mode(StrEnum):
    """Whether low or high scores are good."""

    MIN = "min"
    MAX = "max"


class Divisor(StrEnum):
    """Which score a difference is divided by."""

    NEW = "new"
    OLD = "old"


class Decision(StrEnum):
    """What happens to the rate at the beginning of an epoch."""

    HOLD = "hold"
    DECAY = "decay"
    GROW = "grow"


@dataclass(frozen=True)
class Scores:
    """The scores that a decision is made on.

    Args:
        history: where they come from.
        name: of the monitored value.
        mode: "min" or "max".
        epochs: the evaluated epochs before the one that is decided on, ascending.
    """

    history: History
    name: str
    mode: str
    epochs: list[int]


@pai_dataclass
@dataclass
class FeedbackParams(LearningRateParams):
    """The rate of the epoch before, which decays or grows when scores ask for it."""

    monitor: str | list[str] | None = field(
        default=None,
        metadata=pai_meta(
            help="Value that is followed, as it is logged (e.g. val_loss), or several: the first that there is; None: "
            "what tells the best model"
        ),
    )
    mode: Mode | None = field(
        default=None,
        metadata=pai_meta(
            help="Whether low or high values are good; None: as for the best model if that follows the "
            "same value, else min"
        ),
    )
    decay: float | FunctionName = field(
        default=0.5, metadata=pai_meta(help="Factor when the rate decays, in (0, 1], or module:function(rate) -> rate")
    )
    growth: float | FunctionName = field(
        default=1.0, metadata=pai_meta(help="Factor when it may grow, from 1, or module:function(rate) -> rate")
    )
    threshold: float = field(
        default=-0.01,
        metadata=pai_meta(
            help="The rate decays if the change of the score is above it. Improvements are negative: -0.01 means that "
            "the score must improve by 0.01 (of a relative change: by 1 percent), 0.01 that it may get worse by that"
        ),
    )
    hold_epochs: int = field(
        default=0, metadata=pai_meta(help="A rate stays for at least so many epochs (0 and 1: it may always change)")
    )
    restore_best: bool = field(
        default=False,
        metadata=pai_meta(
            help="When a decay lowers the rate (not at min_lr), go back to the weights of the best epoch, without "
            "averages of the weights and moments of the optimizer"
        ),
    )
    best_monitor: str | None = field(
        default=None, metadata=pai_meta(mode="ignore", help="What tells the best model, as the trainer has found out")
    )
    best_mode: str | None = field(
        default=None, metadata=pai_meta(mode="ignore", help="Whether low or high values of it are good")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("threshold", math.isfinite(self.threshold), "a finite number")
        self._check("hold_epochs", self.hold_epochs >= 0, "at least 0")
        self._check_factor("decay", lambda factor: 0 < factor <= 1, "in (0, 1]")
        self._check_factor("growth", lambda factor: 1 <= factor < math.inf, "from 1")

    @abstractmethod
    def decide(self, epoch: int, scores: Scores) -> Decision:
        """What `scores` ask for; held rates and listed ones are the caller's business.

        Args:
            epoch: whose rate it is about.
            scores: at least one.
        """
        raise NotImplementedError

    def needs_scores(self) -> bool:
        return True

    def rule_rate(self, epoch: int, history: History) -> float:
        rate = self._current_rate(epoch, history)
        decision = self.decision(epoch, history)
        if decision is Decision.DECAY:
            return min(rate, self._apply("decay", rate))
        return max(rate, self._apply("growth", rate)) if decision is Decision.GROW else rate

    def decision(self, epoch: int, history: History) -> Decision:
        """What happens at the beginning of an epoch, a pure function of the records of earlier ones."""
        scores = None if epoch in self.listed() else self.scores(epoch, history)
        if scores is None or self._is_held(epoch, history):
            return Decision.HOLD
        return self.decide(epoch, scores)

    def scores(self, epoch: int, history: History) -> Scores | None:
        """What there is before an epoch; None if none of the monitored values has been logged."""
        for name in self._candidates():
            if found := history.scores(name, before=epoch):
                return Scores(history, name, self._mode_of(name), list(found))
        return None

    def restores_best(self, epoch: int, history: History) -> bool:
        if not self.restore_best or self.decision(epoch, history) is not Decision.DECAY:
            return False
        # At its lower bound the rate decays no more: going back again and again, the training would stand still.
        return self.rate(epoch, history) < self._current_rate(epoch, history)

    def keeps_best(self, epoch: int, history: History) -> bool:
        scores = self.scores(epoch + 1, history) if self.restore_best else None
        return scores is not None and history.best_epoch(scores.name, scores.mode, last=epoch) == epoch

    def check_functions(self) -> None:
        super().check_functions()
        for name in ("decay", "growth"):
            if isinstance(getattr(self, name), str):
                load_function(getattr(self, name), f"--learning_rate.{name}")

    def check_run(self, best: BestModel | None, logged: Sequence[str], logs_lav: bool) -> None:
        super().check_run(best, logged, logs_lav)
        if best is not None:
            self.best_monitor, self.best_mode = best.monitor, best.mode
        if not any(name in logged or (logs_lav and LAV_NAME.match(name)) for name in self._candidates()):
            self._raise_unknown(logged, logs_lav)

    def check_lav(self, measured: Sequence[str]) -> None:
        names = self._candidates()
        if all(LAV_NAME.match(name) for name in names) and not set(names) & set(measured):
            self._raise_unknown(measured)

    def _raise_unknown(self, logged: Sequence[str], logs_lav: bool = False) -> None:
        lav = ", and those of LAV (lav_l0_...)" if logs_lav else ""
        followed = " or ".join(map(repr, self._candidates()))
        problem = f"follows {followed}, which is not logged" if followed else "must be told what to follow"
        raise UsageError(
            f"the learning rate {problem}: set --learning_rate.monitor; logged values: {', '.join(sorted(logged))}{lav}"
        )

    def difference(self, scores: Scores, old: int, new: int) -> float:
        """How much worse epoch `new` is than epoch `old`; both have a score."""
        found = scores.history.absolute_error(old, new, scores.name, scores.mode)
        assert found is not None  # noqa: S101 (evaluated epochs)
        return found

    def has_news(self, epoch: int, scores: Scores, within: int = 1) -> bool:
        """Whether one of the last `within` recorded epochs before `epoch` was evaluated."""
        last = scores.history.last_epoch(before=epoch)
        return last is not None and scores.epochs[-1] > last - within

    def rate_in(self, epoch: int, history: History) -> float:
        """The rate that a recorded epoch had."""
        rate = history[epoch].lr
        if rate is None:
            rate = history.most_recent_rate(epoch)
        return self.lr if rate is None else rate

    def _candidates(self) -> list[str]:
        if self.monitor is None:
            return [] if self.best_monitor is None else [self.best_monitor]
        return [self.monitor] if isinstance(self.monitor, str) else self.monitor

    def _mode_of(self, name: str) -> str:
        if self.mode is not None:
            return self.mode
        return self.best_mode if name == self.best_monitor and self.best_mode is not None else Mode.MIN

    def _current_rate(self, epoch: int, history: History) -> float:
        """The rate of the epoch before: what was recorded, or, if that is later, the last that was listed."""
        listed = self.last_listed(before=epoch)
        if listed is not None and (history.last_epoch(before=epoch) or 0) < listed[0]:
            return listed[1]
        recorded = history.most_recent_rate(epoch)
        return self.lr if recorded is None else recorded

    def _is_held(self, epoch: int, history: History) -> bool:
        if self.hold_epochs <= 1:
            return False
        if epoch <= self.hold_epochs:  # not so many epochs are over, and there may be billions to hold it
            return True
        last = [history[e].lr for e in range(epoch - self.hold_epochs, epoch) if e in history.epochs]
        return len(last) < self.hold_epochs or len(set(last)) > 1

    def _apply(self, name: str, rate: float) -> float:
        factor = getattr(self, name)
        if not isinstance(factor, str):
            return rate * factor
        result = float(load_function(factor, f"--learning_rate.{name}")(rate))
        if not 0 <= result < math.inf:
            raise UsageError(f"{factor}({rate}) returned {result}, expected a rate: change --learning_rate.{name}")
        return result

    def _check_factor(self, name: str, is_valid: Any, expected: str) -> None:
        factor = getattr(self, name)
        if isinstance(factor, str):
            check_function_name(factor, f"--learning_rate.{name}", "a number or ")
        else:
            # An integer is most likely meant for a field that counts epochs.
            self._check(name, isinstance(factor, float) and is_valid(factor), f"a float {expected}, e.g. 1.0")
