"""Shapes of a sample, and the generator of the samples. Replace `MyGenerator.load` by your data."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tfaip.imports import (
    ArrayDataGenerator,
    DataBase,
    DataBaseParams,
    DataGeneratorParams,
    Sample,
    TensorSpec,
)
from tfaip.params import pai_dataclass, pai_meta


@pai_dataclass
@dataclass
class MyDataParams(DataBaseParams, cls=":MyData"):
    """Options of the data; each field is a flag, here `--data.features`."""

    features: int = field(default=8, metadata=pai_meta(help="Number of input features"))


class MyData(DataBase[MyDataParams]):
    """Names, shapes (without the batch dimension) and types of the inputs and targets of the model."""

    def _input_layer_specs(self) -> dict[str, TensorSpec]:
        return {"x": TensorSpec((self.params.features,), "float32")}

    def _target_layer_specs(self) -> dict[str, TensorSpec]:
        return {"y": TensorSpec((1,), "float32")}


@pai_dataclass
@dataclass
class MyGeneratorParams(DataGeneratorParams, cls=":MyGenerator"):
    """Options of the generator; each field is a flag, here `--train.samples` and `--val.samples`."""

    samples: int = field(default=1000, metadata=pai_meta(help="Number of samples"))
    seed: int = field(default=1, metadata=pai_meta(help="Seed of the samples"))
    features: int = field(default=8, metadata=pai_meta(mode="ignore", help="As chosen in the data"))


class MyGenerator(ArrayDataGenerator[MyGeneratorParams]):
    """Random points; the target is 1 if their first two coordinates have the same sign, else 0.

    If your data do not fit into memory, derive from `DataGenerator` and define `__len__` and
    `__getitem__`.
    """

    def load(self) -> Sample:
        rng = np.random.default_rng(self.params.seed)
        x = rng.uniform(-1, 1, size=(self.params.samples, self.params.features)).astype("float32")
        y = (x[:, :1] * x[:, 1:2] > 0).astype("float32")
        return Sample(inputs={"x": x}, targets={"y": y})
