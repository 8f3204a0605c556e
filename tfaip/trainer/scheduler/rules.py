"""Base of all learning rates, those that are functions of time, and the factors on the rate of each update."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from tfaip.params import ParamsBase, option
from tfaip.params.fields import FieldError, below
from tfaip.params.types import FunctionByName, FunctionName, expected_function
from tfaip.trainer.best import BestModel
from tfaip.trainer.history import History
from tfaip.util.text import shorten
from tfaip.util.typing import Tensor


def load_step_function(name: str) -> FunctionByName:
    """Import a function of the user; it may also use the names that RETURNN has for its arguments."""
    return FunctionByName(name, ("update", "epoch", "lr", "network", "global_train_step", "learning_rate"), "function")


@dataclass(frozen=True)
class UpdateTime:
    """Time and base rate of an update.

    Args:
        update: number of the update, from 0, an integer.
        epoch: number of completed epochs, with the fraction of the current one before this update.
        lr: the rate before the rule or the modulation.
        network: the training graph, or None.
    """

    update: Tensor
    epoch: Tensor
    lr: Tensor
    network: Any = None

    def call(self, function: str) -> Tensor:
        """Call a function of the user."""
        names = {"global_train_step": self.update, "learning_rate": self.lr}
        return load_step_function(function)(
            update=self.update, epoch=self.epoch, lr=self.lr, network=self.network, **names
        )


def function_option(help: str) -> FunctionName:  # noqa: A002
    """Declare the name of a function that is called in the compiled step."""
    return option(FunctionName(""), help, required=True, text=expected_function, also={"": "none yet"})


class ModulationParams(ParamsBase):
    """A factor on the learning rate of each update."""

    @abstractmethod
    def factor(self, time: UpdateTime, xp: Any) -> Tensor:
        """Return the factor.

        Args:
            time: the update; its `lr` is the rate before the modulation.
            xp: `numpy` or `keras.ops`, to compute with.
        """
        raise NotImplementedError


class CyclicModulationParams(ModulationParams):
    """decay^(update mod interval_steps): it falls, and starts again at 1."""

    interval_steps: int = option(1000, "Number of updates per cycle", low=1)
    decay: float = option(0.999, "Factor per update within a cycle, above 0", above=0)

    def factor(self, time: UpdateTime, xp: Any) -> Tensor:
        return xp.power(self.decay, xp.multiply(time.update % self.interval_steps, 1.0))


class NoamModulationParams(ModulationParams):
    """model_dim^-0.5 * min(n^-0.5, n * warmup_steps^-1.5), n = update + 1 (Vaswani et al., 2017).

    Its peak is small, so choose `lr` near 1.
    """

    warmup_steps: int = option(25000, "Number of updates for which the factor grows", low=1)
    model_dim: int = option(512, "Width of the model", low=1)

    def factor(self, time: UpdateTime, xp: Any) -> Tensor:
        n = xp.multiply(time.update, 1.0) + 1.0
        return self.model_dim**-0.5 * xp.minimum(1.0 / xp.sqrt(n), n * self.warmup_steps**-1.5)


class FunctionModulationParams(ModulationParams):
    """The result of a function of the user, which may take update, epoch, lr and network by name."""

    function: FunctionName = function_option("module:function that returns the factor")

    def factor(self, time: UpdateTime, xp: Any) -> Tensor:
        return time.call(self.function)


MODULATIONS = [CyclicModulationParams, NoamModulationParams, FunctionModulationParams]


class LearningRateParams(ParamsBase):
    """A learning rate: a pure function of time and of the history, so that resuming needs no state.

    A subclass implements `value`, which is used in two ways: for one rate per epoch, computed with NumPy, and for a
    rate that changes with every update, computed by the numeric backend inside the compiled step. A schedule with one
    rate per epoch only may implement `rule_rate` instead.
    """

    lr: float = option(0.001, "Base learning rate", low=0, common=True)
    rates: list[float] | dict[int, float] = option(
        [],
        "Rates that override the rule, not limited by min_lr and max_lr: a list from epoch 1 on, or epoch=rate",
        low=0,
    )
    min_lr: float = option(0.0, "Lower bound of the rates of rules and decisions", low=0)
    max_lr: float | None = option(None, "Upper bound of the rates of rules and decisions (None: no bound)", low=0)
    modulation: ModulationParams | None = option(
        None, "Factor on the rate that depends on the number of the update", choices=MODULATIONS
    )
    step_function: bool = option(True, "True: one rate per epoch; False: the rate changes with every update")
    offset_epochs: int = option(0, "Number of epochs at the first rate of the schedule before it starts")
    epochs: int | None = option(None, "Epochs of the whole training, set by the trainer", mode="ignore")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_lr > self.lr and self.uses_lr(1):
            raise FieldError("min_lr", self.min_lr, f"at most lr ({self.lr})", others=["lr"])
        if self.max_lr is not None and self.max_lr < self.min_lr:
            raise FieldError("max_lr", self.max_lr, f"at least min_lr ({self.min_lr})", others=["min_lr"])
        if not self.step_function and type(self).value is LearningRateParams.value:
            expected = f"True, as {type(self).__name__} does not implement value() and so has one rate per epoch"
            raise FieldError("step_function", False, expected)
        if isinstance(self.rates, dict):  # a list may be longer than the training
            for epoch in self.rates:
                if not 1 <= epoch <= (self.epochs or math.inf):
                    expected = f"epochs from 1 to {self.epochs or 'the last'} of the training; one is {shorten(epoch)}"
                    raise FieldError("rates", self.rates, expected)

    def value(self, x: Tensor, xp: Any) -> Tensor:
        """Compute the rule: the factor on `scale()` at a time.

        Args:
            x: completed epochs less `offset_epochs`, not below 0: float64 of NumPy, or a float32 tensor.
            xp: `numpy` or `keras.ops`, to compute with.
        """
        raise NotImplementedError(f"{type(self).__name__} implements neither value() nor rule_rate()")

    def scale(self) -> float:
        """Return the rate that `value` is a factor on."""
        return self.lr

    def rule_rate(self, epoch: int, history: History) -> float:
        """Return the rate of the rule for an epoch (from 1) that is not listed; the caller applies the bounds."""
        import numpy as np

        return self.scale() * float(self.value_after(np.float64(epoch - 1), np))

    def rate(self, epoch: int, history: History) -> float:
        """Return the rate of an epoch before the modulation: that of its first update if it changes with every update.

        Args:
            epoch: from 1.
            history: recorded values; only those of epochs before `epoch` are used.
        """
        listed = self.listed().get(epoch)
        if listed is not None:
            return listed
        # The bounds apply after a decision, also after one to hold: a listed rate below `min_lr` is
        # followed by `min_lr` in the next epoch that is not listed.
        return min(max(self.rule_rate(epoch, history), self.min_lr), self._upper_bound())

    def of_epoch(self, epoch: int, history: History, is_held: bool = False) -> tuple[float, float, bool]:
        """Return the rate of an epoch: that in the history, if the user has chosen it there, else that of the rule.

        Args:
            history: recorded values, and rates of epochs to come.
            is_held: the stage holds the rate: it is `lr`, unless the epoch is listed.

        Returns:
            The rate of the first update before the modulation; the base that the optimizer gets, which is the scale of
            a rule that it computes itself; True if no rule applies.
        """
        chosen = history[epoch].lr if epoch in history else None
        if chosen is None and is_held:
            chosen = self.listed().get(epoch, self.lr)
        if chosen is not None:
            return chosen, chosen, True
        rate, is_listed = self.rate(epoch, history), epoch in self.listed()
        base = self.scale() if self.is_continuous() and not is_listed else rate
        return rate, base, is_listed

    def rate_of_update(self, time: UpdateTime, xp: Any) -> Tensor:
        """Compute the rate of an update of an epoch that is not listed, if `is_continuous()`; `time.lr` is the base."""
        rate = time.lr * self.value_after(time.epoch, xp)
        if self.min_lr == 0 and self.max_lr is None:
            return rate
        return xp.clip(rate, self.min_lr, self._upper_bound())

    def is_continuous(self) -> bool:
        """Return True if the rule is computed for every update."""
        return not self.step_function

    def needs_scores(self) -> bool:
        """Return True if the rate depends on values measured in earlier epochs."""
        return False

    def restores_best(self, epoch: int, history: History) -> bool:
        """Return True if the weights of the best epoch are restored at the beginning of an epoch."""
        return False

    def keeps_best(self, epoch: int, history: History) -> bool:
        """Return True if the weights at the end of a recorded epoch are those that may be restored."""
        return False

    def check_run(self, best: BestModel | None, logged: Sequence[str], logs_lav: bool) -> None:
        """Check what depends on the scenario, and import the functions that the user names, before the first batch.

        Args:
            best: monitor and mode of the best model; None: unknown.
            logged: names of the logged values, without those of LAV.
            logs_lav: True if there will be values of LAV.

        Raises:
            FieldError: if a field cannot work; there is no such function, or it needs other arguments.
        """
        if isinstance(self.modulation, FunctionModulationParams):
            with below("modulation"):
                load_step_function(self.modulation.function)

    def check_lav(self, measured: Sequence[str]) -> None:
        """Check what depends on the values of LAV, after each LAV.

        Args:
            measured: names of all values of the validation and of LAV.

        Raises:
            FieldError: if a monitored value of LAV is missing.
        """

    def listed(self) -> dict[int, float]:
        """Return `rates` by epoch."""
        return self.rates if isinstance(self.rates, dict) else dict(enumerate(self.rates, start=1))

    def last_listed(self, before: int) -> tuple[int, float] | None:
        """Return the last listed epoch below `before` and its rate."""
        return max((item for item in self.listed().items() if item[0] < before), default=None)

    def value_after(self, epochs: Tensor, xp: Any) -> Tensor:
        """Compute `value` after a (fractional) number of completed epochs."""
        return self.value(xp.maximum(epochs - self.offset_epochs, 0.0), xp)

    def rule_epochs(self) -> int:
        """Return the number of epochs until a rule reaches its end: all after `offset_epochs`.

        Raises:
            ValueError: if the number of epochs of the training is not set.
        """
        if self.epochs is None:
            raise ValueError(f"{type(self).__name__} needs to know the length of the training: set its field epochs")
        return max(self.epochs - self.offset_epochs, 0)

    def rule_share(self, x: Tensor, xp: Any) -> Tensor:
        """Compute the share of `rule_epochs()` that has passed at time x, from 0 to 1."""
        return xp.clip(x / max(self.rule_epochs(), 1), 0.0, 1.0)

    def uses_lr(self, epoch: int) -> bool:
        """Return True if `lr` has an effect on the rates from an epoch on; False if others take its place."""
        return self.epochs is None or not self.listed().keys() >= set(range(epoch, self.epochs + 1))

    def _upper_bound(self) -> float:
        return math.inf if self.max_lr is None else self.max_lr


class Interpolation(StrEnum):
    """Form of the curve between two points."""

    LINEAR = "linear"
    STEP = "step"
    EXPONENTIAL = "exponential"
    COSINE = "cosine"


def check_points(points: Mapping[float, float], kind: Interpolation, *others: str) -> None:
    """Raise a `FieldError` of the field `points` unless `interpolate` can use them; `others` also give points."""
    if not points or not all(0 <= x < math.inf for x in points):
        raise FieldError("points", points, "values by number of completed epochs, finite and at least 0")
    if kind is Interpolation.EXPONENTIAL and min(points.values()) <= 0:
        expected = "values above 0 for exponential interpolation"
        raise FieldError("points", points, expected, others=["interpolation", *others])


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
    """Constant lr; after `rates` its last value."""

    def rule_rate(self, epoch: int, history: History) -> float:
        last = self.last_listed(before=epoch)
        return self.lr if last is None else last[1]

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


class FunctionParams(FlatParams):
    """The result of a function, which may take update, epoch (completed ones, fractional), lr and network by name."""

    function: FunctionName = function_option("module:function that returns the rate")
    step_function: bool = option(False, "Always False: the function is called for every update")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step_function:
            raise FieldError("step_function", True, "False, as the function is called for every update")

    # The rate of an epoch is `lr`, the base of the function: its result is known within the compiled step only.
    def rate_of_update(self, time: UpdateTime, xp: Any) -> Tensor:
        rate = xp.cast(time.call(self.function), "float32")
        return xp.clip(rate, self.min_lr, self._upper_bound())

    def check_run(self, best: BestModel | None, logged: Sequence[str], logs_lav: bool) -> None:
        super().check_run(best, logged, logs_lav)
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
        check_points(self._all_points(), self.interpolation, "lr")  # which is the rate at 0 unless a point is

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


class WarmupParams(LearningRateParams):
    """First base class of a schedule with warm-up; the second base class is the rule after it.

    The rate is lr / warmup_factor at x = 0 and lr at x = warmup_epochs, x = completed epochs. It stays lr for
    `constant_epochs`, then follows the rule, and is constant in the last `final_epochs` of the training.
    """

    warmup_epochs: int = option(10, "Number of epochs until the rate is lr (0: no warm-up)", low=0)
    warmup_factor: float = option(10.0, "Quotient of lr and the first rate, at least 1", low=1)
    warmup: Interpolation = option(Interpolation.LINEAR, "Growth of the rate")
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
        # Without warm-up both points are one, with the value 1.
        points = {0.0: 1.0 / self.warmup_factor, float(self.warmup_epochs): 1.0}
        return interpolate(points, self.warmup, x, xp) * super().value(rule_x, xp)

    def rule_epochs(self) -> int:
        others = self.warmup_epochs + self.constant_epochs + self.final_epochs
        return max(super().rule_epochs() - others, 0)


class WarmupConstantParams(WarmupParams, FlatParams):
    """Warm-up, then lr."""


class WarmupExponentialDecayParams(WarmupParams, ExponentialDecayParams):
    """Warm-up, then exponential decay."""


class WarmupCosineDecayParams(WarmupParams, CosineDecayParams):
    """Warm-up, then cosine decay over the remaining epochs."""


RULES = [
    ConstantParams,
    ExponentialDecayParams,
    CosineDecayParams,
    WarmupConstantParams,
    WarmupExponentialDecayParams,
    WarmupCosineDecayParams,
    InverseSqrtDecayParams,
    PolynomialDecayParams,
    PiecewiseParams,
]
