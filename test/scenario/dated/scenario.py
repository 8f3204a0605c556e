"""A scenario with everything that `tfaip-check-scenario` finds."""

from __future__ import annotations

from typing import Any

from test.scenario.dated.data import DatedDataParams, DatedGeneratorParams, TwiceParams, hidden_params
from test.scenario.dated.modelparams import DatedModelParams, RanklessModelParams
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.imports import ModelBase, ScenarioBase, ScenarioBaseParams, TrainerParams  # finding: backend-import
from tfaip.trainer.params import TrainerPipelineParams

KINDS = (ModelBase,)


class DatedScenarioParams(ScenarioBaseParams[DatedDataParams, DatedModelParams]):
    """Params of the scenario."""


class DatedPipelineParams(TrainerPipelineParams[DatedGeneratorParams, DatedGeneratorParams]):
    """Data of the training."""


class DatedTrainerParams(TrainerParams[DatedScenarioParams, DatedPipelineParams]):
    """Params of the training."""


class DatedScenario(ScenarioBase[DatedScenarioParams, DatedTrainerParams]):  # finding: changed-default
    @classmethod
    def default_params(cls) -> Any:
        params = super().default_params()
        processors = [TwiceParams(), hidden_params()]
        params.data.pre_proc = SequentialProcessorPipelineParams(processors=processors, max_tasks_per_process=-1)
        return params

    @classmethod
    def default_trainer_params(cls) -> Any:
        params = super().default_trainer_params()
        params.ema_decay = 0.9  # finding: old-name
        return params

    @classmethod
    def additional_trainer_kwargs(cls, params: Any) -> dict[str, Any]:  # finding: uncalled-method
        return {}


class RanklessScenario(DatedScenario):
    """The same with a metric of unknown rank."""

    @classmethod
    def default_params(cls) -> Any:
        params = super().default_params()
        params.model = RanklessModelParams()
        return params


class BrokenScenario(DatedScenario):
    """The same with default params that raise."""

    @classmethod
    def default_trainer_params(cls) -> Any:
        raise FileNotFoundError("no codec.json")  # finding: fails
