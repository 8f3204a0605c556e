"""Scenarios bind params to classes; the second type argument may be the class of the params of the data."""

from __future__ import annotations

from typing import Any

import pytest

from test.support.fuzz.lists_scenario import NumbersScenarioParams
from test.trainer.line import (
    LineData,
    LineGraph,
    LineModel,
    LinePipelineParams,
    LineScenario,
    LineScenarioParams,
    LineTrainerParams,
)
from tfaip.components.pipelineparams import TrainerPipelineParamsBase
from tfaip.data.generators.listsfile import ListsFileGeneratorParams
from tfaip.evaluator.evaluator import EvaluatorBase
from tfaip.params.choices import ClassChoice
from tfaip.params.trust import class_name
from tfaip.scenario.listfile.listfilescenario import ListFilePipelineParams, ListFileScenario, PlainListsPipelineParams
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.trainer.trainer import Trainer


class ShortScenario(ScenarioBase[LineScenarioParams, LinePipelineParams]):
    pass


class OtherPipelineParams(LinePipelineParams):
    pass


class HookedScenario(ScenarioBase[LineScenarioParams, LinePipelineParams]):
    trainer_cls = classmethod(lambda cls: Trainer[Any])
    trainer_pipeline_params_cls = classmethod(lambda cls: OtherPipelineParams)


class PlainListsScenario(ListFileScenario[NumbersScenarioParams]):
    pass


class OwnListsPipelineParams(ListFilePipelineParams[ListsFileGeneratorParams]):
    pass


class OwnListsScenario(ListFileScenario[NumbersScenarioParams, OwnListsPipelineParams]):
    pass


@pytest.mark.parametrize(
    ("scenario", "name", "gen"),
    [
        (ShortScenario, "ShortScenario.TrainerParams", LinePipelineParams),
        (HookedScenario, "HookedScenario.TrainerParams", OtherPipelineParams),
        (PlainListsScenario, "PlainListsScenario.TrainerParams", PlainListsPipelineParams),
        (OwnListsScenario, "OwnListsScenario.TrainerParams", OwnListsPipelineParams),
    ],
)
def test_trainer_params_are_made_or_those_of_the_author(scenario: Any, name: str, gen: type) -> None:
    params = scenario.default_trainer_params()
    assert class_name(type(params)) == f"{__name__}:{name}"
    assert scenario.trainer_params_cls() is type(params)
    assert (type(params.gen), scenario.trainer_pipeline_params_cls()) == (gen, gen)
    assert type(params.scenario) is scenario.params_cls()


def test_classes_and_params_are_those_of_the_declaration() -> None:
    assert (LineScenario.params_cls(), LineScenario.trainer_params_cls()) == (LineScenarioParams, LineTrainerParams)
    assert (LineScenario.data_cls(), LineScenario.model_cls()) == (LineData, LineModel)
    assert (LineScenario.evaluator_cls(), LineScenario.trainer_cls()) == (EvaluatorBase, Trainer)
    params, trainer_params = LineScenario.default_params(), LineScenario.default_trainer_params()
    assert trainer_params.scenario == params is not LineScenario.default_params()
    scenario = LineScenario(params)
    assert [type(part) for part in (scenario.data, scenario.model, scenario.graph)] == [LineData, LineModel, LineGraph]
    assert (scenario.data, scenario.graph, scenario.data.params) == (scenario.data, scenario.graph, params.data)
    assert scenario.model.params is scenario.graph.params is params.model


def test_a_class_that_builds_no_generators_is_neither_made_nor_offered() -> None:
    with pytest.raises(TypeError, match="train_gen"):
        TrainerPipelineParamsBase()  # type: ignore[abstract]
    assert TrainerPipelineParamsBase not in ClassChoice(TrainerPipelineParamsBase, {}).classes
