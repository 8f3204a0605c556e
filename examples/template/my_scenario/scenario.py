"""The scenario, which binds data and model to each other and sets the defaults of a training."""

from __future__ import annotations

from my_scenario.data import MyDataParams, MyGeneratorParams
from my_scenario.params import MyModelParams
from tfaip.imports import ScenarioBase, ScenarioBaseParams, TrainerParams, TrainerPipelineParams


class MyScenarioParams(ScenarioBaseParams[MyDataParams, MyModelParams]):
    """Params of the data and the model, which an exported model stores."""


class MyPipelineParams(TrainerPipelineParams[MyGeneratorParams, MyGeneratorParams]):
    """One generator for the training, one for the validation."""


class MyTrainerParams(TrainerParams[MyScenarioParams, MyPipelineParams]):
    """All options of a training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # Params that depend on another branch of the tree are set here, which runs after every
        # change.
        self.gen.train.features = self.gen.val.features = self.scenario.data.features


class MyScenario(ScenarioBase[MyScenarioParams, MyTrainerParams]):
    """Scenario, the class that `tfaip-train` imports."""

    @classmethod
    def default_trainer_params(cls) -> MyTrainerParams:
        params = super().default_trainer_params()
        params.epochs = 10
        params.gen.val.seed = 2
        return params
