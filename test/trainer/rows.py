"""Rows of ones of given lengths; without a backend, since data workers import this module."""

from typing import Any

import numpy as np

from tfaip.data.data import Data
from tfaip.data.pipeline.datagenerator import Generator
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.processor.dataprocessor import Processor
from tfaip.data.specs import Spec


class RowsParams(Generator):
    lengths: list[int] = []

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Sample:
        return Sample(inputs={"x": np.ones(self.lengths[index])}, targets={"y": [0.0]}, meta=index)


class ScaledParams(Processor):
    """Multiplies the rows."""

    factor: float = 1.0

    def apply(self, sample: Sample) -> Any:
        return sample.new_inputs({"x": sample.inputs["x"] * self.factor})


class RowsDataParams(Data):
    inputs, targets = {"x": Spec(None)}, {"y": Spec(1)}

    def element_length_fn(self, sample: Sample) -> int:
        return len(sample.inputs["x"])
