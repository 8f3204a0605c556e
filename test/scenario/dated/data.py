"""Data of a scenario with everything that `tfaip-check-scenario` finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf  # finding: backend-import

from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataBaseParams, DataGeneratorParams
from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.processor.dataprocessor import (  # finding: old-name
    DataProcessorBase,
    DataProcessorParams,
    MappingDataProcessor,
)


class DatedDataParams(DataBaseParams):
    """Params of the data."""

    @staticmethod
    def cls() -> type[DatedData]:
        return DatedData


class DatedData(DataBase[DatedDataParams]):
    def _input_layer_specs(self) -> dict[str, tf.TensorSpec]:
        return {"x": tf.TensorSpec([2], "float32")}

    def _target_layer_specs(self) -> dict[str, tf.TensorSpec]:
        return {"y": tf.TensorSpec([1], "float32")}

    def _padding_value(self) -> dict[str, float]:  # finding: uncalled-method
        return {"x": 1.0}

    def checked(self, processor: DataProcessorBase) -> bool:
        """A method that other programs may call."""
        return processor is not None


class DatedGeneratorParams(DataGeneratorParams):
    """Params of the generator."""

    size: int = 4

    @staticmethod
    def cls() -> type[DatedGenerator]:
        return DatedGenerator


class DatedGenerator(DataGenerator[DatedGeneratorParams]):
    def __len__(self) -> int:
        return self.params.size

    def __getitem__(self, index: int) -> Sample:
        return Sample(inputs={"x": np.full(2, index)}, targets={"y": [index]})


def twice(value: float) -> float:
    return 2 * value


class TwiceParams(DataProcessorParams):  # finding: unpicklable-processor
    """Params that hold a function without a name."""

    function: Callable[[float], float] = field(default_factory=lambda: lambda value: twice(value))

    @staticmethod
    def cls() -> type[Twice]:
        return Twice


class Twice(MappingDataProcessor[TwiceParams]):
    def apply(self, sample: Sample) -> Sample:
        return sample.new_inputs({"x": self.params.function(sample.inputs["x"])})


def hidden_params() -> DataProcessorParams:
    @dataclass
    class HiddenParams(DataProcessorParams):
        @staticmethod
        def cls() -> type[Twice]:
            return Twice

    return HiddenParams()
