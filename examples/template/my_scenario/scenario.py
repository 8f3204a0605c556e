"""Data and options of the scenario. This file imports no backend, so `--help` and data workers start at once."""

import numpy as np

from tfaip import Data, Generator, ModelBaseParams, Sample, Scenario, Spec, option, shared


class MyData(Data):
    """Shapes (without the batch dimension) and types of a sample; each field is a flag, here `--data.features`."""

    features: int = option(8, "Number of input features", low=2)
    inputs = {"x": Spec("features")}
    targets = {"y": Spec(1)}


class MySamples(Generator):
    """Random points; the target is 1 if their first two coordinates have the same sign, else 0."""

    size: int = option(1000, "Number of samples", low=1)
    seed: int = option(1, "Seed of the samples")
    data: MyData = shared()  # the params of the data

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Sample:
        x = np.random.default_rng([self.seed, index]).uniform(-1, 1, self.data.features)
        return Sample(inputs={"x": x}, targets={"y": [x[0] * x[1] > 0]})


class MyModelParams(ModelBaseParams, cls=".model:MyModel", graph_cls=".model:MyGraph"):
    """Options of the model, here `--model.units`; the dot means beside this file."""

    units: list[int] = option([32, 32], "Units of each hidden layer")


class MyScenario(Scenario):
    """Classification of random points."""

    data, model = MyData, MyModelParams
    train, val = MySamples(), MySamples(seed=2)
    best = "max acc"
    defaults = {"trainer.epochs": 10}  # flags, with values that can be overridden
