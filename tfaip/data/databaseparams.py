"""Params of the data of a scenario; needs no backend."""

from typing import Any

from tfaip.data.pipeline.datagenerator import DataGeneratorParams
from tfaip.data.pipeline.params import DataPipelineParams
from tfaip.data.pipeline.processor.params import (
    ComposedProcessorPipelineParams,
    DataProcessorPipelineParams,
    SequentialProcessorPipelineParams,
)
from tfaip.params import ParamsBase, option
from tfaip.util.classes import construct

__all__ = ["DataBaseParams", "DataGeneratorParams", "DataPipelineParams"]


class DataBaseParams(ParamsBase):
    """Data of a scenario: its processors, and in subclasses the options that its specs depend on."""

    pre_proc: DataProcessorPipelineParams = option(
        help="Processors between the generator and the model",
        factory=SequentialProcessorPipelineParams,
        choices=[SequentialProcessorPipelineParams, ComposedProcessorPipelineParams],
    )
    post_proc: DataProcessorPipelineParams = option(
        help="Processors after the model, for predictions",
        factory=SequentialProcessorPipelineParams,
        choices=[SequentialProcessorPipelineParams, ComposedProcessorPipelineParams],
    )

    @staticmethod
    def cls() -> type[Any]:
        """Return the `DataBase` subclass that these params describe."""
        raise NotImplementedError("override cls() of the data params and return your DataBase subclass")

    def create(self, **kwargs: Any) -> Any:
        """Build the data."""
        return construct(self.cls(), self, **kwargs)
