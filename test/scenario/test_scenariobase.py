"""Scenarios bind params to classes: factories, nothing else."""

from __future__ import annotations

from test.trainer.line import (
    LineData,
    LineDataParams,
    LineGraph,
    LineModel,
    LineModelParams,
    LineScenario,
    LineScenarioParams,
    LineTrainerParams,
    line_params,
)
from tfaip.evaluator.evaluator import EvaluatorBase
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.trainer.trainer import Trainer


def test_classes_and_params_are_those_of_the_declaration() -> None:
    assert (LineScenario.params_cls(), LineScenario.trainer_params_cls()) == (LineScenarioParams, LineTrainerParams)
    assert (LineScenario.data_cls(), LineScenario.model_cls()) == (LineData, LineModel)
    assert (LineScenario.evaluator_cls(), LineScenario.trainer_cls()) == (EvaluatorBase, Trainer)
    assert LineScenario.scenario_id() == "test.trainer.line:LineScenario"
    params, trainer_params = LineScenario.default_params(), LineScenario.default_trainer_params()
    types = [type(part) for part in (params, params.data, params.model, trainer_params)]
    assert types == [LineScenarioParams, LineDataParams, LineModelParams, LineTrainerParams]
    assert trainer_params.scenario == params is not LineScenario.default_params()


def test_parts_are_built_once_from_the_params() -> None:
    scenario = LineScenario(LineScenario.default_params())
    assert [type(part) for part in (scenario.data, scenario.model, scenario.graph)] == [LineData, LineModel, LineGraph]
    assert scenario.data is scenario.data
    assert scenario.graph is scenario.graph
    assert scenario.data.params is scenario.params.data
    assert scenario.model.params is scenario.graph.params is scenario.params.model


def test_the_trainer_gets_params_and_scenario() -> None:
    params = line_params([1.0])
    trainer = LineScenario.create_trainer(params)
    assert type(trainer) is Trainer
    assert trainer.params is not params  # the run completes its own copy
    assert trainer.params.gen == params.gen
    assert trainer.scenario.params is params.scenario
    assert type(trainer.scenario) is LineScenario


def test_declarations_may_be_inherited_and_narrowed() -> None:
    class NarrowParams(LineScenarioParams):
        pass

    class Narrow(ScenarioBase[NarrowParams, LineTrainerParams]):
        pass

    class Inherited(Narrow):
        pass

    assert Inherited.params_cls() is NarrowParams
    assert Inherited.trainer_params_cls() is LineTrainerParams
    assert type(Inherited.default_params().model) is LineModelParams
