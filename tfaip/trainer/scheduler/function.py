"""A learning rate that a function of the user returns."""

from __future__ import annotations

from typing import Any

from tfaip.params import option
from tfaip.params.fields import FieldError
from tfaip.params.types import FunctionByName, FunctionName, expected_function
from tfaip.trainer.history import History
from tfaip.trainer.scheduler.params import LearningRateParams
from tfaip.trainer.scheduler.updatetime import ARGUMENTS, UpdateTime
from tfaip.util.typing import Tensor


class FunctionParams(LearningRateParams):
    """The result of a function, which may take update, epoch (completed ones, fractional), lr and network by name."""

    function: FunctionName = option(
        FunctionName(""),
        "module:function that returns the rate",
        required=True,
        text=expected_function,
        also={"": "none yet"},
    )
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
        rate = xp.cast(time.call(self._load()), "float32")
        return xp.clip(rate, self.min_lr, self._upper_bound())

    def check_functions(self) -> None:
        super().check_functions()
        self._load()

    def _load(self) -> FunctionByName:
        return FunctionByName(self.function, ARGUMENTS, "function")
