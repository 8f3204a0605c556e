"""Programs of stages in real trainings: results, resumes anywhere, and what a changed program is answered with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from test.support.commands import finish_command, start_command
from test.support.runs import fault, faulty, files_below, make_once
from test.support.tiny.scenario import TinyScenario, TinyTrainerParams
from test.trainer.line import LineScenario, train
from test.trainer.stages.stagedcalls import HERE
from test.trainer.stages.stagedruns import KilledAt, Seen, StopAt, differences, staged_params
from tfaip.errors import TfaipError, UsageError
from tfaip.scripts import resume_training
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.trainer.stages.params import CallStage, PredictStage, TrainStage

GROWN = "test.trainer.stages.test_programs:GrownScenario"


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


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never stopped."""

    def make(directory: Path) -> None:
        train(grown_params(directory / "run"), scenario=GrownScenario)

    return make_once(tmp_path_factory, "grown_program", make) / "run"


def stages_of(run: Path) -> list[str]:
    """The stage of each epoch."""
    return [record["meta"]["stage"] for record in json.loads((run / "history.json").read_text()).values()]


@pytest.mark.guard
@pytest.mark.backend
def test_stopped_in_stages_and_between_them_and_resumed(grown: Path, tmp_path: Path) -> None:
    assert stages_of(grown) == ["linear", "train_0", "train_0", "train_1", "train_1", "main"]
    run = tmp_path / "run"
    for number, stop in enumerate((StopAt(1), StopAt(2, 4), StopAt(5))):
        with pytest.raises(TrainingInterrupted):
            train(grown_params(run), stop, scenario=GrownScenario, restore=number > 0)
    moved = Path(shutil.move(run, tmp_path / "moved"))
    train(grown_params(moved), scenario=GrownScenario, restore=True)
    assert differences(moved, grown) == []
    assert str(tmp_path) not in (moved / "stages" / "count_1" / "stage.json").read_text()


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.parametrize("place", ["stages/apply_0/DONE", "stages/count_1/DONE", "stages/train_0/DONE", "epoch_0003"])
def test_killed_between_stages_and_resumed(place: str, grown: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    kill = faulty(fault("SIGKILL", "os.rename", place))
    killed = finish_command(start_command("train", GROWN, "--trainer.output_dir", run, env=kill))
    assert killed.rc == -9, killed
    assert resume_training.main([str(run), "--trust", "test"]) == 0
    assert differences(run, grown) == []


class ChangedScenario(GrownScenario):
    """Trains the first stage with other units, if the params say so."""

    @classmethod
    def stages(cls, params: Any, history: Any) -> Any:
        yield from LINES[params.scenario.model.units](super().stages(params, history))


def other_units(stages: Any) -> Any:
    first = next(stages)
    first.overrides["model.units"] = "4"
    yield first


def another_stage(stages: Any) -> Any:
    yield TrainStage("other", epochs=1)


def the_end(stages: Any) -> Any:
    result = yield next(stages)
    assert result.values


LINES = {8: lambda stages: stages, 1: other_units, 2: another_stage, 4: the_end}


@pytest.mark.slow
def test_a_program_that_yields_something_else(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(TrainingInterrupted):
        train(grown_params(run), StopAt(4), scenario=ChangedScenario)
    before = files_below(run)
    for units, message in {
        1: r"^the stage 'linear' is done, but differs \(overrides.model.units: '3' -> '4'\): change it back, or",
        2: r"^the stage 'linear' is done, but now stage other \(train, from epoch 1\) has its place: change it",
        4: r"^the stage 'apply_0' is done, but now stage main \(train, from epoch 2\) has its place: change",
    }.items():
        params = grown_params(run)
        params.scenario.model.units = units
        with pytest.raises(UsageError, match=message):
            train(params, scenario=ChangedScenario, restore=True)
        with pytest.raises(UsageError, match=message):
            ChangedScenario.create_trainer(params, restore=True).check_resume()
    assert files_below(run) == before


RESULTS: list[Any] = []


class ToldScenario(LineScenario):
    """Keeps what it is told; uses all epochs."""

    @classmethod
    def stages(cls, params: Any, history: Any) -> Any:
        RESULTS.clear()
        RESULTS.append((len(history), params.random_seed))
        for name, epochs in (("a", 3), ("b", 2)):
            stage = TrainStage(name, epochs=epochs, overrides={"early_stopping.n_to_go": 2 if name == "a" else -1})
            stage.overrides["learning_rate.lr"] = "0.0" if name == "a" else "1.0"
            RESULTS.append(((yield stage), history.epochs))


@pytest.mark.slow
def test_results_and_a_program_without_main(tmp_path: Path) -> None:
    run, seen = tmp_path / "run", Seen()
    params = staged_params([1.0], {}, 5, output_dir=run, export_best=True)
    train(params, seen, scenario=ToldScenario)
    # The weight stays, so that the first stage stops early; then it is -1 and -2.
    assert seen.epochs == [1, 2, 4, 5]
    (begun, (a, a_history), (b, b_history)) = RESULTS
    assert begun == (0, 1)
    assert (a.name, a.first_epoch, a.last_epoch, a.best) == ("a", 1, 2, {"epoch": 1, "value": 0.0})
    assert (a_history, b_history) == ([1, 2], [1, 2, 4, 5])
    assert (b.values["loss"], b.best) == (-1.0, {"epoch": 5, "value": -1.0})
    assert (a.directory, a.file, a.value) == (str(run / "stages" / "a"), None, None)
    assert sorted(path.name for path in run.iterdir() if path.is_dir() and path.name in ("best", "main")) == ["best"]
    # At a resume the history ends, at each point, where it ended then.
    told = list(RESULTS)
    train(params, seen, scenario=ToldScenario, restore=True)
    assert told == RESULTS
    assert seen.epochs == [1, 2, 4, 5]


def test_a_function_must_return_json(tmp_path: Path) -> None:
    class Wrong(LineScenario):
        @classmethod
        def stages(cls, params: Any, history: Any) -> Any:
            yield CallStage("c", function=f"{HERE}:of_another_type")

    with pytest.raises(
        UsageError, match=f"^stage c: {HERE}:of_another_type returned .*, expected a JSON value or None"
    ):
        train(staged_params([1.0], {}, 2, output_dir=tmp_path / "run"), scenario=Wrong)


def test_a_program_that_fails_ends_the_run(tmp_path: Path) -> None:
    class Failing(LineScenario):
        @classmethod
        def stages(cls, params: Any, history: Any) -> Any:
            done = yield TrainStage("a", epochs=1)
            if done.values["loss"] is not None:
                yield TrainStage("b", epochs=9)

    params = staged_params([1.0], {}, 2, output_dir=tmp_path / "run")
    with pytest.raises(
        TfaipError, match="^epochs is 2, expected at least 10, the last epoch of stage b: change --trai"
    ):
        train(params, scenario=Failing)


class KilledScenario(LineScenario):
    """Is stopped by its own code between two stages, once."""

    fails = True

    @classmethod
    def stages(cls, params: Any, history: Any) -> Any:
        a = yield TrainStage("a", epochs=1)
        if cls.fails and a.values:
            raise KeyboardInterrupt
        yield TrainStage("b", epochs=1, overrides={"train.x": [a.values["loss"] - 1]})


@pytest.mark.slow
def test_stopped_inside_the_generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params, seen = staged_params([1.0], {}, 3, output_dir=tmp_path / "run"), Seen()
    with pytest.raises(KeyboardInterrupt):
        train(params, seen, scenario=KilledScenario)
    monkeypatch.setattr(KilledScenario, "fails", False)
    train(params, seen, KilledAt(9), scenario=KilledScenario, restore=True)
    # -1; then the input is the loss 0 minus 1.
    assert (seen.epochs, seen.weights) == ([1, 2, 3], [-1.0, 0.0, -1.0])
