"""Rows of ones of given lengths; without a backend, since data workers import this module."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataBaseParams, DataGeneratorParams
from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams, MappingDataProcessor
from tfaip.data.specs import TensorSpec
from tfaip.params import pai_dataclass


@pai_dataclass
@dataclass
class RowsParams(DataGeneratorParams):
    lengths: list[int] = field(default_factory=list)

    @staticmethod
    def cls() -> type[DataGenerator[Any]]:
        return Rows


class Rows(DataGenerator[RowsParams]):
    def __len__(self) -> int:
        return len(self.params.lengths)

    def __getitem__(self, index: int) -> Sample:
        return Sample(inputs={"x": np.ones(self.params.lengths[index])}, targets={"y": [0.0]}, meta=index)


@pai_dataclass
@dataclass
class ScaledParams(DataProcessorParams):
    """Multiplies the rows."""

    factor: float = 1.0

    @staticmethod
    def cls() -> type[MappingDataProcessor[Any]]:
        return Scaled


class Scaled(MappingDataProcessor[ScaledParams]):
    def apply(self, sample: Sample) -> Sample:
        return sample.new_inputs({"x": sample.inputs["x"] * self.params.factor})


@pai_dataclass
@dataclass
class RowsDataParams(DataBaseParams):
    @staticmethod
    def cls() -> type[DataBase[Any]]:
        return RowsData


class RowsData(DataBase[RowsDataParams]):
    def _input_layer_specs(self) -> dict[str, Any]:
        return {"x": TensorSpec((None,), "float32")}

    def _target_layer_specs(self) -> dict[str, Any]:
        return {"y": TensorSpec((1,), "float32")}

    def element_length_fn(self, sample: Sample) -> int:
        return len(sample.inputs["x"])
