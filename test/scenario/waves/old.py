"""The long form: decorators, generics, pairs of classes, `cls()`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from test.scenario.waves.functions import noisy, share_of_sure, wave
from test.scenario.waves.modelparams import WavesModelParams
from tfaip.imports import (
    DataBase,
    DataBaseParams,
    DataGenerator,
    DataGeneratorParams,
    DataProcessorParams,
    EvaluatorBase,
    EvaluatorParams,
    MappingDataProcessor,
    PipelineMode,
    Sample,
    ScenarioBase,
    ScenarioBaseParams,
    SequentialProcessorPipelineParams,
    TensorSpec,
    TrainerParams,
    TrainerPipelineParams,
)
from tfaip.params import pai_dataclass, pai_meta
from tfaip.trainer.scheduler import CosineDecayParams


@pai_dataclass
@dataclass
class WavesDataParams(DataBaseParams):
    """Data."""

    points: int = field(default=16, metadata=pai_meta(help="Points of a wave"))

    @staticmethod
    def cls() -> type[WavesData]:
        return WavesData


class WavesData(DataBase[WavesDataParams]):
    def _input_layer_specs(self) -> dict[str, TensorSpec]:
        return {"wave": TensorSpec((self.params.points,), "float32")}

    def _target_layer_specs(self) -> dict[str, TensorSpec]:
        return {"form": TensorSpec((1,), "int32")}


@pai_dataclass
@dataclass
class WavesParams(DataGeneratorParams):
    """Waves."""

    size: int = field(default=48, metadata=pai_meta(help="Number of waves"))
    seed: int = field(default=1, metadata=pai_meta(help="Seed of the waves"))

    @staticmethod
    def cls() -> type[WavesGenerator]:
        return WavesGenerator


class WavesGenerator(DataGenerator[WavesParams]):
    def __len__(self) -> int:
        return self.params.size

    def __getitem__(self, index: int) -> Sample:
        return wave(16, self.params.seed, index)


@pai_dataclass
@dataclass
class NoiseParams(DataProcessorParams):
    """Noise."""

    modes: set[PipelineMode] = field(default_factory=lambda: {PipelineMode.TRAINING})
    stddev: float = field(default=0.1, metadata=pai_meta(help="Standard deviation of the noise"))

    @staticmethod
    def cls() -> type[NoiseProcessor]:
        return NoiseProcessor


class NoiseProcessor(MappingDataProcessor[NoiseParams]):
    def apply(self, sample: Sample) -> Sample:
        return noisy(sample, self.rng, self.params.stddev)


@pai_dataclass
@dataclass
class SureParams(EvaluatorParams):
    """Sure."""

    sure: float = field(default=0.5, metadata=pai_meta(help="Smallest probability that counts as sure"))


class SureEvaluator(EvaluatorBase[SureParams]):
    def __enter__(self) -> Self:
        self.probabilities: list[float] = []
        return super().__enter__()

    def update_state(self, sample: Sample) -> None:
        self.probabilities.append(sample.outputs["prob"][sample.targets["form"][0]])

    def result(self) -> dict[str, float]:
        return share_of_sure(self.probabilities, self.params.sure)


class WavesScenarioParams(ScenarioBaseParams[WavesDataParams, WavesModelParams]):
    """Data and model."""


class WavesPipelineParams(TrainerPipelineParams[WavesParams, WavesParams]):
    """Generators."""


class WavesTrainerParams(TrainerParams[WavesScenarioParams, WavesPipelineParams]):
    """Training."""


class OldScenario(ScenarioBase[WavesScenarioParams, WavesTrainerParams]):
    """Classify wave forms."""

    @classmethod
    def evaluator_cls(cls) -> type[SureEvaluator]:
        return SureEvaluator

    @classmethod
    def default_params(cls) -> WavesScenarioParams:
        params = super().default_params()
        params.data.pre_proc = SequentialProcessorPipelineParams(processors=[NoiseParams(stddev=0.2)])
        return params

    @classmethod
    def default_trainer_params(cls) -> WavesTrainerParams:
        params = super().default_trainer_params()
        params.epochs = 2
        params.gen.setup.train.batch_size = 8
        params.gen.val.seed = 2
        params.gen.val.size = 24
        params.learning_rate = CosineDecayParams(lr=0.01)
        params.optimizer.clip_global_norm = 5.0
        return params
