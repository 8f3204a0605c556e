"""Scenarios bind params to classes: factories, nothing else."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
    train,
)
from tfaip.evaluator.evaluator import EvaluatorBase, EvaluatorParams
from tfaip.params import pai_dataclass
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.trainer.trainer import Trainer


def test_classes_of_params_are_those_of_the_declaration() -> None:
    assert LineScenario.params_cls() is LineScenarioParams
    assert LineScenario.trainer_params_cls() is LineTrainerParams
    assert LineScenario.data_cls() is LineData
    assert LineScenario.model_cls() is LineModel
    assert LineScenario.evaluator_cls() is EvaluatorBase
    assert LineScenario.trainer_cls() is Trainer
    assert LineScenario.scenario_id() == "test.trainer.line:LineScenario"


def test_default_params() -> None:
    params = LineScenario.default_params()
    assert (type(params), type(params.data), type(params.model)) == (
        LineScenarioParams,
        LineDataParams,
        LineModelParams,
    )
    trainer_params = LineScenario.default_trainer_params()
    assert type(trainer_params) is LineTrainerParams
    assert trainer_params.scenario == params
    assert LineScenario.default_params() is not LineScenario.default_params()


def test_overridden_defaults_reach_the_trainer_params() -> None:
    class Steep(LineScenario):
        @classmethod
        def default_params(cls) -> LineScenarioParams:
            params = super().default_params()
            params.model.start = 7.0
            return params

    assert Steep.default_trainer_params().scenario.model.start == 7.0
    assert LineScenario.default_trainer_params().scenario.model.start == 0.0


def test_parts_are_built_once_from_the_params() -> None:
    scenario = LineScenario(LineScenario.default_params())
    assert type(scenario.data) is LineData
    assert scenario.data is scenario.data
    assert scenario.data.params is scenario.params.data
    assert type(scenario.model) is LineModel
    assert scenario.model.params is scenario.params.model
    assert type(scenario.graph) is LineGraph
    assert scenario.graph is scenario.graph
    assert scenario.graph.params is scenario.params.model


def test_constructors_get_further_arguments() -> None:
    class NamedData(LineData):
        def __init__(self, params: LineDataParams, name: str) -> None:
            super().__init__(params)
            self.name = name

    class NamedModel(LineModel):
        def __init__(self, params: LineModelParams, factor: float) -> None:
            super().__init__(params)
            self.factor = factor

    class Scenario(LineScenario):
        data_cls = classmethod(lambda cls: NamedData)
        model_cls = classmethod(lambda cls: NamedModel)

        @classmethod
        def static_data_kwargs(cls, params: LineDataParams) -> dict[str, Any]:
            return {"name": type(params).__name__}

        @classmethod
        def static_model_kwargs(cls, params: LineModelParams) -> dict[str, Any]:
            return {"factor": params.start + 1}

    scenario = Scenario(Scenario.default_params())
    assert scenario.data.name == "LineDataParams"
    assert scenario.model.factor == 1.0


@pai_dataclass
@dataclass
class CountParams(EvaluatorParams):
    step: int = field(default=2)


class Count(EvaluatorBase[CountParams]):
    def __enter__(self) -> Count:
        self.count = 0
        return self

    def update_state(self, sample: Any) -> None:
        self.count += self.params.step

    def result(self) -> dict[str, Any]:
        return {"count": self.count}


def test_the_evaluator_is_built_from_its_params() -> None:
    class Scenario(LineScenario):
        evaluator_cls = classmethod(lambda cls: Count)

    with Scenario.create_evaluator(CountParams(step=3)) as evaluator:
        evaluator.update_state(None)
    assert evaluator.result() == {"count": 3}
    assert LineScenario.create_evaluator(EvaluatorParams()).result() == {}


def test_the_trainer_gets_params_and_scenario() -> None:
    params = line_params([1.0])
    trainer = LineScenario.create_trainer(params)
    assert type(trainer) is Trainer
    assert trainer.params is not params  # the run completes its own copy
    assert trainer.params.gen == params.gen
    assert trainer.scenario.params is params.scenario
    assert type(trainer.scenario) is LineScenario


def test_params_come_back_from_an_exported_model(tmp_path: Path) -> None:
    params = line_params([1.0], output_dir=tmp_path / "run", export_final=True)
    params.scenario.model.start = 0.5
    expected = copy.deepcopy(params.scenario)
    train(params)
    loaded = LineScenario.params_from_path(tmp_path / "run" / "export")
    assert loaded.scenario_id == "test.trainer.line:LineScenario"
    expected.scenario_id = loaded.scenario_id
    assert loaded == expected


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
