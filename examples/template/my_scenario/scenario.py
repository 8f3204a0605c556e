"""Ties data and model together, and says with which defaults they are trained."""

from __future__ import annotations

from my_scenario.data import MyDataParams, MyGeneratorParams
from my_scenario.params import MyModelParams
from tfaip.imports import ScenarioBase, ScenarioBaseParams, TrainerParams, TrainerPipelineParams


class MyScenarioParams(ScenarioBaseParams[MyDataParams, MyModelParams]):
    """Data and model."""


class MyPipelineParams(TrainerPipelineParams[MyGeneratorParams, MyGeneratorParams]):
    """One generator for the training, one for the validation."""


class MyTrainerParams(TrainerParams[MyScenarioParams, MyPipelineParams]):
    """The options of a training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # The place where params share values: the generators need to know a choice made in the data.
        self.gen.train.features = self.gen.val.features = self.scenario.data.features


class MyScenario(ScenarioBase[MyScenarioParams, MyTrainerParams]):
    """The class that `tfaip-train` looks for."""

    @classmethod
    def default_trainer_params(cls) -> MyTrainerParams:
        params = super().default_trainer_params()
        params.epochs = 10
        params.gen.val.seed = 2
        return params
