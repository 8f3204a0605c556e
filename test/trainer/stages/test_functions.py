"""Stages that call a function or predict: what they are given and write, and how they are resumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from test.trainer.line import LineScenario, train
from test.trainer.stages.stagedcalls import HERE, call
from test.trainer.stages.stagedruns import Seen, stage, staged_params
from tfaip.errors import UsageError
from tfaip.params.types import FunctionName
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.trainer.stages.params import CallStage, PredictStage


@pytest.mark.slow
def test_sigterm_in_a_function(tmp_path: Path) -> None:
    run = tmp_path / "run"
    seen = Seen()
    params = staged_params([1.0], {"a": stage(1), "f": call("interrupted")}, epochs=2, output_dir=run)
    with pytest.raises(TrainingInterrupted) as error:
        train(params, seen)
    assert error.value.exit_code == 143
    assert "SIGTERM: stopped in stage f, checkpoint written" in (run / "train.log").read_text()
    assert not (run / "stages" / "f" / "DONE").exists()
    train(params, seen, restore=True)
    assert seen.weights == [-1.0, -2.0]


@pytest.mark.slow
@pytest.mark.backend
def test_functions_draw_the_same_numbers_after_a_resume(tmp_path: Path) -> None:
    drawn = []
    for second in ("draw", "interrupted_draw"):
        run = tmp_path / second
        stages = {"a": stage(1), "f": call("draw"), "g": call(second)}
        params = staged_params([1.0], stages, epochs=2, output_dir=run)
        if second == "draw":
            train(params)
        else:
            with pytest.raises(TrainingInterrupted):
                train(params)
            train(params, restore=True)
        drawn.append([json.loads((run / "stages" / name / "numbers.json").read_text()) for name in "fg"])
    assert drawn[0] == drawn[1]
    assert len({number for numbers in drawn[0] for number in numbers}) == 6


@pytest.mark.slow
def test_a_run_that_begins_with_a_function_is_resumed_in_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    seen = Seen()
    stages = {"f": call("interrupted"), "n": call("note", text="x"), "a": stage(1)}
    params = staged_params([1.0], stages, epochs=2, output_dir=run)
    with pytest.raises(TrainingInterrupted):
        train(params, seen)
    assert [path.name for path in (run / "checkpoint").iterdir() if path.is_dir()] == ["epoch_0000"]
    train(params, seen, restore=True)
    assert seen.weights == [-1.0, -2.0]
    expected = {"text": "x", "stages": ["f"], "epochs": 0}
    assert json.loads((run / "stages" / "n" / "note.json").read_text()) == expected
    train(params, seen, restore=True, from_stage="f")
    assert (run / "calls").read_text() == "xxx"
    assert seen.weights == [-1.0, -2.0] * 2


def test_functions_and_predictions_need_a_directory() -> None:
    with pytest.raises(UsageError, match="^stage p writes files: set --trainer.output_dir$"):
        train(staged_params([1.0], {"a": stage(1), "p": PredictStage()}, epochs=2))


def test_a_function_that_cannot_be_called_is_known_before_the_first_batch(tmp_path: Path) -> None:
    seen = Seen()
    stages = {"a": stage(1), "f": call("note", txt="x")}
    with pytest.raises(UsageError, match=f"^stage f: {HERE}:note takes no argument txt$"):
        train(staged_params([1.0], stages, epochs=2, output_dir=tmp_path / "run"), seen)
    stages = {"a": stage(1), "f": CallStage(function=FunctionName(f"{HERE}:of_a_run"))}
    with pytest.raises(UsageError, match="it needs 'run': change --stages.f.function$"):
        train(staged_params([1.0], stages, epochs=2, output_dir=tmp_path / "run"), seen)
    assert seen.epochs == []
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_trial_runs_every_stage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    LineScenario.create_trainer(
        staged_params([1.0, 2.0], {"a": stage(2), "n": call("note"), "p": PredictStage()}, 9, output_dir=tmp_path / "r")
    ).dry_run()
    assert "one batch of each of 4 stages went through training" in caplog.text
    assert list(tmp_path.iterdir()) == []
