"""Params of a run: a copy that the run completes, while those of the caller stay as they are."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from test.trainer.line import LineScenario, LineTrainerParams, Weights, line_params
from tfaip.params import ParamsBase, pai_dataclass
from tfaip.params.tree.nodes import walk
from tfaip.trainer.earlystopping import EarlyStoppingParams
from tfaip.trainer.runparams import copy_for_run
from tfaip.trainer.scheduler import NewbobAbsParams


@pai_dataclass
@dataclass
class PartParams(ParamsBase):
    name: str = "part"


@pai_dataclass
@dataclass
class TreeParams(LineTrainerParams):
    first: PartParams = field(default_factory=PartParams)
    second: PartParams = field(default_factory=PartParams)
    parts: list[PartParams] = field(default_factory=list)


def params_of(output_dir: Path, epochs: int) -> LineTrainerParams:
    params = line_params([1, 2, 3, 4, 5], [1, 2, 3], output_dir, epochs=epochs, random_seed=None)
    params.gen.setup.train.shuffle_buffer_size = -1
    params.learning_rate = NewbobAbsParams(lr=0.25)
    params.early_stopping = EarlyStoppingParams(n_to_go=9)
    params.overwrite = True
    return params


def test_a_run_does_not_change_the_params_of_the_caller(tmp_path: Path) -> None:
    params = params_of(tmp_path / "run", 2)
    before = copy.deepcopy(dict(walk(params)))
    trainer = LineScenario.create_trainer(params)
    trainer.train()
    assert dict(walk(params)) == before
    stored = json.loads((tmp_path / "run" / "trainer_params.json").read_text())
    assert stored["random_seed"] == trainer.params.random_seed is not None
    assert stored["learning_rate"]["best_monitor"] == "val_loss/mean_epoch"
    assert stored["scenario"]["scenario_id"] == "test.trainer.line:LineScenario"
    assert not stored["overwrite"]


@pytest.mark.slow
def test_a_resume_takes_the_drawn_seed_from_the_checkpoint(tmp_path: Path) -> None:
    whole, first, second = Weights(), Weights(), Weights()
    trainer = LineScenario.create_trainer(params_of(tmp_path / "first", 1))
    trainer.train([first])
    LineScenario.create_trainer(params_of(tmp_path / "first", 3), restore=True).train([second])
    params = params_of(tmp_path / "whole", 3)
    params.random_seed = trainer.params.random_seed
    LineScenario.create_trainer(params).train([whole])
    assert first.values + second.values == whole.values


def test_nodes_and_lists_are_copied_and_other_values_are_shared() -> None:
    params = TreeParams(parts=[PartParams("a")])
    params.second = params.first
    copied = copy_for_run(params)
    assert copied == params
    assert copied is not params
    assert copied.first is copied.second is not params.first
    assert copied.parts is not params.parts
    assert copied.parts[0] is not params.parts[0]
    assert copied.profile_steps is not params.profile_steps
    assert copied.first.name is params.first.name
    assert copied.scenario is params.scenario


def test_parts_of_the_scenario_that_are_in_other_places_are_shared_too() -> None:
    params = TreeParams()
    params.parts.append(params.scenario.data)
    assert copy_for_run(params).parts[0] is params.scenario.data
