"""A scenario for long series of runs: sequences of numbers, whose processor can be slow, random, and fail."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from test.support.tiny.scenario import TinyData, TinyDataParams, TinyModelParams
from tfaip.imports import (
    DataGenerator,
    DataGeneratorParams,
    DataProcessorParams,
    MappingDataProcessor,
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
class AugmentParams(DataProcessorParams):
    """Noise on the inputs, and the faults of real data."""

    noise: float = field(default=0.1, metadata=pai_meta(help="Standard deviation of the noise"))
    seconds: float = field(default=0.002, metadata=pai_meta(help="Time that each sample takes"))
    fail_rate: float = field(default=0.0, metadata=pai_meta(help="Share of samples that fail, drawn in every pass"))
    drop_rate: float = field(default=0.0, metadata=pai_meta(help="Share of samples that are invalid, likewise"))

    @staticmethod
    def cls() -> type[Augment]:
        return Augment


class Augment(MappingDataProcessor[AugmentParams]):
    """Draws everything from the random stream of the sample."""

    def apply(self, sample: Sample) -> Sample:
        time.sleep(self.params.seconds)
        if self.mode.value != "training":
            return sample
        fails, drops = self.rng.random(2)
        if fails < self.params.fail_rate:
            raise ValueError("a damaged sequence")
        if drops < self.params.drop_rate:
            return sample.new_invalid()
        x = sample.inputs["x"]
        return sample.new_inputs({"x": x + self.rng.normal(scale=self.params.noise, size=x.shape).astype("float32")})


class SequenceDataParams(TinyDataParams):
    """No options."""

    @staticmethod
    def cls() -> type[SequenceData]:
        return SequenceData


class SequenceData(TinyData):
    """Steps of two numbers in, one number out."""

    def _input_layer_specs(self) -> dict[str, TensorSpec]:
        return {"x": TensorSpec((None, 2), "float32")}

    def element_length_fn(self, sample: Sample) -> int:
        return len(sample.inputs["x"])


@pai_dataclass
@dataclass
class SequenceGeneratorParams(DataGeneratorParams):
    """Random sequences."""

    samples: int = field(default=20, metadata=pai_meta(help="Number of sequences"))
    seed: int = field(default=1, metadata=pai_meta(help="Other seeds give other sequences"))
    shortest: int = field(default=6, metadata=pai_meta(help="Smallest number of steps"))
    longest: int = field(default=6, metadata=pai_meta(help="Largest number of steps"))

    @staticmethod
    def cls() -> type[SequenceGenerator]:
        return SequenceGenerator


class SequenceGenerator(DataGenerator[SequenceGeneratorParams]):
    """y is the sum of the first column."""

    def __len__(self) -> int:
        return self.params.samples

    def __getitem__(self, index: int) -> Sample:
        rng = np.random.default_rng([self.params.seed, index])
        length = rng.integers(self.params.shortest, self.params.longest + 1)
        x = rng.normal(size=(length, 2)).astype("float32")
        return Sample(inputs={"x": x}, targets={"y": x[:, 0].sum(keepdims=True)})


class SequenceModelParams(TinyModelParams):
    """Options of the model, which is the tiny one with another graph."""

    def graph_cls(self) -> type:
        from .model import SequenceGraph

        return SequenceGraph


class SequenceScenarioParams(ScenarioBaseParams[SequenceDataParams, SequenceModelParams]):
    """Data and model."""


class SequencePipelineParams(TrainerPipelineParams[SequenceGeneratorParams, SequenceGeneratorParams]):
    """Training and validation sequences."""


class SequenceTrainerParams(TrainerParams[SequenceScenarioParams, SequencePipelineParams]):
    """Options of the training."""


class SequenceScenario(ScenarioBase[SequenceScenarioParams, SequenceTrainerParams]):
    """Many short epochs, no whole number of passes each: most of the time goes into the data and into commits."""

    @classmethod
    def default_trainer_params(cls) -> SequenceTrainerParams:
        params = super().default_trainer_params()
        params.scenario.data.pre_proc = SequentialProcessorPipelineParams(processors=[AugmentParams()])
        params.scenario.export_serve = False
        params.skip_model_load_test = True
        params.epochs, params.samples_per_epoch, params.steps_per_execution = 12, 44, 2
        params.gen.setup.train.batch_size, params.gen.setup.val.batch_size = 4, 4
        params.gen.setup.train.num_processes = params.gen.setup.val.num_processes = 0
        params.gen.val.samples, params.gen.val.seed = 6, 2
        params.learning_rate.lr, params.random_seed = 0.01, 7
        return params
