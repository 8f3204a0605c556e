"""A learning rate that a function of the user returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tfaip.params import pai_dataclass, pai_meta
from tfaip.params.functions import FunctionByName, FunctionName, check_function_name
from tfaip.trainer.history import History
from tfaip.trainer.scheduler.params import LearningRateParams
from tfaip.trainer.scheduler.updatetime import ARGUMENTS, UpdateTime
from tfaip.util.typing import Tensor

_FLAG = "--learning_rate.function"


@pai_dataclass
@dataclass
class FunctionParams(LearningRateParams):
    """What a function returns; it may take update, epoch (completed ones, fractional), lr and network by name."""

    function: FunctionName = field(
        default=FunctionName(""), metadata=pai_meta(required=True, help="module:function that returns the rate")
    )
    step_function: bool = field(
        default=False, metadata=pai_meta(help="Always False: the function is called for every update")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("step_function", not self.step_function, "False, as the function is called for every update")
        if self.function:
            check_function_name(self.function, _FLAG)

    def value(self, x: Tensor, xp: Any) -> Tensor:
        raise TypeError("a rate that a function returns is known within the compiled step only")

    def rule_rate(self, epoch: int, history: History) -> float:
        """`lr`, what the function starts from: what it returns is known within the compiled step only."""
        return self.lr

    def rate_of_update(self, time: UpdateTime, xp: Any) -> Tensor:
        rate = xp.cast(time.call(self._load()), "float32")
        return xp.clip(rate, self.min_lr, self._upper_bound())

    def check_functions(self) -> None:
        super().check_functions()
        self._load()

    def _load(self) -> FunctionByName:
        return FunctionByName(self.function, ARGUMENTS, _FLAG)
