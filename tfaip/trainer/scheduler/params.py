"""Base of all learning rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tfaip.params import ParamsBase, pai_dataclass, pai_meta
from tfaip.trainer.best import BestModel
from tfaip.trainer.history import History
from tfaip.trainer.scheduler.modulation import MODULATIONS, ModulationParams
from tfaip.trainer.scheduler.updatetime import UpdateTime
from tfaip.util.typing import Tensor


@pai_dataclass
@dataclass
class LearningRateParams(ParamsBase):
    """A learning rate: a pure function of time and of what the history tells, so that resume needs no state.

    A subclass implements `value`, which serves both ways of using it: one rate per epoch, computed with NumPy, and a
    rate that changes with every update, computed by the numeric backend inside the compiled step. What is only ever
    used per epoch may implement `rule_rate` instead.
    """

    lr: float = field(default=0.001, metadata=pai_meta(help="Base learning rate"))
    rates: list[float] | dict[int, float] = field(
        default_factory=list,
        metadata=pai_meta(help="Rates that are taken as they are: a list for the epochs from 1, or epoch=rate"),
    )
    min_lr: float = field(default=0.0, metadata=pai_meta(help="No rule or decision gives a lower rate"))
    max_lr: float | None = field(default=None, metadata=pai_meta(help="No rule or decision gives a higher rate"))
    modulation: ModulationParams | None = field(
        default=None,
        metadata=pai_meta(choices=MODULATIONS, help="Factor of the number of the update, on top of the rate"),
    )
    step_function: bool = field(
        default=True,
        metadata=pai_meta(help="True: one rate per epoch; False: the rate changes with every update"),
    )
    offset_epochs: int = field(
        default=0,
        metadata=pai_meta(help="Number of epochs by which the schedule starts later, at its first rate"),
    )
    epochs: int | None = field(
        default=None, metadata=pai_meta(mode="ignore", help="Epochs of the whole training, as the trainer has them")
    )

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lr) and self.lr >= 0):
            raise ValueError(f"learning rate {self.lr} is not a finite number >= 0: change --learning_rate.lr")
        self._check("min_lr", 0 <= self.min_lr < math.inf, "a finite number >= 0")
        if self.min_lr > self.lr and self._uses_lr():
            raise ValueError(
                f"min_lr {self.min_lr} is above lr {self.lr}: change --learning_rate.min_lr or --learning_rate.lr"
            )
        if self.max_lr is not None:
            self._check("max_lr", self.min_lr <= self.max_lr < math.inf, f"a number from min_lr ({self.min_lr})")
        if not self.step_function and type(self).value is LearningRateParams.value:
            raise ValueError(
                f"{type(self).__name__} has one rate per epoch only, as it does not implement value(): "
                "set --learning_rate.step_function True"
            )
        self.check_rates()

    def value(self, x: Tensor, xp: Any) -> Tensor:
        """The rule: the factor on `scale()` at a time.

        Args:
            x: completed epochs less `offset_epochs`, not below 0: float64 of NumPy, or a float32 tensor.
            xp: `numpy` or `keras.ops`, to compute with.
        """
        raise NotImplementedError(f"{type(self).__name__} implements neither value() nor rule_rate()")

    def scale(self) -> float:
        """What `value` is a factor of."""
        return self.lr

    def rule_rate(self, epoch: int, history: History) -> float:
        """What the rule gives for an epoch (from 1) that is not listed in `rates`; the caller applies the bounds."""
        import numpy as np

        return self.scale() * float(self.value_after(np.float64(epoch - 1), np))

    def rate(self, epoch: int, history: History) -> float:
        """The learning rate of an epoch, before the modulation; of its first update, if it changes with every update.

        Args:
            epoch: from 1.
            history: what is known; only epochs before `epoch` count.
        """
        listed = self.listed().get(epoch)
        return listed if listed is not None else self._bounded(self.rule_rate(epoch, history))

    def base(self, epoch: int, history: History) -> float:
        """What the optimizer is told before `epoch`: the rate, or the scale of a rule that it computes itself."""
        return self.scale() if self.is_continuous() and epoch not in self.listed() else self.rate(epoch, history)

    def rate_of_update(self, time: UpdateTime, xp: Any) -> Tensor:
        """The rate of an update of an epoch that is not listed, if `is_continuous()`; `time.lr` is the base."""
        rate = time.lr * self.value_after(time.epoch, xp)
        return rate if self.min_lr == 0 and self.max_lr is None else xp.clip(rate, self.min_lr, self._upper_bound())

    def is_continuous(self) -> bool:
        """Whether the rule is computed for every update."""
        return not self.step_function

    def needs_scores(self) -> bool:
        """Whether the rate depends on what was measured in earlier epochs."""
        return False

    def restores_best(self, epoch: int, history: History) -> bool:
        """Whether the weights of the best epoch come back at the beginning of an epoch."""
        return False

    def keeps_best(self, epoch: int, history: History) -> bool:
        """Whether the weights at the end of a recorded epoch are those that may come back."""
        return False

    def check_rates(self) -> None:
        """Check the listed rates, now that `epochs` may have been set.

        Raises:
            ValueError: an epoch is not in the training, or a rate is not possible.
        """
        last = math.inf if self.epochs is None or not isinstance(self.rates, dict) else self.epochs
        for epoch, rate in self.listed().items():
            if not 1 <= epoch <= last:
                expected = "from 1" if self.epochs is None else f"from 1 to {self.epochs} (--trainer.epochs)"
                raise ValueError(f"rates names epoch {epoch}, expected one {expected}: change --learning_rate.rates")
            if not 0 <= rate < math.inf:
                raise ValueError(
                    f"rates has {rate} for epoch {epoch}, expected a finite number >= 0: change --learning_rate.rates"
                )

    def check_functions(self) -> None:
        """Import the functions that the user names.

        Raises:
            UsageError: there is no such function, or it needs other arguments.
        """
        if self.modulation is not None:
            self.modulation.check_functions()

    def check_run(self, best: BestModel | None, logged: Sequence[str], logs_lav: bool) -> None:
        """Called before the first batch, to find what is wrong and cannot be seen without the scenario.

        Args:
            best: what tells the best model; None: nobody knows.
            logged: names of the values that are logged, but for those of LAV.
            logs_lav: whether there will be values of LAV.

        Raises:
            UsageError: something cannot work.
        """
        self.check_functions()

    def check_lav(self, measured: Sequence[str]) -> None:
        """Called after each LAV.

        Args:
            measured: names of all values of the validation and of LAV.

        Raises:
            UsageError: a value of LAV is needed, and is not there.
        """

    def listed(self) -> dict[int, float]:
        """`rates` by epoch."""
        return self.rates if isinstance(self.rates, dict) else dict(enumerate(self.rates, start=1))

    def last_listed(self, before: int) -> tuple[int, float] | None:
        """The last epoch below `before` that is listed, and its rate."""
        return max((item for item in self.listed().items() if item[0] < before), default=None)

    def value_after(self, epochs: Tensor, xp: Any) -> Tensor:
        """`value` after so many completed epochs, a fractional number."""
        return self.value(xp.maximum(epochs - self.offset_epochs, 0.0), xp)

    def rule_epochs(self) -> int:
        """Epochs that a rule with an end has to get there: all that follow `offset_epochs`.

        Raises:
            ValueError: nobody told how many epochs the training has.
        """
        if self.epochs is None:
            raise ValueError(f"{type(self).__name__} needs to know the length of the training: set its field epochs")
        return max(self.epochs - self.offset_epochs, 0)

    def rule_share(self, x: Tensor, xp: Any) -> Tensor:
        """How much of `rule_epochs()` is over at time x, from 0 to 1."""
        return xp.clip(x / max(self.rule_epochs(), 1), 0.0, 1.0)

    def _uses_lr(self) -> bool:
        """Return True if `lr` is the rate of some epoch; False if listed rates take its place from the start."""
        return True

    def _bounded(self, rate: float) -> float:
        return min(max(rate, self.min_lr), self._upper_bound())

    def _upper_bound(self) -> float:
        return math.inf if self.max_lr is None else self.max_lr

    def _check(self, name: str, is_valid: bool, expected: str) -> None:
        """Raise the ValueError of a field that is not valid."""
        if not is_valid:
            received = getattr(self, name)
            raise ValueError(f"{name} is {received}, expected {expected}: change --learning_rate.{name}")
