"""Scenario: the sum of some numbers."""

from test.clients.sums.evaluator import SumsEvaluator
from test.clients.sums.params import SumsGeneratorParams, SumsPipelineParams, SumsScenarioParams
from test.clients.sums.trainer import SumsTrainer
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.trainer.params import TrainerPipelineParamsBase
from tfaip.trainer.scheduler import Constant


class SumsScenario(ScenarioBase[SumsScenarioParams, SumsPipelineParams]):
    @classmethod
    def trainer_cls(cls):
        return SumsTrainer

    @classmethod
    def evaluator_cls(cls):
        return SumsEvaluator

    @classmethod
    def default_params(cls):
        params = super(SumsScenario, cls).default_params()
        params.print_eval_limit = 2
        return params

    @classmethod
    def default_trainer_params(cls):
        params = super(SumsScenario, cls).default_trainer_params()
        params.epochs = 2
        params.random_seed = 7
        params.learning_rate = Constant(lr=0.05)
        params.gen.setup.train.batch_size = 4
        params.gen.setup.val.batch_size = 4
        params.gen.train.noise = 0.2
        params.gen.val = SumsGeneratorParams(size=8, seed=2)
        params.skip_model_load_test = True
        return params

    @classmethod
    def static_data_kwargs(cls, scenario_params):
        return {"unit": "apples" if scenario_params.scale == 1 else "pears"}

    @classmethod
    def additional_model_kwargs(cls, data, scenario_params):
        return {"unit": data.unit}


class SumsByHook(ScenarioBase[SumsScenarioParams, TrainerPipelineParamsBase]):
    """The same sums; a method names the class of the pipeline params."""

    @classmethod
    def trainer_pipeline_params_cls(cls):
        return SumsPipelineParams

    @classmethod
    def static_data_kwargs(cls, scenario_params):
        return {"unit": "apples"}

    @classmethod
    def additional_model_kwargs(cls, data, scenario_params):
        return {"unit": data.unit}
