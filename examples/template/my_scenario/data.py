"""What a sample is and where samples come from. Replace `MyGenerator.load` by your data."""

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
class MyDataParams(DataBaseParams):
    """Options of the data: each field is a flag, here `--data.features`."""

    features: int = field(default=8, metadata=pai_meta(help="Number of input features"))

    @staticmethod
    def cls() -> type[MyData]:
        return MyData


class MyData(DataBase[MyDataParams]):
    """Keys, shapes (without the batch dimension) and types of what enters the model."""

    def _input_layer_specs(self) -> dict[str, TensorSpec]:
        return {"x": TensorSpec((self.params.features,), "float32")}

    def _target_layer_specs(self) -> dict[str, TensorSpec]:
        return {"y": TensorSpec((1,), "float32")}


@pai_dataclass
@dataclass
class MyGeneratorParams(DataGeneratorParams):
    """Where samples come from: each field is a flag, here `--train.samples` and `--val.samples`."""

    samples: int = field(default=1000, metadata=pai_meta(help="Number of samples"))
    seed: int = field(default=1, metadata=pai_meta(help="Other seeds give other samples"))
    features: int = field(default=8, metadata=pai_meta(mode="ignore", help="As chosen in the data"))

    @staticmethod
    def cls() -> type[MyGenerator]:
        return MyGenerator


class MyGenerator(ArrayDataGenerator[MyGeneratorParams]):
    """Random points and whether their first two coordinates have the same sign.

    Data that does not fit into memory: derive from `DataGenerator` and give it `__len__` and `__getitem__`.
    """

    def load(self) -> Sample:
        rng = np.random.default_rng(self.params.seed)
        x = rng.uniform(-1, 1, size=(self.params.samples, self.params.features)).astype("float32")
        y = (x[:, :1] * x[:, 1:2] > 0).astype("float32")
        return Sample(inputs={"x": x}, targets={"y": y})
