"""Stages that call a function or predict: what they are given and write, and how they are resumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from test.trainer.line import LineScenario, train
from test.trainer.stages.stagedcalls import HERE, call
from test.trainer.stages.stagedruns import Seen, stage, staged_params
from tfaip.errors import UsageError
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.trainer.stages.params import PredictStage, StageParams


@pytest.mark.slow
@pytest.mark.backend
def test_sigterm_in_a_function(tmp_path: Path) -> None:
    """The functions that remain draw the same numbers after the resume."""
    drawn = []
    for second in ("draw", "interrupted_draw"):
        run, seen = tmp_path / second, Seen()
        stages = {"a": stage(1), "f": call("draw"), "g": call(second)}
        params = staged_params([1.0], stages, epochs=2, output_dir=run)
        if second == "draw":
            train(params, seen)
        else:
            with pytest.raises(TrainingInterrupted) as error:
                train(params, seen)
            assert error.value.exit_code == 143
            assert "SIGTERM: stopped in stage g, checkpoint written" in (run / "train.log").read_text()
            assert not (run / "stages" / "g" / "DONE").exists()
            train(params, seen, restore=True)
        assert seen.weights == [-1.0, -2.0]
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


@pytest.mark.parametrize(
    ("work", "output_dir", "message"),
    [
        (PredictStage(), None, "^stage w writes files: set --trainer.output_dir$"),
        (
            call("of_another_type"),
            "run",
            f"^stage w: {HERE}:of_another_type returned .*, expected a JSON value or None",
        ),
        # Known before the first batch.
        (call("note", txt="x"), "run", f"^stage w: {HERE}:note takes no argument txt$"),
        (call("of_a_run"), "run", "it needs 'run': change --stages.w.function$"),
    ],
)
def test_work_that_cannot_be_done(work: StageParams, output_dir: str | None, message: str, tmp_path: Path) -> None:
    directory = None if output_dir is None else tmp_path / output_dir
    with pytest.raises(UsageError, match=message):
        train(staged_params([1.0], {"a": stage(1), "w": work}, epochs=2, output_dir=directory))
    assert (tmp_path / "run").exists() is ("of_another_type" in message)


@pytest.mark.slow
def test_a_trial_runs_every_stage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    LineScenario.create_trainer(
        staged_params([1.0, 2.0], {"a": stage(2), "n": call("note"), "p": PredictStage()}, 9, output_dir=tmp_path / "r")
    ).dry_run()
    assert "one batch of each of 4 stages went through training" in caplog.text
    assert list(tmp_path.iterdir()) == []
