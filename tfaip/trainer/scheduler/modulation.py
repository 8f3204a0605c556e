"""Factors on the learning rate that depend on the number of the update, computed in the compiled step."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from tfaip.params import ParamsBase, option
from tfaip.params.types import FunctionByName, FunctionName, expected_function
from tfaip.trainer.scheduler.updatetime import ARGUMENTS, UpdateTime
from tfaip.util.typing import Tensor


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

    def check_functions(self) -> None:
        """Import the functions that the user names.

        Raises:
            FieldError: if there is no such function, or it needs other arguments.
        """


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

    function: FunctionName = option(
        FunctionName(""),
        "module:function that returns the factor",
        required=True,
        text=expected_function,
        also={"": "none yet"},
    )

    def check_functions(self) -> None:
        self._load()

    def factor(self, time: UpdateTime, xp: Any) -> Tensor:
        return time.call(self._load())

    def _load(self) -> FunctionByName:
        return FunctionByName(self.function, ARGUMENTS, "function")


MODULATIONS = [CyclicModulationParams, NoamModulationParams, FunctionModulationParams]
