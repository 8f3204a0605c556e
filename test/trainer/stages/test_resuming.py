"""Programs and functions of stages in real trainings: results, resumes anywhere, and answers to what was changed."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from test.support.commands import finish_command, start_command
from test.support.runs import checkpoints, fault, faulty, make_once
from test.support.tiny.scenario import Jitter, TinyScenario, TinyTrainerParams
from test.trainer.line import LineScenario, StopAt, train
from test.trainer.stages.stagedcalls import HERE, call
from test.trainer.stages.stagedruns import Seen, differences, stage, staged_params
from tfaip.errors import UsageError
from tfaip.predict.samplefile import read_samples
from tfaip.scripts import resume_training
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.trainer.stages.params import CallStage, PredictStage, StageParams, TrainStage


class GrownScenario(TinyScenario):
    """Example 1 of RETURNN's documentation in small: train, apply, count, and train again until it is good."""

    @classmethod
    def default_trainer_params(cls) -> TinyTrainerParams:
        params = super().default_trainer_params()
        params.random_seed, params.epochs, params.checkpoint_save_freq = 3, 6, "2"
        params.calc_ema, params.train_accum_steps, params.skip_model_load_test = 0.9, 2, True
        return params

    @classmethod
    def stages(cls, params: Any, history: Any) -> Any:
        done = yield TrainStage("linear", epochs=1, overrides={"model.units": 3, "optimizer": "SGD"})
        number = 0
        while done.last_epoch < params.epochs - 1:
            applied = yield PredictStage(f"apply_{number}", include_targets=True)
            counted = yield CallStage(f"count_{number}", function=f"{HERE}:count_lines", arguments={"x": applied.file})
            overrides = {"model.units": 3 + len(history), "train.samples": counted.value - number}
            done = yield TrainStage(f"train_{number}", epochs=2, overrides=overrides)
            number += 1


def grown_params(run: Path, **fields: Any) -> TinyTrainerParams:
    params = GrownScenario.default_trainer_params()
    params.output_dir = str(run)
    for name, value in fields.items():
        setattr(params, name, value)
    return params


def train_grown(run: Path, *stops: Any, **resume: Any) -> Any:
    return train(grown_params(run), *stops, scenario=GrownScenario, **resume)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never stopped."""
    return make_once(tmp_path_factory, "grown_program", lambda directory: train_grown(directory / "run")) / "run"


BOTH = [StopAt(1), StopAt(2, 4), StopAt(5)]
# Within each stage, at the end of each, and in the accumulation of gradients.
EVERYWHERE = [StopAt(1, 4), StopAt(1), StopAt(2, 6), StopAt(3), StopAt(4, 4), StopAt(5), StopAt(6, 2), StopAt(6, 10)]


@pytest.mark.backend
@pytest.mark.parametrize(
    "stops", [pytest.param(BOTH, marks=pytest.mark.guard), pytest.param(EVERYWHERE, marks=pytest.mark.slow)]
)
def test_stopped_everywhere_and_resumed(stops: list[StopAt], grown: Path, tmp_path: Path) -> None:
    records = json.loads((grown / "history.json").read_text()).values()
    assert [record["meta"]["stage"] for record in records] == ["linear", *["train_0"] * 2, *["train_1"] * 2, "main"]
    run = tmp_path / "run"
    for number, stop in enumerate(stops):
        with pytest.raises(TrainingInterrupted) as error:
            train_grown(run, stop, restore=number > 0)
        assert error.value.exit_code == 143
    moved = Path(shutil.move(run, tmp_path / "moved"))
    train_grown(moved, restore=True)
    assert differences(moved, grown) == []
    assert str(tmp_path) not in (moved / "stages" / "count_1" / "stage.json").read_text()


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.parametrize("place", ["stages/apply_0/DONE", "stages/count_1/DONE", "stages/train_0/DONE", "epoch_0003"])
def test_killed_between_stages_and_resumed(place: str, grown: Path, tmp_path: Path) -> None:
    run, name = tmp_path / "run", f"{__name__}:GrownScenario"
    kill = faulty(fault("SIGKILL", "os.rename", place))
    killed = finish_command(start_command("train", name, "--trainer.output_dir", run, env=kill))
    assert killed.rc == -9, killed
    assert resume_training.main([str(run), "--trust", "test"]) == 0
    assert differences(run, grown) == []


@pytest.mark.guard
def test_sigterm_in_a_prediction(grown: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, count, apply = tmp_path / "run", 0, Jitter.apply

    def stop(self: Jitter, sample: Any) -> Any:
        nonlocal count
        count += self.mode.value == "evaluation" and (run / "stages" / "apply_0").exists()
        if count == 3:
            signal.raise_signal(signal.SIGTERM)
        return apply(self, sample)

    with monkeypatch.context() as patched:
        patched.setattr(Jitter, "apply", stop)
        with pytest.raises(TrainingInterrupted) as error:
            train_grown(run)
    assert error.value.exit_code == 143
    assert sorted(path.name for path in (run / "stages" / "apply_0").iterdir()) == ["stage.json"]
    train_grown(run, restore=True)
    assert differences(run, grown) == []


@pytest.mark.slow
@pytest.mark.backend
def test_the_files_of_the_stages_and_a_repetition(grown: Path, tmp_path: Path) -> None:
    stages = grown / "stages"
    trained = ["DONE", "stage.json", "state"]
    assert {path.name: sorted(p.name for p in path.iterdir()) for path in stages.iterdir()} == {
        **{name: trained for name in ("linear", "train_0", "train_1")},
        **{name: ["DONE", "predictions.jsonl", "stage.json"] for name in ("apply_0", "apply_1")},
        **{name: ["DONE", "stage.json"] for name in ("count_0", "count_1")},
        "main": ["DONE", "stage.json"],
    }
    samples = list(read_samples(stages / "apply_0" / "predictions.jsonl"))
    assert (len(samples), set(samples[0].outputs), samples[0].targets is None) == (30, {"y"}, False)
    run = Path(shutil.copytree(grown, tmp_path / "run"))
    repeated = train_grown(run, restore=True, from_stage="train_0")
    assert (differences(run, grown), len(repeated.history)) == ([], 6)
    log = (run / "train.log").read_text().split("training test.trainer.stages")[-1]
    assert [epoch for epoch in range(1, 7) if f"Results of epoch {epoch:04d}" in log] == [2, 3, 4, 5, 6]


RESULTS: list[Any] = []


class ToldScenario(LineScenario):
    """Keeps what it is told; uses all epochs. Its own code fails once, between two stages."""

    fails = True

    @classmethod
    def stages(cls, params: Any, history: Any) -> Any:
        RESULTS[:] = [(len(history), params.random_seed)]
        early = {"early_stopping.n_to_go": 2, "learning_rate.lr": "0.0"}
        for name, epochs, overrides in (("a", 3, early), ("b", 2, {})):
            RESULTS.append(((yield TrainStage(name, epochs=epochs, overrides=overrides)), history.epochs))
            if cls.fails:
                raise KeyboardInterrupt


@pytest.mark.slow
def test_results_and_a_program_without_main_that_is_stopped_inside_the_generator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, seen = tmp_path / "run", Seen()
    params = staged_params([1.0], {}, 5, output_dir=run, export_best=True)
    with pytest.raises(KeyboardInterrupt):
        train(params, seen, scenario=ToldScenario)
    monkeypatch.setattr(ToldScenario, "fails", False)
    train(params, seen, scenario=ToldScenario, restore=True)
    # The weight stays, so that the first stage stops early; then it is -1 and -2.
    assert (seen.epochs, seen.weights) == ([1, 2, 4, 5], [0, 0, -1, -2])
    (begun, (a, a_history), (b, b_history)) = RESULTS
    assert begun == (0, 1)
    assert (a.name, a.first_epoch, a.last_epoch, a.best) == ("a", 1, 2, {"epoch": 1, "value": 0.0})
    assert (a_history, b_history) == ([1, 2], [1, 2, 4, 5])
    assert (b.values["loss"], b.best, b.stop_reason) == (-1.0, {"epoch": 5, "value": -1.0}, "last epoch")
    assert (a.directory, a.file, a.value, a.stop_reason) == (str(run / "stages" / "a"), None, None, "early stopping")
    assert (run / "best").is_dir()
    # At a resume the history ends, at each point, where it ended then.
    told = list(RESULTS)
    train(params, seen, scenario=ToldScenario, restore=True)
    assert told == RESULTS
    assert seen.epochs == [1, 2, 4, 5]


@pytest.mark.slow
@pytest.mark.backend
def test_sigterm_in_a_function(tmp_path: Path) -> None:
    """A run begins with functions; the one that remains draws the same numbers after the resume."""
    drawn = []
    for second in ("draw", "interrupted_draw"):
        run, seen = tmp_path / second, Seen()
        stages = {"f": call("draw"), "g": call(second), "n": call("note"), "a": stage(1)}
        params = staged_params([1.0], stages, epochs=2, output_dir=run)
        if second == "interrupted_draw":
            with pytest.raises(TrainingInterrupted) as error:
                train(params, seen)
            assert error.value.exit_code == 143
            assert "SIGTERM: stopped in stage g, checkpoint written" in (run / "train.log").read_text()
            assert checkpoints(run) == ["epoch_0000"]
            assert not (run / "stages" / "g" / "DONE").exists()
        train(params, seen, restore=second == "interrupted_draw")
        assert seen.weights == [-1.0, -2.0]
        assert json.loads((run / "stages" / "n" / "note.json").read_text()) == ["", ["f", "g"], 0]
        drawn.append([json.loads((run / "stages" / name / "numbers.json").read_text()) for name in "fg"])
    assert drawn[0] == drawn[1]
    assert len({number for numbers in drawn[0] for number in numbers}) == 6
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
    ],
)
def test_work_that_cannot_be_done(work: StageParams, output_dir: str | None, message: str, tmp_path: Path) -> None:
    directory = None if output_dir is None else tmp_path / output_dir
    with pytest.raises(UsageError, match=message):
        train(staged_params([1.0], {"a": stage(1), "w": work}, epochs=2, output_dir=directory))
    assert (tmp_path / "run").exists() is ("of_another_type" in message)


@pytest.mark.slow
def test_a_trial_runs_every_stage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stages = {"a": stage(2), "n": call("note"), "p": PredictStage()}
    files = {"output_dir": tmp_path / "r", "history_file": str(tmp_path / "rates.json")}
    params = staged_params([1.0, 2.0], stages, 9, export_best=True, **files)
    params.early_stopping.best_model_output_dir = str(tmp_path / "models")
    with caplog.at_level("INFO", logger="tfaip"):
        LineScenario.create_trainer(params).dry_run()
    assert "one batch of each of 4 stages went through training" in caplog.text
    assert list(tmp_path.iterdir()) == []
