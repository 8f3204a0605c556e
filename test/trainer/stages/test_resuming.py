"""Runs with stages that are stopped and resumed: each ends as the one that was never stopped, bit for bit."""

from __future__ import annotations

import json
import random
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from test.support.runs import files_below, make_once
from test.support.tiny.scenario import Jitter, TinyScenario, TinyTrainerParams
from test.trainer.line import CallbackOf, LineScenario
from test.trainer.stages.stagedruns import KilledAt, Seen, StopAt, differences, stage, staged_params, train
from tfaip.errors import TfaipError, UsageError
from tfaip.model.weights import load_arrays
from tfaip.params.types.functions import FunctionName
from tfaip.predict.samplefile import read_samples
from tfaip.scripts import resume_training
from tfaip.trainer.run.stagedirectories import StageDirectories
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.trainer.stages.params import CallStage, PredictStage, RepeatStage, StageParams, TrainStage
from tfaip.trainer.stages.plan import plan_stages
from tfaip.trainer.stages.records import find_place, require_place

pytestmark = pytest.mark.backend

HERE = "test.trainer.stages.test_resuming"


def note(directory: Path, stages: dict[str, Path], history: Any, text: str = "") -> None:
    """Write what a function of a stage is given."""
    facts = {"text": Path(text).name, "stages": sorted(stages), "epochs": len(history)}
    (directory / "note.json").write_text(json.dumps(facts))


def interrupted(directory: Path) -> None:
    """A function during which SIGTERM comes once."""
    count = directory.parent.parent / "calls"
    count.write_text(count.read_text() + "x" if count.exists() else "x")
    (directory / "half").touch()
    if count.read_text() == "x":
        signal.raise_signal(signal.SIGTERM)
    else:
        assert sorted(path.name for path in directory.iterdir()) == ["half", "stage.json"]


def draw(directory: Path) -> None:
    """Write numbers of the global generators."""
    numbers = [random.random(), float(np.random.random()), float(keras.random.uniform(()))]  # noqa: S311
    (directory / "numbers.json").write_text(json.dumps(numbers))


def interrupted_draw(directory: Path) -> None:
    """The same; SIGTERM comes in the first call."""
    interrupted(directory)
    draw(directory)


def call(function: str, **arguments: Any) -> CallStage:
    return CallStage(function=FunctionName(f"{HERE}:{function}"), arguments=arguments)


def grown_stages() -> dict[str, StageParams]:
    """Three widths, another optimizer, and the model applied to data in between."""
    return {
        "small": TrainStage(epochs=1, overrides={"model.units": "3", "optimizer": "SGD"}),
        "middle": TrainStage(epochs=2, overrides={"model.units": "5", "train.samples": "20"}),
        "apply": PredictStage(file_name="predictions.npz", include_targets=True),
        "note": call("note", text="{apply.dir}"),
    }


def grown_params(run: Path, **fields: Any) -> TinyTrainerParams:
    params = TinyScenario.default_trainer_params()
    params.output_dir, params.random_seed, params.epochs = str(run), 3, 5
    params.stages, params.calc_ema, params.train_accum_steps = grown_stages(), 0.9, 2
    params.checkpoint_save_freq, params.skip_model_load_test = "2", True
    for name, value in fields.items():
        setattr(params, name, value)
    return params


def train_grown(run: Path, *stops: StopAt, **resume: Any) -> Any:
    return train(grown_params(run), *stops, scenario=TinyScenario, **resume)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never stopped."""
    return make_once(tmp_path_factory, "grown_stages", lambda directory: _train_to_end(directory / "run")) / "run"


def _train_to_end(run: Path) -> None:
    train_grown(run)


def test_stopped_everywhere_and_resumed(grown: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    # Within each stage, at the end of each, and in the accumulation of gradients.
    stops = [StopAt(1, 4), StopAt(1), StopAt(2, 6), StopAt(2), StopAt(3), StopAt(4, 2), StopAt(4), StopAt(5, 10)]
    for number, stop in enumerate(stops):
        with pytest.raises(TrainingInterrupted) as error:
            train_grown(run, stop, restore=number > 0)
        assert error.value.exit_code == 143
    train_grown(run, restore=True)
    assert differences(run, grown) == []


def test_the_files_of_the_stages(grown: Path) -> None:
    stages = grown / "stages"
    assert {path.name: sorted(p.name for p in path.iterdir()) for path in stages.iterdir()} == {
        "small": ["DONE", "history.json", "stage.json", "state"],
        "middle": ["DONE", "history.json", "stage.json", "state"],
        "apply": ["DONE", "predictions.npz", "stage.json"],
        "note": ["DONE", "note.json", "stage.json"],
        "main": ["DONE", "history.json", "stage.json"],
    }
    samples = list(read_samples(stages / "apply" / "predictions.npz"))
    assert len(samples) == 20
    assert set(samples[0].outputs) == {"y"}
    assert samples[0].targets is not None
    facts = json.loads((stages / "note" / "note.json").read_text())
    assert facts == {"text": "apply", "stages": ["apply", "middle", "small"], "epochs": 3}
    assert json.loads((stages / "apply" / "DONE").read_text()) == {"epoch": 3, "file": "predictions.npz", "samples": 20}


def test_a_kept_state_takes_the_space_of_links(grown: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(TrainingInterrupted):
        train_grown(run, StopAt(2, 2))
    kept = run / "stages" / "small" / "state" / "state.safetensors"
    assert kept.stat().st_ino == (run / "checkpoint" / "epoch_0001" / "state.safetensors").stat().st_ino


@pytest.mark.parametrize("name", ["small", "middle", "apply", "note", "main"])
def test_a_run_repeats_from_a_stage(name: str, grown: Path, tmp_path: Path) -> None:
    run = _copy(grown, tmp_path)
    trained = train_grown(run, restore=True, from_stage=name)
    assert differences(run, grown) == []
    first = {"small": 1, "middle": 2, "apply": 4, "note": 4, "main": 4}[name]
    log = (run / "train.log").read_text().split("training test.support.tiny")[-1]
    assert [epoch for epoch in range(1, 6) if f"Results of epoch {epoch:04d}" in log] == list(range(first, 6))
    assert len(trained.history) == 5


def test_other_stages_can_follow_the_one_to_repeat_from(grown: Path, tmp_path: Path) -> None:
    run = _copy(grown, tmp_path)
    stages = {**grown_stages(), "more": TrainStage(epochs=1, overrides={"model.units": "6"})}
    train(grown_params(run, stages=stages), scenario=TinyScenario, restore=True, from_stage="more")
    history = json.loads((run / "history.json").read_text())
    assert [record["meta"]["stage"] for record in history.values()] == ["small", "middle", "middle", "more", "main"]
    assert (run / "stages" / "note" / "DONE").exists()


def _copy(run: Path, directory: Path) -> Path:
    return Path(shutil.copytree(run, directory / "run"))


def test_a_state_that_was_not_kept_is_named(tmp_path: Path) -> None:
    run = tmp_path / "run"
    params = staged_params([1.0], {"a": stage(1)}, epochs=2, output_dir=run, keep_stage_states=False)
    train(params)
    assert not (run / "stages" / "a" / "state").exists()
    with pytest.raises(UsageError, match="^the state at the end of stage a, from which main begins, is not there"):
        train(params, restore=True, from_stage="main")
    with pytest.raises(UsageError, match="^there is no stage 'b'; the stages are a, main$"):
        train(params, restore=True, from_stage="b")


@dataclass
class Change:
    """Other stages, and the message; None: they can follow."""

    stages: dict[str, StageParams]
    message: str | None


CHANGES = {
    "an override of a stage that is done": Change(
        {"a": stage(2, learning_rate__lr=3.0), "b": stage(2)}, "stage 'a' is done, but its overrides, settings changed"
    ),
    "a stage before": Change({"z": stage(1), "a": stage(2), "b": stage(2)}, "stage 'a' is done, but another stage has"),
    "a stage less": Change({"b": stage(2)}, "stage 'a' is done, but another stage has its place"),
    "the epochs of a stage that is done": Change({"a": stage(1), "b": stage(2)}, "'a' is done, but its last_epoch, "),
    "fewer epochs than are done": Change({"a": stage(2), "b": stage(1)}, "stage 'b' is running, but its last_epoch"),
    "the rest of the stage that is running": Change({"a": stage(2), "b": stage(3, learning_rate__lr=2.0)}, None),
    "a stage that comes": Change({"a": stage(2), "b": stage(2), "c": stage(1, learning_rate__lr=4.0)}, None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_stages_can_change_as_long_as_they_are_not_done(name: str, tmp_path: Path) -> None:
    change, run = CHANGES[name], tmp_path / "run"
    params = staged_params([1.0], {"a": stage(2), "b": stage(2)}, epochs=7, output_dir=run)
    with pytest.raises(TrainingInterrupted):
        train(params, StopAt(4) if "fewer" in name else StopAt(3))
    params.stages = change.stages
    if change.message is None:
        train(params, restore=True)
        return
    before = files_below(run)
    with pytest.raises(UsageError, match=change.message):
        train(params, restore=True)
    assert files_below(run) == before


WORK = {
    "its arguments": (
        {"f": call("note", text="new"), "g": call("note")},
        "'f' is done, but its settings changed",
    ),
    "its class": ({"f": PredictStage(), "g": call("note")}, "stage 'f' is done, but its kind, settings changed"),
    "one before": (
        {"z": call("note"), "f": call("note", text="old"), "g": call("note")},
        "'f' is done, but another",
    ),
    "one less": ({"g": call("note")}, "stage 'g' is done, but another stage has its place"),
    "nothing": ({"f": call("note", text="old"), "g": call("note")}, None),
}


@pytest.mark.parametrize("name", WORK)
def test_work_that_is_done_cannot_change(name: str, tmp_path: Path) -> None:
    stages, message = WORK[name]
    run = tmp_path / "run"
    before = {"a": stage(1), "f": call("note", text="old"), "g": call("note")}
    params = staged_params([1.0], before, epochs=2, output_dir=run)
    # Killed in the epoch that follows: the newest checkpoint was written before the work.
    with pytest.raises(KeyboardInterrupt):
        train(params, KilledAt(2))
    params.stages = {"a": stage(1), **stages}
    if message is None:
        train(params, restore=True)
        return
    files = files_below(run)
    with pytest.raises(UsageError, match=message):
        train(params, restore=True)
    with pytest.raises(UsageError, match=message):
        LineScenario.create_trainer(params, restore=True).check_resume()
    assert files_below(run) == files
    train(params, restore=True, from_stage=next(iter(stages)))
    assert sorted(path.name for path in (run / "stages").iterdir() if path.name in stages) == sorted(stages)


def test_a_damaged_file_of_work_that_is_done_is_named(tmp_path: Path) -> None:
    run = tmp_path / "run"
    params = staged_params([1.0], {"a": stage(1), "f": call("note")}, epochs=2, output_dir=run)
    with pytest.raises(KeyboardInterrupt):
        train(params, KilledAt(2))
    (run / "stages" / "f" / "stage.json").write_text("{")
    with pytest.raises(UsageError, match="f/stage.json"):
        train(params, restore=True)


def test_a_run_without_stages_may_get_none_before_its_epochs(tmp_path: Path) -> None:
    params = staged_params([1.0], {}, epochs=2, output_dir=tmp_path / "run")
    train(params)
    params.stages, params.epochs = {"a": stage(1)}, 5
    with pytest.raises(UsageError, match="^the stage 'main' is running, but another stage has its place"):
        train(params, restore=True)


class Crash(Exception):
    """Ends a training without another checkpoint."""


def crash_in(number: int) -> CallbackOf:
    """Return a callback that fails at the beginning of an epoch."""

    def fail(epoch: int, logs: Any) -> None:
        if epoch + 1 == number:
            raise Crash

    return CallbackOf(on_epoch_begin=fail)


DONE_WORK = {
    "a function": (stage(2), call("note", text="2"), "the stage 'n' is done, but its settings changed"),
    "the training before it": (stage(2, learning_rate__lr=2.0), call("note"), "the stage 'a' is done, but its"),
    "more epochs before it": (stage(3), call("note", text="2"), None),
    "nothing": (stage(2), call("note"), None),
}


@pytest.mark.parametrize("name", DONE_WORK)
def test_work_that_is_done_before_the_next_checkpoint_cannot_be_changed(name: str, tmp_path: Path) -> None:
    run, seen = tmp_path / "run", Seen()
    params = staged_params([1.0], {"a": stage(2), "n": call("note")}, epochs=4, output_dir=run)
    with pytest.raises(Crash):
        train(params, crash_in(3))
    assert (run / "stages" / "n" / "DONE").exists()
    training, function, message = DONE_WORK[name]
    params.stages = {"a": training, "n": function}
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


def test_a_run_that_begins_with_a_function_is_resumed_in_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    seen = Seen()
    stages = {"f": call("interrupted"), "n": call("note", text="{f.dir}"), "a": stage(1)}
    params = staged_params([1.0], stages, epochs=2, output_dir=run)
    with pytest.raises(TrainingInterrupted):
        train(params, seen)
    assert [path.name for path in (run / "checkpoint").iterdir() if path.is_dir()] == ["epoch_0000"]
    train(params, seen, restore=True)
    assert seen.weights == [-1.0, -2.0]
    expected = {"text": "f", "stages": ["f"], "epochs": 0}
    assert json.loads((run / "stages" / "n" / "note.json").read_text()) == expected
    train(params, seen, restore=True, from_stage="f")
    assert (run / "calls").read_text() == "xxx"
    assert seen.weights == [-1.0, -2.0] * 2


def test_sigterm_in_a_prediction(grown: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, count, apply = tmp_path / "run", 0, Jitter.apply

    def stop(self: Jitter, sample: Any) -> Any:
        nonlocal count
        count += self.mode.value == "evaluation" and len(list((run / "stages").glob("apply"))) > 0
        if count == 3:
            signal.raise_signal(signal.SIGTERM)
        return apply(self, sample)

    monkeypatch.setattr(Jitter, "apply", stop)
    with pytest.raises(TrainingInterrupted) as error:
        train_grown(run)
    assert error.value.exit_code == 143
    assert sorted(path.name for path in (run / "stages" / "apply").iterdir()) == ["stage.json"]
    monkeypatch.undo()
    train_grown(run, restore=True)
    assert differences(run, grown) == []


def test_repetitions_refer_to_the_latest_results(tmp_path: Path) -> None:
    run = tmp_path / "run"
    group = {
        "train": TrainStage(epochs=1, overrides={"learning_rate.lr": ["1", "2"]}),
        "apply": PredictStage(file_name="p.jsonl"),
        "note": call("note", text="{apply.dir} {repeat}"),
    }
    params = staged_params([1.0], {"loop": RepeatStage(times=3, stages=group)}, epochs=4, output_dir=run)
    seen = Seen()
    for stop in (StopAt(2), StopAt(3)):
        with pytest.raises(TrainingInterrupted):
            train(params, seen, stop, restore=stop.epoch > 2)
    train(params, seen, restore=True)
    assert seen.weights == [-1.0, -3.0, -5.0, -6.0]
    for repetition, output in ((1, -1.0), (2, -3.0), (3, -5.0)):
        place = run / "stages" / f"loop.{repetition}.apply"
        text = json.loads((run / "stages" / f"loop.{repetition}.note" / "note.json").read_text())["text"]
        assert text == f"loop.{repetition}.apply {repetition}"
        assert [float(sample.outputs["y"][0]) for sample in read_samples(place / "p.jsonl")] == [output]


def test_functions_and_predictions_need_a_directory() -> None:
    with pytest.raises(UsageError, match="^stage p writes files: set --trainer.output_dir$"):
        train(staged_params([1.0], {"a": stage(1), "p": PredictStage()}, epochs=2))


def test_a_function_that_cannot_be_called_is_known_before_the_first_batch(tmp_path: Path) -> None:
    seen = Seen()
    stages = {"a": stage(1), "f": call("note", txt="x")}
    with pytest.raises(UsageError, match=f"^stage f: {HERE}:note takes no argument txt$"):
        train(staged_params([1.0], stages, epochs=2, output_dir=tmp_path / "run"), seen)
    stages = {"a": stage(1), "f": CallStage(function=FunctionName(f"{HERE}:grown_params"))}
    with pytest.raises(UsageError, match="it needs 'run': change --stages.f.function$"):
        train(staged_params([1.0], stages, epochs=2, output_dir=tmp_path / "run"), seen)
    assert seen.epochs == []
    assert not (tmp_path / "run").exists()


def test_a_trial_runs_every_stage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    LineScenario.create_trainer(
        staged_params([1.0, 2.0], {"a": stage(2), "n": call("note"), "p": PredictStage()}, 9, output_dir=tmp_path / "r")
    ).dry_run()
    assert "one batch of each of 4 stages went through training" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_the_command_repeats_from_a_stage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(tmp_path / "run")
    params = staged_params([1.0], {"a": stage(1), "b": stage(1)}, epochs=4, output_dir=run)
    train(params)
    before = files_below(tmp_path / "run")
    for flags, message in (
        (["--from_stage", "c"], "error: there is no stage 'c'; the stages are a, b, main\n"),
        (["--from_stage", "a", "b"], "error: --from_stage takes the name of one stage, got a b\n"),
        (["--from_stage"], "error: --from_stage needs the name of a stage\n"),
    ):
        assert resume_training.main([run, "--trust", "test", *flags]) == 2
        assert capsys.readouterr().err == message
    checkpoint = str(tmp_path / "run" / "checkpoint" / "epoch_0004")
    assert resume_training.main([checkpoint, "--trust", "test", "--from_stage", "a"]) == 2
    assert "give the run instead of a checkpoint" in capsys.readouterr().err
    assert files_below(tmp_path / "run") == before
    assert resume_training.main([run, "--trust", "test", "--from_stage", "b", "--dry_run"]) == 0
    assert "from epoch_0001 up to epoch 4" in capsys.readouterr().out
    assert files_below(tmp_path / "run") == before
    assert resume_training.main([run, "--trust", "test", "--from_stage", "b", "--learning_rate.lr", "3"]) == 0
    weights = load_arrays(tmp_path / "run" / "checkpoint" / "epoch_0004" / "state.safetensors")
    assert weights["weights/line/kernel"].tolist() == [[-10.0]]


def test_tensorboard_shows_the_stages(tmp_path: Path) -> None:
    train(staged_params([1.0], {"a": stage(2)}, epochs=3, output_dir=tmp_path / "run"))
    events = EventAccumulator(str(tmp_path / "run" / "train"))
    events.Reload()
    texts = [(event.step, event.tensor_proto.string_val[0].decode()) for event in events.Tensors("stage")]
    assert texts == [(1, "a"), (3, "main")]


DAMAGE = {
    "stage": {"stage": 3},
    "no list": {"stages": {"a": 1}},
    "another name": {"stages": [{"name": "b"}]},
    "no name": {"stages": [{}, {"name": "a"}]},
    "no number": {"stages": [{"name": "a", "first_epoch": "1"}]},
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_place_is_reported(name: str) -> None:
    with pytest.raises(TfaipError, match="as stage: it is damaged"):
        require_place({"stage": "a", "stages": [{"name": "a"}], **DAMAGE[name]})


def test_a_link_in_the_place_of_a_stage_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "DONE").touch()
    (tmp_path / "run" / "stages").mkdir(parents=True)
    (tmp_path / "run" / "stages" / "a").symlink_to(tmp_path / "other")
    with pytest.raises(TfaipError, match="is not removed: it is outside of"):
        StageDirectories(tmp_path / "run", tmp_path / "run" / "stages").forget(["a"])
    assert (tmp_path / "other" / "DONE").exists()


def test_a_checkpoint_of_a_run_without_stages_is_that_of_main() -> None:
    plan = plan_stages(staged_params([1.0], {}, epochs=3), LineScenario)
    require_place({})
    assert find_place(plan, {"epoch": 2}) == 0


def test_another_run_replaces_the_stages(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = tmp_path / "run"
    train(staged_params([1.0], {"a": stage(1), "n": call("note")}, epochs=2, output_dir=run))
    # Of a process that was killed before the file had its name.
    (run / "stages" / "b").mkdir()
    (run / "stages" / "b" / ".tmp-stage.json").touch()
    train(staged_params([1.0], {}, epochs=1, output_dir=run, overwrite=True))
    assert not (run / "stages").exists()
    (run / "stages" / "mine").mkdir(parents=True)
    (run / "stages" / "mine" / "file").touch()
    train(staged_params([1.0], {}, epochs=1, output_dir=run, overwrite=True))
    assert f"kept in {run}, since no run has written it: stages" in caplog.text
    with pytest.raises(TfaipError, match="stages/mine is neither replaced nor removed"):
        train(staged_params([1.0], {"mine": stage(1)}, epochs=2, output_dir=run, overwrite=True))
