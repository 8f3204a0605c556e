"""Learning rates that are functions of time, and interpolation between points in time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from itertools import pairwise
from typing import Any

from tfaip.params import option
from tfaip.params.fields import FieldError
from tfaip.params.types import FunctionName
from tfaip.trainer.history import EpochRecord, History
from tfaip.trainer.scheduler.feedback import FEEDBACK
from tfaip.trainer.scheduler.params import LearningRateParams, UpdateTime, function_option, load_step_function
from tfaip.util.typing import Tensor


class Interpolation(StrEnum):
    """Form of the curve between two points."""

    LINEAR = "linear"
    STEP = "step"
    EXPONENTIAL = "exponential"
    COSINE = "cosine"


def interpolate(points: Mapping[float, float], kind: Interpolation, x: Tensor, xp: Any) -> Tensor:
    """Compute the value at time x; constant before the first point and after the last one.

    Args:
        points: time -> value, at least one; values above 0 for exponential interpolation.
        kind: step keeps the value of a point until the next one, cosine is half a period of the cosine.
        x: the time.
        xp: `numpy` or `keras.ops`, to compute with.
    """
    ordered = sorted(points.items())
    result = ordered[0][1] * xp.ones_like(x)
    for (start, first), (end, last) in pairwise(ordered):
        between = _between(first, last, kind, xp.clip((x - start) / (end - start), 0.0, 1.0), xp)
        result = xp.where(x >= start, between, result)
    # From the last point on, exactly its value: the formula would round it.
    return xp.where(x >= ordered[-1][0], ordered[-1][1], result)


def _between(first: float, last: float, kind: Interpolation, share: Tensor, xp: Any) -> Tensor:
    if kind is Interpolation.STEP:
        return first
    if kind is Interpolation.EXPONENTIAL:
        return first * xp.power(last / first, share)
    if kind is Interpolation.COSINE:
        share = (1.0 - xp.cos(math.pi * share)) / 2.0
    return first + (last - first) * share


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


class CosineDecayParams(LearningRateParams):
    """lr * (alpha + (1 - alpha) * (1 + cos(pi * x / N)) / 2), N = epochs of the training (Loshchilov, Hutter, 2016).

    `lr * alpha` is reached with the end of the last epoch.
    """

    alpha: float = option(0.0, "Fraction of lr at the end of the training, in [0, 1]", low=0, high=1)

    def value(self, x: Tensor, xp: Any) -> Tensor:
        wave = (1.0 + xp.cos(math.pi * self.rule_share(x, xp))) / 2.0
        return self.alpha + (1.0 - self.alpha) * wave


class ExponentialDecayParams(LearningRateParams):
    """lr * decay^floor(x / learning_circle), x = completed epochs, not below lr * decay_min_fraction."""

    decay: float = option(0.99, "Factor per learning circle, in (0, 1]", above=0, high=1)
    learning_circle: int = option(3, "Number of epochs between two decays", low=1)
    decay_min_fraction: float = option(0.0, "Lower bound of the rate as a fraction of lr, in [0, 1]", low=0, high=1)

    def value(self, x: Tensor, xp: Any) -> Tensor:
        circles = xp.floor(x / self.learning_circle)
        return xp.maximum(xp.power(self.decay, circles), self.decay_min_fraction)


class FunctionParams(LearningRateParams):
    """The result of a function, which may take update, epoch (completed ones, fractional), lr and network by name."""

    function: FunctionName = function_option("module:function that returns the rate")
    step_function: bool = option(False, "Always False: the function is called for every update")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step_function:
            raise FieldError("step_function", True, "False, as the function is called for every update")

    def value(self, x: Tensor, xp: Any) -> Tensor:
        raise TypeError("a rate that a function returns is known within the compiled step only")

    def rule_rate(self, epoch: int, history: History) -> float:
        """Return `lr`, the base of the function: its result is known within the compiled step only."""
        return self.lr

    def rate_of_update(self, time: UpdateTime, xp: Any) -> Tensor:
        rate = xp.cast(time.call(self.function), "float32")
        return xp.clip(rate, self.min_lr, self._upper_bound())

    def check_functions(self) -> None:
        super().check_functions()
        load_step_function(self.function)


class InverseSqrtDecayParams(LearningRateParams):
    """lr / sqrt(1 + x / timescale_epochs), x = completed epochs (Zhai et al., 2021); it needs no end."""

    # Below 1e-6 the quotient of an epoch could exceed the range of a float.
    timescale_epochs: float = option(
        1.0, "Time scale in epochs; the rate has halved after 3 * timescale_epochs", low=1e-6
    )

    def value(self, x: Tensor, xp: Any) -> Tensor:
        return 1.0 / xp.sqrt(1.0 + x / self.timescale_epochs)


class PiecewiseParams(LearningRateParams):
    """Interpolation between the rates of `points`; after the last point its rate stays.

    Time is counted in completed epochs: point 5 belongs to the beginning of epoch 6. Without a point 0 the rate
    there is `lr`.
    """

    points: dict[float, float] = option({}, "Rates by number of completed epochs, e.g. 10=0.001 20=0.0001", low=0)
    interpolation: Interpolation = option(
        Interpolation.LINEAR, "Interpolation between two points (step: the rate of the earlier one)"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(0 <= x < math.inf for x in self.points):
            raise FieldError("points", self.points, "completed epochs=rate, with finite numbers of epochs from 0")
        if self.interpolation is Interpolation.EXPONENTIAL and 0 in self._all_points().values():
            expected = "rates above 0 for exponential interpolation (lr is the rate at 0 unless a point is)"
            raise FieldError("points", self.points, expected, others=["lr", "interpolation"])

    def value(self, x: Tensor, xp: Any) -> Tensor:
        return interpolate(self._all_points(), self.interpolation, x, xp)

    def scale(self) -> float:
        return 1.0

    def _all_points(self) -> dict[float, float]:
        return {0.0: self.lr, **self.points}


class PolynomialDecayParams(LearningRateParams):
    """lr * (alpha + (1 - alpha) * (1 - x / N)^power), N = epochs of the training.

    `lr * alpha` is reached with the end of the last epoch.
    """

    alpha: float = option(0.0, "Fraction of lr at the end of the training, in [0, 1]", low=0, high=1)
    power: float = option(1.0, "Exponent (1: linear decay)", above=0)

    def value(self, x: Tensor, xp: Any) -> Tensor:
        left = xp.power(1.0 - self.rule_share(x, xp), self.power)
        return self.alpha + (1.0 - self.alpha) * left


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


SCHEDULES = [
    ConstantParams,
    ExponentialDecayParams,
    CosineDecayParams,
    WarmupConstantParams,
    WarmupExponentialDecayParams,
    WarmupCosineDecayParams,
    InverseSqrtDecayParams,
    PolynomialDecayParams,
    PiecewiseParams,
    *FEEDBACK,
    FunctionParams,
]
