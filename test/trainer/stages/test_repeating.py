"""Runs that are repeated from a stage by a command that is killed, and runs that are moved to another place."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from test.support.commands import finish_command, start_command
from test.support.runs import checkpoints, fault, faulty, files_below
from test.trainer.line import train
from test.trainer.stages.stagedruns import Seen, stage, staged_params
from tfaip.errors import UsageError
from tfaip.model.weights import load_arrays
from tfaip.params.types import FunctionName
from tfaip.scripts import resume_training
from tfaip.trainer.run.directory import RunDirectory
from tfaip.trainer.stages.params import CallStage

HERE = "test.trainer.stages.test_repeating"


def count(run_directory: Path) -> None:
    """Count the calls."""
    with open(run_directory / "calls", "a") as file:
        file.write("x")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a stage that trains and one that calls a function: weight -1 after epoch 1, -2 after epoch 2."""
    run = tmp_path_factory.mktemp("finished") / "run"
    stages = {"a": stage(1), "n": CallStage(function=FunctionName(f"{HERE}:count"))}
    train(staged_params([1.0], stages, epochs=2, output_dir=run))
    return run


def last_weight(run: Path) -> float:
    arrays = load_arrays(run / "checkpoint" / "epoch_0002" / "state.safetensors")
    return float(arrays["weights/line/kernel"][0, 0])


def repeat_killed(run: Path, event: str, pattern: str) -> None:
    """Repeat a run from its function with another rate, in a process that is killed."""
    flags = ["--trust", "test", "--from_stage", "n", "--learning_rate.lr", "3"]
    killed = finish_command(start_command("resume_training", run, *flags, env=faulty(fault("SIGKILL", event, pattern))))
    assert killed.rc == -9, killed


@pytest.mark.slow
def test_a_killed_repetition_is_taken_up(finished: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    # The later checkpoint is gone, the results of the later stages are still there.
    repeat_killed(run, "os.remove", "stages/n/DONE")
    assert checkpoints(run) == ["epoch_0001"]
    assert (run / "stages" / "n" / "DONE").exists()
    assert resume_training.main([str(run), "--trust", "test", "--dry_run"]) == 0
    assert (run / "calls").read_text() == "x"
    assert resume_training.main([str(run), "--trust", "test"]) == 0
    assert (run / "calls").read_text() == "xx"
    # With the rate of the killed command.
    assert last_weight(run) == -4.0
    assert not (run / "stages" / "repeat.json").exists()
    assert "the run is repeated from stage n, as an interrupted command was told" in (run / "train.log").read_text()
    before = files_below(run / "checkpoint")
    assert resume_training.main([str(run), "--trust", "test"]) == 0
    assert (run / "calls").read_text() == "xx"
    assert files_below(run / "checkpoint") == before


@pytest.mark.slow
def test_a_repetition_that_was_killed_before_it_began_changes_nothing(finished: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    before = files_below(run)
    # The params are not replaced yet.
    repeat_killed(run, "os.rename", "trainer_params.json")
    after = files_below(run)
    assert {name for name in after if after[name] != before.get(name)} <= {"train.log", ".tmp-trainer_params.json"}
    assert resume_training.main([str(run), "--trust", "test"]) == 0
    assert (run / "calls").read_text() == "x"
    assert last_weight(run) == -2.0
    assert not (run / "stages" / "repeat.json").exists()


def test_a_damaged_intention_is_reported(tmp_path: Path) -> None:
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages" / "repeat.json").write_text('{"stage": 3}')
    with pytest.raises(UsageError, match="repeat.json has .*: it is damaged; name the stage with --from_stage$"):
        RunDirectory(tmp_path).stage_directories().intended_repetition()


def test_a_run_without_stages_is_repeated_from_its_beginning(tmp_path: Path) -> None:
    run, seen = tmp_path / "run", Seen()
    params = staged_params([1.0], {}, epochs=2, output_dir=run)
    train(params)
    train(params, seen, restore=True, from_stage="main")
    assert seen.weights == [-1.0, -2.0]
    assert not (run / "stages").exists()
