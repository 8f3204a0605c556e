"""Scenario: which word is it?"""

from typing import Any, Dict, Type

from test.clients.words.evaluator import WordsEvaluator
from test.clients.words.params import FilesParams, WordsScenarioParams
from test.clients.words.predict import WordsMultiPredictor
from tfaip import DataGeneratorParams
from tfaip.data.data import DataBase
from tfaip.evaluator.evaluator import Evaluator
from tfaip.scenario.listfile.listfilescenario import ListFileScenario


class WordsScenario(ListFileScenario[WordsScenarioParams]):
    @classmethod
    def default_trainer_params(cls):
        params = super(WordsScenario, cls).default_trainer_params()
        params.epochs = 3
        params.random_seed = 5
        params.learning_rate.lr = 0.02
        params.gen.setup.train.batch_size = 4
        params.gen.setup.val.batch_size = 4
        params.skip_model_load_test = True
        return params

    @classmethod
    def evaluator_cls(cls) -> Type[Evaluator]:
        return WordsEvaluator

    @classmethod
    def predict_generator_params_cls(cls) -> Type[DataGeneratorParams]:
        return FilesParams

    @classmethod
    def multi_predictor_cls(cls):
        return WordsMultiPredictor

    @classmethod
    def additional_graph_kwargs(cls, data: DataBase, scenario_params: WordsScenarioParams) -> Dict[str, Any]:
        return {"n_classes": len(data.params.codec), "temperature": 0.5}

    @classmethod
    def additional_evaluator_kwargs(cls, data: DataBase, scenario_params: WordsScenarioParams) -> Dict[str, Any]:
        return {"codec": data.params.codec}
