"""Stages that are changed between a stop and the resume, or run again: what is done stays, what comes can differ."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from test.support.commands import exit_code, finish_command, start_command
from test.support.runs import checkpoints, fault, faulty, files_below, make_once
from test.trainer.line import CallbackOf, StopAt, train
from test.trainer.stages.stagedcalls import call
from test.trainer.stages.stagedruns import Seen, stage, staged_params
from tfaip.errors import TfaipError, UsageError
from tfaip.model.weights import load_arrays
from tfaip.scripts import resume_training
from tfaip.trainer.run.directory import StageDirectories
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.trainer.stages.params import StageParams, TrainStage


def params_of(run: Path, epochs: int, **stages: StageParams) -> Any:
    return staged_params([1.0], stages, epochs=epochs, output_dir=run)


def copy_of(run: Path, directory: Path) -> Path:
    return Path(shutil.copytree(run, directory / "run"))


def last_weight(run: Path) -> float:
    arrays = load_arrays(run / "checkpoint" / checkpoints(run)[-1] / "state.safetensors")
    return float(arrays["weights/line/kernel"][0, 0])


@pytest.fixture(scope="module")
def in_b(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped at the end of the second epoch of its second stage."""

    def make(directory: Path) -> None:
        with pytest.raises(TrainingInterrupted):
            train(params_of(directory / "run", 7, a=stage(1), b=stage(3)), StopAt(3))

    return make_once(tmp_path_factory, "stopped_in_b", make) / "run"


class Crash(Exception):
    """Ends a training without another checkpoint."""


@pytest.fixture(scope="module")
def before_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that failed in epoch 3, after work, before the next checkpoint."""

    def crash(epoch: int, logs: Any) -> None:
        if epoch == 2:
            raise Crash

    def make(directory: Path) -> None:
        with pytest.raises(Crash):
            train(params_of(directory / "run", 4, a=stage(2), n=call("note")), CallbackOf(on_epoch_begin=crash))

    return make_once(tmp_path_factory, "failed_after_work", make) / "run"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a stage that trains and one that calls a function: weight -1 after epoch 1, -2 after epoch 2."""

    def make(directory: Path) -> None:
        train(params_of(directory / "run", 2, a=stage(1), n=call("count")))

    return make_once(tmp_path_factory, "finished_with_call", make) / "run"


# The stages of the resume; the last weight, or the message.
CHANGES: dict[str, tuple[dict[str, StageParams], float | str]] = {
    "the rest of the stage that is running": ({"a": stage(1), "b": stage(4, learning_rate__lr=2.0)}, -3.0 - 2 * 2 - 2),
    "a stage that comes": ({"a": stage(1), "b": stage(3), "c": stage(1, learning_rate__lr=4.0)}, -4.0 - 4 - 2),
    "a stage that is done": (
        {"a": stage(1, learning_rate__lr=2.0), "b": stage(3)},
        "the stage 'a' is done, but differs .overrides.learning_rate.lr: .absent. -> '2.0'.: change it back, or",
    ),
    "an end before what is done": (
        {"a": stage(1), "b": stage(1)},
        "the stage 'b' has trained up to epoch 3, but ends with 2",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_stages_can_change_as_long_as_they_are_not_done(name: str, in_b: Path, tmp_path: Path) -> None:
    run, (stages, expected) = copy_of(in_b, tmp_path), CHANGES[name]
    before = files_below(run)
    if isinstance(expected, float):
        train(params_of(run, 7, **stages), restore=True)
        assert last_weight(run) == expected
        return
    with pytest.raises(UsageError, match=expected):
        train(params_of(run, 7, **stages), restore=True)
    assert files_below(run) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("training", "message"),
    [(stage(2), "the stage 'n' is done, but differs .arguments.text: .absent. -> '2'.:"), (stage(3), None)],
)
def test_work_that_is_done_before_the_next_checkpoint_cannot_be_changed(
    training: StageParams, message: str | None, before_checkpoint: Path, tmp_path: Path
) -> None:
    run, seen = copy_of(before_checkpoint, tmp_path), Seen()
    params, before = params_of(run, 4, a=training, n=call("note", text="2")), files_below(run)
    if message is not None:
        with pytest.raises(UsageError, match=message):
            train(params, seen, restore=True)
        assert (files_below(run), seen.epochs) == (before, [])
    # With more epochs before it, or repeated on request.
    train(params, seen, restore=True, from_stage=None if message is None else "n")
    assert seen.epochs == [3, 4]
    assert json.loads((run / "stages" / "n" / "note.json").read_text()) == ["2", ["a"], 2 if message else 3]


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("stage.json", {"number": "x"}),
        # Its file becomes the input of later stages, also the name of a function.
        ("DONE", {"file": "/etc/passwd"}),
    ],
)
def test_a_damaged_record_is_named(file: str, changed: dict[str, Any], before_checkpoint: Path, tmp_path: Path) -> None:
    run = copy_of(before_checkpoint, tmp_path)
    path = run / "stages" / "n" / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises(UsageError, match="is damaged"):
        train(params_of(run, 4, a=stage(2), n=call("note")), restore=True)


class OwnStage(TrainStage):
    """A kind of the user."""

    kind = "own"


def test_stages_after_one_of_the_users_kind(tmp_path: Path) -> None:
    run, seen = tmp_path / "run", Seen()
    train(params_of(run, 3, a=OwnStage(epochs=2)))
    train(params_of(run, 3, a=OwnStage(epochs=2)), seen, restore=True, from_stage="main")
    assert (seen.epochs, seen.weights) == ([3], [-3.0])


def test_a_run_without_stages(tmp_path: Path) -> None:
    run, seen = tmp_path / "run", Seen()
    params = params_of(run, 2)
    train(params)
    with pytest.raises(UsageError, match="^the stage 'main' is running, but differs .name: 'main' -> 'a'"):
        train(params_of(run, 5, a=stage(1)), restore=True)
    train(params, seen, restore=True, from_stage="main")
    assert seen.weights == [-1.0, -2.0]
    assert not (run / "stages").exists()


@pytest.mark.slow
def test_the_command_repeats_from_a_stage(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = copy_of(finished, tmp_path)
    command, before = [str(run), "--trust", "test"], files_below(run)
    for arguments, message in (
        ([*command, "--from_stage", "c"], "error: no stage 'c' has begun; those that have are a, n, main\n"),
        ([f"{run}/checkpoint/epoch_0002", *command[1:], "--from_stage", "a"], "give the run instead of a checkpoint"),
    ):
        assert exit_code(resume_training.main, arguments) == 2
        assert message in capsys.readouterr().err
    assert resume_training.main([*command, "--from_stage", "n", "--dry_run"]) == 0
    assert "from epoch_0001 up to epoch 2" in capsys.readouterr().out
    assert files_below(run) == before
    assert resume_training.main([*command, "--from_stage", "main", "--learning_rate.lr", "3"]) == 0
    assert (last_weight(run), (run / "calls").read_text()) == (-4.0, "x")
    # The kept state takes the space of links.
    places = finished / "stages" / "a" / "state", finished / "checkpoint" / "epoch_0001"
    assert len({(place / "state.safetensors").stat().st_ino for place in places}) == 1


@pytest.mark.slow
def test_a_killed_repetition(finished: Path, tmp_path: Path) -> None:
    run = copy_of(finished, tmp_path)
    command = [str(run), "--trust", "test"]
    kill = faulty(fault("SIGKILL", "os.remove", "stages/n/DONE"))
    killed = finish_command(start_command("resume_training", *command, "--from_stage", "n", env=kill))
    assert killed.rc == -9, killed
    (run / "stages" / "n" / "DONE").unlink()  # as a later kill leaves it
    with pytest.raises(UsageError, match=r"the stage 'main' is running, but differs .number: 2 -> 1; .* --from_stage$"):
        train(params_of(run, 2, a=stage(1), n=call("count")), restore=True)
    assert resume_training.main([*command, "--from_stage", "n"]) == 0
    assert (checkpoints(run)[-1], (run / "calls").read_text(), last_weight(run)) == ("epoch_0002", "xx", -2.0)


def test_files_of_stages_that_cannot_be(tmp_path: Path) -> None:
    directories, other = StageDirectories(tmp_path / "run", tmp_path / "run" / "stages"), tmp_path / "other"
    other.mkdir()
    (other / "DONE").write_text("{}")
    (other / "stage.json").write_text('{"name": "a", "number": 0, "kind": "train"}')
    (tmp_path / "run" / "stages").mkdir(parents=True)
    (tmp_path / "run" / "stages" / "a").symlink_to(other)
    with pytest.raises(TfaipError, match="is not removed: it is outside of"):
        directories.forget(0)
    assert (other / "DONE").exists()
