"""Learning rates that follow measured values, and their base.

The history is the only memory of these rules: an edited history takes effect when a run is resumed,
and `tfaip-replay-learning-rate` decides exactly as a training does.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise

from tfaip.params import option
from tfaip.params.fields import FieldError
from tfaip.params.types import FunctionName, expected_function, load_function
from tfaip.trainer.best import BestModel
from tfaip.trainer.history import History, absolute_difference, quotient, relative_difference
from tfaip.trainer.run.names import LAV_NAME, measured_name
from tfaip.trainer.scheduler.rules import LearningRateParams
from tfaip.util.text import shorten_text


class Mode(StrEnum):
    """Direction of good scores."""

    MIN = "min"
    MAX = "max"


class Divisor(StrEnum):
    """Score that a difference is divided by."""

    NEW = "new"
    OLD = "old"


class Decision(StrEnum):
    """Change of the rate at the beginning of an epoch."""

    HOLD = "hold"
    DECAY = "decay"
    GROW = "grow"


def _expected_factor(text: str) -> str | None:
    expected = expected_function(text)
    return None if expected is None else f"a number or {expected}"


class FeedbackParams(LearningRateParams):
    """The rate of the previous epoch, which decays or grows depending on the scores."""

    monitor: str | list[str] | None = option(
        None, "Logged value(s) to monitor, e.g. val_loss; the first available is used (None: the best-model monitor)"
    )
    mode: Mode | None = option(
        None,
        "min: low values are good; max: high values are good (None: as for the best model if it has the same "
        "monitor, else min)",
    )
    decay: float | FunctionName = option(
        0.5, "Factor of a decay, in (0, 1], or module:function(rate) -> rate", above=0, high=1, text=_expected_factor
    )
    growth: float | FunctionName = option(
        1.0, "Factor of a growth, at least 1, or module:function(rate) -> rate", low=1, text=_expected_factor
    )
    threshold: float = option(
        -0.01,
        "Change of the score above which the rate decays; improvements are negative: -0.01 means that the "
        "score must improve by 0.01 (relative changes: by 1 percent), 0.01 that it may get worse by that",
        finite=True,
    )
    hold_epochs: int = option(0, "Minimum number of epochs with the same rate (0 and 1: it may always change)", low=0)
    restore_best: bool = option(
        False,
        "Restore the weights of the best epoch when a decay lowers the rate (not at min_lr); averages of the weights "
        "and moments of the optimizer begin again",
    )
    modes: dict[str, str] = option(
        {}, "Monitored values by their names in the log, and modes unless `mode` is set", mode="ignore"
    )

    @abstractmethod
    def decide(self, epoch: int, name: str, history: History) -> Decision:
        """Decide by the scores before an epoch; the caller handles held and listed rates.

        Args:
            epoch: epoch whose rate is decided.
            name: name of the monitored value, of which there are at least two, the last one in an epoch since the
                last decision.
            history: the records of earlier epochs.
        """
        raise NotImplementedError

    def needs_scores(self) -> bool:
        return True

    def rule_rate(self, epoch: int, history: History) -> float:
        rate, decision = self._current_rate(epoch, history), self.decision(epoch, history)
        if decision is Decision.DECAY:
            return min(rate, self._apply("decay", rate))  # it never raises the rate, a growth never lowers it
        return max(rate, self._apply("growth", rate)) if decision is Decision.GROW else rate

    def monitored(self) -> list[str]:
        """Return the names of the monitored values; the first one that was logged is used."""
        given = [self.monitor] if isinstance(self.monitor, str) else self.monitor
        return list(self.modes) or given or []

    def uses_lr(self, epoch: int) -> bool:
        return epoch == 1 and 1 not in self.listed()

    def decision(self, epoch: int, history: History) -> Decision:
        """Return the change at the beginning of an epoch, a pure function of the records of earlier ones."""
        name = None if epoch in self.listed() else self.followed(epoch, history)
        if name is None or self._is_held(epoch, history) or not self._has_news(epoch, name, history):
            return Decision.HOLD
        return self.decide(epoch, name, history)

    def followed(self, epoch: int, history: History) -> str | None:
        """Return the first monitored value that was logged before an epoch."""
        return next((name for name in self.monitored() if history.last_evaluated(name, 1, epoch)), None)

    def restores_best(self, epoch: int, history: History) -> bool:
        if not self.restore_best or self.decision(epoch, history) is not Decision.DECAY:
            return False
        # At its lower bound the rate no longer decays. A restore in every epoch would undo all progress.
        return self.rate(epoch, history) < self._current_rate(epoch, history)

    def keeps_best(self, epoch: int, history: History) -> bool:
        name = self.followed(epoch + 1, history) if self.restore_best else None
        return name is not None and history.best_epoch(name, self._mode_of(name), last=epoch) == epoch

    def check_run(self, best: BestModel | None, logged: Sequence[str], logs_lav: bool) -> None:
        super().check_run(best, logged, logs_lav)
        for name in ("decay", "growth"):
            if isinstance(getattr(self, name), str):
                load_function(getattr(self, name), name)
        self.modes = {}
        of_best = {} if best is None else {best.monitor: best.mode}
        names = [measured_name(name, logged, logs_lav) for name in self.monitored() or of_best]
        self.modes = {name: of_best.get(name, Mode.MIN) for name in names}
        self._check_monitored(logged, logs_lav)

    def check_lav(self, measured: Sequence[str]) -> None:
        if all(map(LAV_NAME.match, self.monitored())):
            self._check_monitored(measured)

    def _check_monitored(self, logged: Sequence[str], logs_lav: bool = False) -> None:
        """Raise unless one of the monitored values is logged, or may be one of LAV that is not known yet."""
        names = self.monitored()
        if not any(name in logged or (logs_lav and LAV_NAME.match(name)) for name in names):
            known = shorten_text(", ".join(sorted(logged)), 120)
            known += ", and those of LAV, lav_l0_..." if logs_lav else ""
            raise FieldError("monitor", names[0] if len(names) == 1 else names or None, f"a logged value ({known})")

    def difference(self, name: str, history: History, old: int, new: int) -> float:
        """Return how much worse epoch `new` is than epoch `old`; both have a score."""
        return absolute_difference(history[old].values[name], history[new].values[name], self._mode_of(name))

    def decides_every(self) -> int:
        """Return the number of epochs from one decision to the next."""
        return 1

    def _has_news(self, epoch: int, name: str, history: History) -> bool:
        """Return True if two scores can be compared, of which one is later than the last decision."""
        evaluated, last = history.last_evaluated(name, 2, epoch), history.last_epoch(before=epoch) or 0
        return len(evaluated) == 2 and evaluated[-1] > last - self.decides_every()

    def rate_in(self, epoch: int, history: History) -> float:
        """Return the rate that a recorded epoch had."""
        rate = history.most_recent_rate(epoch, exclude_current=False)
        return self.lr if rate is None else rate

    def _mode_of(self, name: str) -> str:
        return self.mode or self.modes.get(name, Mode.MIN)

    def _current_rate(self, epoch: int, history: History) -> float:
        """Return the rate of the previous epoch: the recorded one, or the last listed one if that is later."""
        listed = self.last_listed(before=epoch)
        if listed is not None and (history.last_epoch(before=epoch) or 0) < listed[0]:
            return listed[1]
        return self.rate_in(epoch - 1, history)

    def _is_held(self, epoch: int, history: History) -> bool:
        if self.hold_epochs <= 1:
            return False
        last = [history[e].lr for e in history.epochs if epoch - self.hold_epochs <= e < epoch]
        return len(last) < self.hold_epochs or len(set(last)) > 1

    def _apply(self, name: str, rate: float) -> float:
        factor = getattr(self, name)
        if not isinstance(factor, str):
            return rate * factor
        result = float(load_function(factor, name)(rate))
        if not 0 <= result < math.inf:
            raise FieldError(name, factor, f"a function that returns a rate: for {rate} it returned {result}")
        return result


class NewbobAbsParams(FeedbackParams):
    """rate * decay if s(b) - s(a) > threshold, else rate * growth; s(a), s(b): the two last scores."""

    def decide(self, epoch: int, name: str, history: History) -> Decision:
        difference = self.difference(name, history, *history.last_evaluated(name, 2, epoch))
        return Decision.DECAY if difference > self.threshold else Decision.GROW


class RelativeFeedbackParams(FeedbackParams):
    """A control that follows relative changes."""

    divide_by: Divisor = option(Divisor.NEW, "Score that divides the change of the score: new or old")
    relative_to_lr: bool = option(False, "Multiply changes by lr / (rate in the epoch of the new score)")

    def uses_lr(self, epoch: int) -> bool:
        return super().uses_lr(epoch) or (epoch > 1 and self.relative_to_lr)

    def difference(self, name: str, history: History, old: int, new: int) -> float:
        before, after, by_old = history[old].values[name], history[new].values[name], self.divide_by is Divisor.OLD
        found = relative_difference(before, after, self._mode_of(name), by_old)
        if self.relative_to_lr and math.isfinite(found):
            return quotient(found * self.lr, self.rate_in(new, history))
        return found


class NewbobRelParams(RelativeFeedbackParams, NewbobAbsParams):
    """rate * decay if (s(b) - s(a)) / |s(b)| > threshold, else rate * growth; s(a), s(b): the two last scores."""


class NewbobMultiEpochParams(RelativeFeedbackParams):
    """The mean of the last relative changes decides, every few epochs; for epochs that are parts of the data."""

    window_epochs: int = option(5, "Number of changes in the mean", low=1)
    update_every_n_epochs: int | None = option(
        None, "Change the rate only in every n-th epoch (None: window_epochs)", low=1
    )
    grow_threshold: float | None = option(
        None, "Mean below which the rate grows, at most threshold (None: threshold)", finite=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._grow_threshold() > self.threshold:
            # Otherwise a mean between both thresholds would ask for decay and growth.
            expected = f"at most threshold ({self.threshold})"
            raise FieldError("grow_threshold", self.grow_threshold, expected, others=["threshold"])

    def decide(self, epoch: int, name: str, history: History) -> Decision:
        interval = self.decides_every()
        if interval > 1 and epoch % interval != 1:
            return Decision.HOLD
        last = history.last_evaluated(name, self.window_epochs + 1, epoch)
        differences = [self.difference(name, history, old, new) for old, new in pairwise(last)]
        # A single inf outweighs everything, then a single -inf does.
        mean = math.inf if math.inf in differences else sum(differences) / len(differences)
        if mean > self.threshold:
            return Decision.DECAY
        return Decision.GROW if mean < self._grow_threshold() else Decision.HOLD

    def decides_every(self) -> int:
        return self.window_epochs if self.update_every_n_epochs is None else self.update_every_n_epochs

    def _grow_threshold(self) -> float:
        return self.threshold if self.grow_threshold is None else self.grow_threshold


class ReduceOnPlateauParams(RelativeFeedbackParams):
    """rate * decay when so many scores in a row were no improvement over the best one by more than the threshold."""

    patience_epochs: int = option(10, "Number of evaluated epochs without improvement until the rate decays", low=1)

    def decide(self, epoch: int, name: str, history: History) -> Decision:
        epochs = list(history.scores(name, before=epoch))
        best, waited = epochs[0], 0
        for old, new in pairwise(epochs):
            if self.rate_in(new, history) != self.rate_in(old, history):
                waited = 0  # a new rate gets the full patience
            if self.difference(name, history, best, new) <= self.threshold:
                best, waited = new, 0
            else:
                waited += 1
        if waited == 0:
            return Decision.GROW
        return Decision.DECAY if waited >= self.patience_epochs else Decision.HOLD


FEEDBACK = [NewbobRelParams, NewbobAbsParams, NewbobMultiEpochParams, ReduceOnPlateauParams]
