"""Newbob: the rate decays as soon as the score no longer improves enough."""

from __future__ import annotations

from itertools import pairwise

from tfaip.params import option
from tfaip.params.fields import FieldError
from tfaip.trainer.scheduler.feedback import Decision, Divisor, FeedbackParams, Scores
from tfaip.trainer.scores import mean_difference, quotient


class NewbobAbsParams(FeedbackParams):
    """rate * decay if s(b) - s(a) > threshold, else rate * growth; s(a), s(b): the two last scores."""

    def decide(self, epoch: int, scores: Scores) -> Decision:
        last = scores.last(2)
        if len(last) < 2 or not self.has_news(epoch, scores):
            return Decision.HOLD
        difference = self.difference(scores, *last)
        return Decision.DECAY if difference > self.threshold else Decision.GROW


class RelativeFeedbackParams(FeedbackParams):
    """A control that follows relative changes."""

    divide_by: Divisor = option(Divisor.NEW, "Score that divides the change of the score: new or old")
    relative_to_lr: bool = option(False, "Multiply changes by lr / (rate in the epoch of the new score)")

    def uses_lr(self, epoch: int) -> bool:
        return super().uses_lr(epoch) or (epoch > 1 and self.relative_to_lr)

    def difference(self, scores: Scores, old: int, new: int) -> float:
        by_old = self.divide_by is Divisor.OLD
        found = scores.history.relative_error(old, new, scores.name, scores.mode, by_old)
        assert found is not None  # noqa: S101 (evaluated epochs)
        if not self.relative_to_lr or found in (float("inf"), float("-inf")):
            return found
        return quotient(found * self.lr, self.rate_in(new, scores.history))


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

    def decide(self, epoch: int, scores: Scores) -> Decision:
        interval = self._interval()
        if interval > 1 and epoch % interval != 1:
            return Decision.HOLD
        last = scores.last(self.window_epochs + 1)
        if len(last) < 2 or not self.has_news(epoch, scores, within=interval):
            return Decision.HOLD
        mean = mean_difference([self.difference(scores, old, new) for old, new in pairwise(last)])
        if mean > self.threshold:
            return Decision.DECAY
        return Decision.GROW if mean < self._grow_threshold() else Decision.HOLD

    def _interval(self) -> int:
        return self.window_epochs if self.update_every_n_epochs is None else self.update_every_n_epochs

    def _grow_threshold(self) -> float:
        return self.threshold if self.grow_threshold is None else self.grow_threshold


class ReduceOnPlateauParams(RelativeFeedbackParams):
    """rate * decay when so many scores in a row were no improvement over the best one by more than the threshold."""

    patience_epochs: int = option(10, "Number of evaluated epochs without improvement until the rate decays", low=1)

    def decide(self, epoch: int, scores: Scores) -> Decision:
        if len(scores.epochs) < 2 or not self.has_news(epoch, scores):
            return Decision.HOLD
        best, waited = scores.epochs[0], 0
        for old, new in pairwise(scores.epochs):
            if self.rate_in(new, scores.history) != self.rate_in(old, scores.history):
                waited = 0  # a new rate gets the full patience
            if self.difference(scores, best, new) <= self.threshold:
                best, waited = new, 0
            else:
                waited += 1
        if waited == 0:
            return Decision.GROW
        return Decision.DECAY if waited >= self.patience_epochs else Decision.HOLD
