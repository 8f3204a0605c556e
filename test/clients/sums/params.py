"""Params of the sums."""

from dataclasses import dataclass, field
from typing import Optional

from paiargparse import pai_dataclass, pai_meta
from tfaip import (
    DataBaseParams,
    DataGeneratorParams,
    ModelBaseParams,
    ScenarioBaseParams,
    TrainerParams,
    TrainerPipelineParams,
)


@pai_dataclass
@dataclass
class SumsDataParams(DataBaseParams):
    numbers: int = field(default=3, metadata=pai_meta(help="Numbers that are added"))
    scale: float = field(default=1.0, metadata=pai_meta(help="Factor of the numbers", mode="ignore"))

    @staticmethod
    def cls():
        from test.clients.sums.scenario import SumsData

        return SumsData


@pai_dataclass
@dataclass
class SumsGeneratorParams(DataGeneratorParams):
    size: int = field(default=24, metadata=pai_meta(help="Number of samples"))
    seed: int = field(default=1, metadata=pai_meta(help="Seed of the numbers"))
    noise: float = field(default=0.0, metadata=pai_meta(help="Noise on the sums"))
    numbers: int = field(default=3, metadata=pai_meta(mode="ignore"))

    @staticmethod
    def cls():
        from test.clients.sums.scenario import SumsGenerator

        return SumsGenerator


@pai_dataclass
@dataclass
class SumsModelParams(ModelBaseParams):
    units: int = field(default=4, metadata=pai_meta(help="Nodes of the hidden layer"))
    offset: Optional[float] = field(default=None, metadata=pai_meta(help="Added to the sum"))

    @staticmethod
    def cls():
        from test.clients.sums.scenario import SumsModel

        return SumsModel

    def graph_cls(self):
        from test.clients.sums.scenario import SumsGraph

        return SumsGraph


@pai_dataclass
@dataclass
class SumsScenarioParams(ScenarioBaseParams[SumsDataParams, SumsModelParams]):
    scale: float = field(default=1.0, metadata=pai_meta(help="Factor of the numbers"))

    def __post_init__(self):
        super().__post_init__()
        self.data.scale = self.scale


@pai_dataclass
@dataclass
class SumsPipelineParams(TrainerPipelineParams[SumsGeneratorParams, SumsGeneratorParams]):
    pass


@pai_dataclass
@dataclass
class SumsTrainerParams(TrainerParams[SumsScenarioParams, SumsPipelineParams]):
    clean_epochs: int = field(default=0, metadata=pai_meta(help="Epochs of the second training, without noise"))

    def __post_init__(self):
        super().__post_init__()
        self.gen.train.numbers = self.scenario.data.numbers
        self.gen.val.numbers = self.scenario.data.numbers
        self.gen.__post_init__()
