"""A scenario that trains in a second: a regression on thirty points, augmented with noise from `self.rng`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

import numpy as np

from tfaip.imports import (
    ArrayDataGenerator,
    DataBase,
    DataBaseParams,
    DataGeneratorParams,
    DataProcessorParams,
    MappingDataProcessor,
    ModelBaseParams,
    Sample,
    ScenarioBase,
    ScenarioBaseParams,
    SequentialProcessorPipelineParams,
    TensorSpec,
    TrainerParams,
    TrainerPipelineParams,
)
from tfaip.params import pai_dataclass, pai_meta


@pai_dataclass
@dataclass
class JitterParams(DataProcessorParams):
    """Noise on the inputs of the training."""

    amount: float = field(default=0.1, metadata=pai_meta(help="Standard deviation of the noise"))

    @staticmethod
    def cls() -> type[Jitter]:
        return Jitter


class Jitter(MappingDataProcessor[JitterParams]):
    """Adds the noise, and tells audit hooks of every sample of any mode."""

    def apply(self, sample: Sample) -> Sample:
        sys.audit("tiny.sample", self.mode.value)
        if self.mode.value != "training":
            return sample
        noise = self.rng.normal(scale=self.params.amount, size=4).astype("float32")
        return sample.new_inputs({"x": sample.inputs["x"] + noise})


class TinyDataParams(DataBaseParams):
    """No options."""

    @staticmethod
    def cls() -> type[TinyData]:
        return TinyData


class TinyData(DataBase[TinyDataParams]):
    """Four numbers in, one out."""

    def _input_layer_specs(self) -> dict[str, TensorSpec]:
        return {"x": TensorSpec((4,), "float32")}

    def _target_layer_specs(self) -> dict[str, TensorSpec]:
        return {"y": TensorSpec((1,), "float32")}


@pai_dataclass
@dataclass
class TinyGeneratorParams(DataGeneratorParams):
    """Random points."""

    samples: int = field(default=30, metadata=pai_meta(help="Number of points"))
    seed: int = field(default=1, metadata=pai_meta(help="Other seeds give other points"))

    @staticmethod
    def cls() -> type[TinyGenerator]:
        return TinyGenerator


class TinyGenerator(ArrayDataGenerator[TinyGeneratorParams]):
    """y is the sum of x."""

    def load(self) -> Sample:
        x = np.random.default_rng(self.params.seed).normal(size=(self.params.samples, 4)).astype("float32")
        return Sample(inputs={"x": x}, targets={"y": x.sum(axis=1, keepdims=True)})


@pai_dataclass
@dataclass
class TinyModelParams(ModelBaseParams):
    """Options of the model."""

    units: int = field(default=8, metadata=pai_meta(help="Units of the hidden layer"))
    dropout: float = field(default=0.2, metadata=pai_meta(help="Share of them that is dropped"))

    @staticmethod
    def cls() -> type:
        from .model import TinyModel

        return TinyModel

    def graph_cls(self) -> type:
        from .model import TinyGraph

        return TinyGraph


class TinyScenarioParams(ScenarioBaseParams[TinyDataParams, TinyModelParams]):
    """Data and model."""


class TinyPipelineParams(TrainerPipelineParams[TinyGeneratorParams, TinyGeneratorParams]):
    """Training and validation points."""


class TinyTrainerParams(TrainerParams[TinyScenarioParams, TinyPipelineParams]):
    """Options of the training."""


class TinyScenario(ScenarioBase[TinyScenarioParams, TinyTrainerParams]):
    """An epoch is 44 samples: 11 batches, an odd number of them in executions of two, begun anywhere in a pass."""

    @classmethod
    def default_trainer_params(cls) -> TinyTrainerParams:
        params = super().default_trainer_params()
        params.scenario.data.pre_proc = SequentialProcessorPipelineParams(processors=[JitterParams()])
        params.scenario.export_serve = False
        params.epochs = 4
        params.samples_per_epoch = 44
        params.steps_per_execution = 2
        params.gen.setup.train.batch_size = 4
        params.gen.val.samples = 10
        params.gen.val.seed = 2
        params.learning_rate.lr = 0.01
        params.learning_rate.decay = 0.5
        params.learning_rate.learning_circle = 2
        return params
