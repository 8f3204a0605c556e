"""Factors of the number of the update, on top of a learning rate; they run inside of the compiled step."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

from tfaip.params import ParamsBase, pai_dataclass, pai_meta
from tfaip.params.functions import FunctionByName, FunctionName, check_function_name
from tfaip.trainer.scheduler.updatetime import ARGUMENTS, UpdateTime
from tfaip.util.typing import Tensor

_PREFIX = "--learning_rate.modulation"


@pai_dataclass
@dataclass
class ModulationParams(ParamsBase):
    """A factor on the learning rate of each update."""

    @abstractmethod
    def factor(self, time: UpdateTime, xp: Any) -> Tensor:
        """The factor.

        Args:
            time: the update; its `lr` is the rate before the modulation.
            xp: `numpy` or `keras.ops`, to compute with.
        """
        raise NotImplementedError

    def check_functions(self) -> None:
        """Import the functions that the user names.

        Raises:
            UsageError: there is no such function, or it needs other arguments.
        """


@pai_dataclass
@dataclass
class CyclicModulationParams(ModulationParams):
    """decay^(update mod interval_steps): it falls, and starts again at 1."""

    interval_steps: int = field(default=1000, metadata=pai_meta(help="Updates of a cycle"))
    decay: float = field(default=0.999, metadata=pai_meta(help="Factor per update within a cycle, above 0"))

    def __post_init__(self) -> None:
        if self.interval_steps < 1:
            raise ValueError(
                f"interval_steps is {self.interval_steps}, expected at least 1: change {_PREFIX}.interval_steps"
            )
        if not 0 < self.decay < float("inf"):
            raise ValueError(f"decay is {self.decay}, expected a finite number above 0: change {_PREFIX}.decay")

    def factor(self, time: UpdateTime, xp: Any) -> Tensor:
        return xp.power(self.decay, xp.multiply(time.update % self.interval_steps, 1.0))


@pai_dataclass
@dataclass
class NoamModulationParams(ModulationParams):
    """model_dim^-0.5 * min(n^-0.5, n * warmup_steps^-1.5), n = update + 1 (Vaswani et al., 2017); mind lr."""

    warmup_steps: int = field(default=25000, metadata=pai_meta(help="The factor grows for so many updates"))
    model_dim: int = field(default=512, metadata=pai_meta(help="Width of the model"))

    def __post_init__(self) -> None:
        for name in ("warmup_steps", "model_dim"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1: change {_PREFIX}.{name}")

    def factor(self, time: UpdateTime, xp: Any) -> Tensor:
        n = xp.multiply(time.update, 1.0) + 1.0
        return self.model_dim**-0.5 * xp.minimum(1.0 / xp.sqrt(n), n * self.warmup_steps**-1.5)


@pai_dataclass
@dataclass
class FunctionModulationParams(ModulationParams):
    """What a function of the user returns; it may take update, epoch, lr and network by name."""

    function: FunctionName = field(
        default=FunctionName(""), metadata=pai_meta(required=True, help="module:function that returns the factor")
    )

    def __post_init__(self) -> None:
        if self.function:
            check_function_name(self.function, f"{_PREFIX}.function")

    def check_functions(self) -> None:
        self._load()

    def factor(self, time: UpdateTime, xp: Any) -> Tensor:
        return time.call(self._load())

    def _load(self) -> FunctionByName:
        return FunctionByName(self.function, ARGUMENTS, f"{_PREFIX}.function")


MODULATIONS = [CyclicModulationParams, NoamModulationParams, FunctionModulationParams]
