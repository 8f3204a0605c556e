"""Params of a run: a copy that the run completes, while those of the caller stay as they are."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from test.trainer.line import LineScenario, LineTrainerParams, Weights, line_params, train
from tfaip.params.tree import walk
from tfaip.trainer.best import EarlyStoppingParams
from tfaip.trainer.scheduler import NewbobAbsParams


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
    assert dict(walk(params)) == {**before, "current_epoch": 2}  # as tfaip 1.2 counts it there
    stored = json.loads((tmp_path / "run" / "trainer_params.json").read_text())
    assert stored["random_seed"] == trainer.params.random_seed is not None
    assert stored["learning_rate"]["best_monitor"] == "val_loss/mean_epoch"
    assert stored["scenario"]["scenario_id"] == "test.trainer.line:LineScenario"
    assert not stored["overwrite"]


@pytest.mark.slow
def test_a_resume_takes_the_drawn_seed_from_the_checkpoint(tmp_path: Path) -> None:
    whole, rest = Weights(), Weights()
    train(params_of(tmp_path / "run", 3), whole)
    train(params_of(tmp_path / "run", 3), rest, restore=True, checkpoint="epoch_0002")
    assert rest.values == whole.values[2:]
