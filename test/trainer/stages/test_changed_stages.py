"""Stages that are changed between a stop and the resume: what is done stays, what comes can be another."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from test.support.commands import exit_code
from test.support.runs import files_below, make_once
from test.trainer.line import CallbackOf, train
from test.trainer.stages.stagedcalls import call
from test.trainer.stages.stagedruns import Seen, StopAt, stage, staged_params
from tfaip.errors import TfaipError, UsageError
from tfaip.model.weights import load_arrays
from tfaip.scripts import resume_training
from tfaip.trainer.run.directory import StageDirectories
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.trainer.stages.params import StageParams
from tfaip.trainer.stages.records import require_place


def params_of(run: Path, epochs: int = 7, **stages: StageParams) -> Any:
    return staged_params([1.0], stages, epochs=epochs, output_dir=run)


def copy_of(run: Path, directory: Path) -> Path:
    return Path(shutil.copytree(run, directory / "run"))


@pytest.fixture(scope="module")
def in_b(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped after the first epoch of its second stage."""

    def make(directory: Path) -> None:
        with pytest.raises(TrainingInterrupted):
            train(params_of(directory / "run", a=stage(2), b=stage(2)), StopAt(3))

    return make_once(tmp_path_factory, "stopped_in_b", make) / "run"


@pytest.fixture(scope="module")
def before_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that failed after work, before the next checkpoint."""

    def make(directory: Path) -> None:
        with pytest.raises(Crash):
            train(params_of(directory / "run", 4, a=stage(2), n=call("note")), crash_in(3))

    return make_once(tmp_path_factory, "failed_after_work", make) / "run"


class Crash(Exception):
    """Ends a training without another checkpoint."""


def crash_in(number: int) -> CallbackOf:
    """Return a callback that fails at the beginning of an epoch."""

    def fail(epoch: int, logs: Any) -> None:
        if epoch + 1 == number:
            raise Crash

    return CallbackOf(on_epoch_begin=fail)


def test_a_state_that_is_not_there_is_named(tmp_path: Path) -> None:
    run = tmp_path / "run"
    params = staged_params([1.0], {"a": stage(1)}, epochs=2, output_dir=run)
    train(params)
    shutil.rmtree(run / "stages" / "a" / "state")
    with pytest.raises(UsageError, match="^the state at the end of stage a, from which main begins, is not there"):
        train(params, restore=True, from_stage="main")
    with pytest.raises(UsageError, match="^no stage 'b' has begun; those that have are a, main$"):
        train(params, restore=True, from_stage="b")


def test_a_kept_state_takes_the_space_of_links(in_b: Path) -> None:
    kept = in_b / "stages" / "a" / "state" / "state.safetensors"
    assert kept.stat().st_ino == (in_b / "checkpoint" / "epoch_0002" / "state.safetensors").stat().st_ino


@pytest.mark.slow
def test_other_stages_can_follow_the_one_to_repeat_from(tmp_path: Path) -> None:
    run = tmp_path / "run"
    stages: dict[str, StageParams] = {"a": stage(1), "n": call("note")}
    train(params_of(run, 3, **stages))
    more = stage(1, model__start=2.0)
    train(params_of(run, 3, **stages, more=more), restore=True, from_stage="main")
    history = json.loads((run / "history.json").read_text())
    assert [record["meta"]["stage"] for record in history.values()] == ["a", "more", "main"]
    assert (run / "stages" / "n" / "DONE").exists()


@dataclass
class Change:
    """Other stages, and the message; None: they can follow."""

    stages: dict[str, StageParams]
    message: str | None


CHANGES = {
    "fewer epochs than are done": Change(
        {"a": stage(2), "b": stage(1)}, "'b' has trained up to epoch 4, but ends with 3"
    ),
    "the rest of the stage that is running": Change({"a": stage(2), "b": stage(3, learning_rate__lr=2.0)}, None),
    "a stage that comes": Change({"a": stage(2), "b": stage(2), "c": stage(1, learning_rate__lr=4.0)}, None),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_stages_can_change_as_long_as_they_are_not_done(name: str, in_b: Path, tmp_path: Path) -> None:
    change, run = CHANGES[name], tmp_path / "run"
    if "fewer" in name:
        with pytest.raises(TrainingInterrupted):
            train(params_of(run, a=stage(2), b=stage(2)), StopAt(4))
    else:
        copy_of(in_b, tmp_path)
    params = params_of(run, **change.stages)
    if change.message is None:
        train(params, restore=True)
        return
    before = files_below(run)
    with pytest.raises(UsageError, match=change.message):
        train(params, restore=True)
    assert files_below(run) == before


def test_a_damaged_file_of_work_that_is_done_is_named(before_checkpoint: Path, tmp_path: Path) -> None:
    run = copy_of(before_checkpoint, tmp_path)
    params = params_of(run, 4, a=stage(2), n=call("note"))
    (run / "stages" / "n" / "stage.json").write_text("{")
    with pytest.raises(UsageError, match="n/stage.json"):
        train(params, restore=True)


@pytest.mark.parametrize("changed", [{"file": "/etc/passwd"}, {"last_epoch": "x"}, {"values": [1]}, {"best": 3}])
def test_a_result_that_the_stage_cannot_have_is_refused(
    changed: dict[str, Any], before_checkpoint: Path, tmp_path: Path
) -> None:
    """Its file becomes the input of later stages, also the name of a function."""
    run = copy_of(before_checkpoint, tmp_path)
    params = params_of(run, 4, a=stage(2), n=call("note"))
    done = run / "stages" / "n" / "DONE"
    done.write_text(json.dumps({**json.loads(done.read_text()), **changed}))
    with pytest.raises(UsageError, match="of (a )?stage.* is damaged"):
        train(params, restore=True)


def test_a_run_without_stages_may_get_none_before_its_epochs(tmp_path: Path) -> None:
    params = staged_params([1.0], {}, epochs=2, output_dir=tmp_path / "run")
    train(params)
    params.stages, params.epochs = {"a": stage(1)}, 5
    with pytest.raises(UsageError, match="^the stage 'main' is running, but now stage a .* has its place"):
        train(params, restore=True)


DONE_WORK = {
    "a function": (
        stage(2),
        call("note", text="2"),
        "the stage 'n' is done, but differs .arguments.text: None -> '2'.:",
    ),
    "more epochs before it": (stage(3), call("note", text="2"), None),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DONE_WORK)
def test_work_that_is_done_before_the_next_checkpoint_cannot_be_changed(
    name: str, before_checkpoint: Path, tmp_path: Path
) -> None:
    run, seen = copy_of(before_checkpoint, tmp_path), Seen()
    assert (run / "stages" / "n" / "DONE").exists()
    training, function, message = DONE_WORK[name]
    params = params_of(run, 4, a=training, n=function)
    if message is None:
        train(params, seen, restore=True)
        assert seen.epochs == [3, 4]
        assert json.loads((run / "stages" / "n" / "note.json").read_text())["epochs"] == training.epochs
        return
    before = files_below(run)
    with pytest.raises(UsageError, match=message):
        train(params, seen, restore=True)
    assert files_below(run) == before
    assert seen.epochs == []
    # Repeated on request.
    train(params, restore=True, from_stage="n" if name == "a function" else "a")
    expected = "2" if name == "a function" else ""
    assert json.loads((run / "stages" / "n" / "note.json").read_text())["text"] == expected


@pytest.mark.parametrize("damaged", [{}, {"stage": 3}, {"stage": {"name": "a", "number": 0, "first_epoch": "1"}}])
def test_a_damaged_place_is_reported(damaged: dict[str, Any]) -> None:
    require_place({"stage": {"name": "a", "number": 0, "first_epoch": 1}})
    require_place({"stage": None})
    with pytest.raises(TfaipError, match="as stage: it is damaged"):
        require_place(damaged)


def test_a_link_in_the_place_of_a_stage_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "DONE").write_text("{}")
    (tmp_path / "other" / "stage.json").write_text('{"name": "a", "number": 0, "kind": "train"}')
    (tmp_path / "run" / "stages").mkdir(parents=True)
    (tmp_path / "run" / "stages" / "a").symlink_to(tmp_path / "other")
    with pytest.raises(TfaipError, match="is not removed: it is outside of"):
        StageDirectories(tmp_path / "run", tmp_path / "run" / "stages").forget(0)
    assert (tmp_path / "other" / "DONE").exists()


@pytest.mark.slow
def test_another_run_replaces_the_stages(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(staged_params([1.0], {"a": stage(1), "n": call("note")}, epochs=2, output_dir=run))
    # Of a process that was killed before the file had its name.
    (run / "stages" / "b").mkdir()
    (run / "stages" / "b" / ".tmp-stage.json").touch()
    train(staged_params([1.0], {}, epochs=1, output_dir=run, overwrite=True))
    assert not (run / "stages").exists()
    (run / "stages" / "mine").mkdir(parents=True)
    (run / "stages" / "mine" / "file").touch()
    with pytest.raises(UsageError, match="stages/mine is not what a run writes: move it away"):
        train(staged_params([1.0], {"mine": stage(1)}, epochs=2, output_dir=run, overwrite=True))


@pytest.mark.slow
def test_the_command_repeats_from_a_stage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(tmp_path / "run")
    params = staged_params([1.0], {"a": stage(1), "b": stage(1)}, epochs=4, output_dir=run)
    train(params)
    before = files_below(tmp_path / "run")
    for flags, message in (
        (["--from_stage", "c"], "error: no stage 'c' has begun; those that have are a, b, main\n"),
        (["--from_stage", "a", "b"], "error: --from_stage takes the name of one stage, got a b\n"),
        (["--from_stage"], "error: --from_stage needs the name of a stage\n"),
    ):
        assert exit_code(resume_training.main, [run, "--trust", "test", *flags]) == 2
        assert capsys.readouterr().err == message
    checkpoint = str(tmp_path / "run" / "checkpoint" / "epoch_0004")
    assert exit_code(resume_training.main, [checkpoint, "--trust", "test", "--from_stage", "a"]) == 2
    assert "give the run instead of a checkpoint" in capsys.readouterr().err
    assert files_below(tmp_path / "run") == before
    assert resume_training.main([run, "--trust", "test", "--from_stage", "b", "--dry_run"]) == 0
    assert "from epoch_0001 up to epoch 4" in capsys.readouterr().out
    assert files_below(tmp_path / "run") == before
    assert resume_training.main([run, "--trust", "test", "--from_stage", "b", "--learning_rate.lr", "3"]) == 0
    weights = load_arrays(tmp_path / "run" / "checkpoint" / "epoch_0004" / "state.safetensors")
    assert weights["weights/line/kernel"].tolist() == [[-10.0]]
