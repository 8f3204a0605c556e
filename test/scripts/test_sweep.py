"""`tfaip-sweep`: real trainings, chosen by Optuna, in real processes."""

import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from test.support.commands import CommandResult, exit_code, finish_command, start_command
from test.support.processes import list_processes
from test.support.tiny.scenario import TinyScenario
from tfaip.errors import TfaipError, UsageError
from tfaip.params.settings import flag_values
from tfaip.scripts.common.parser import TrainingParser
from tfaip.scripts.sweep import Sweep, Variable, main, read_space
from tfaip.util.files import is_locked

SPACE = """
learning_rate.lr: {low: 1e-4, high: 1.0, log: true}
model:
  units: [4, 8]
  dropout: {low: 0, high: 1}
optimizer: [SGD, Adam]
optimizer.momentum: {low: 0, high: 1}
trainer.loss_weights.mse: {low: 1, high: 2}
"""
QUICK = ["--trainer.export_best", "False", "--trainer.export_final", "False", "--trainer.random_seed", "1"]
TINY = "test.support.tiny"
DEADLINE_S = 300

pytestmark = pytest.mark.filterwarnings("ignore")  # of Optuna, as the command does


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a search space."""
    (tmp_path / "space.yaml").write_text(SPACE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(directory: Path, text: str, *flags: str) -> dict[str, Variable]:
    """The variables of a space for the tiny scenario, by flag."""

    def values(content: Mapping[str, Any]) -> Mapping[str, Any]:
        (directory / "trial.json").write_text(json.dumps(content))
        parser = TrainingParser("", "", TinyScenario)
        return flag_values(parser.parse([*flags, "--config", str(directory / "trial.json")]).trainer)

    (directory / "read.yaml").write_text(text)
    return {variable.flag: variable for variable in read_space(str(directory / "read.yaml"), values)}


def sweep(directory: Path, *flags: str, name: str = "runs") -> CommandResult:
    """The result of a sweep."""
    return finish_command(start(directory, *flags, name=name), timeout_s=DEADLINE_S * 3)


def start(directory: Path, *flags: str, name: str = "runs") -> Any:
    """A sweep that runs."""
    words = [TINY, "--space", "space.yaml", "--output_dir", name, *flags, *QUICK]
    return start_command("sweep", *words, cwd=directory, cold=True)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until something is true."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def trials(directory: Path) -> list[tuple[Mapping[str, Any], str, Any]]:
    """Params, state and values of all trials, as Optuna itself reads them."""
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{directory / 'study.db'}")
    return [(trial.params, trial.state.name, trial.intermediate_values) for trial in study.trials]


def losses(run: Path) -> dict[int, float]:
    """Losses of the validation in the epochs of a run."""
    records = json.loads((run / "history.json").read_text())
    return {int(epoch): record["values"]["val_loss"] for epoch, record in records.items()}


@pytest.mark.parametrize(
    ("entry", "distribution"),
    [
        ("model.dropout: {low: 0, high: 1, step: 0.3}", FloatDistribution(0, 0.9, step=0.3)),
        ("model.units: {low: 1, high: 1e1, step: 4}", IntDistribution(1, 9, step=4)),
        ("model.units: [4, 8]", CategoricalDistribution(["4", "8"])),
        ("trainer.random_seed: [1, null]", CategoricalDistribution(["1", "null"])),
        ("trainer.loss_weights: [{mse: 0.5}]", CategoricalDistribution(['{"mse": 0.5}'])),
    ],
)
def test_values_of_a_flag(entry: str, distribution: BaseDistribution, tmp_path: Path) -> None:
    (variable,) = read(tmp_path, entry).values()
    assert variable.distribution == distribution


def test_a_flag_of_one_choice_is_drawn_with_this_choice(tmp_path: Path) -> None:
    text = "optimizer: [SGD, Adam]\noptimizer.momentum: {low: 0, high: 1, step: 0.5}\nmodel.units: [4, 8]\n"
    variables = read(tmp_path, text)
    assert variables["optimizer.momentum"].contexts == [{"optimizer": "SGD"}]
    assert variables["model.units"].contexts == [{}]
    with pytest.raises(UsageError, match="unknown key optimizer.momentum; it belongs to"):
        read(tmp_path, "optimizer: [Adam, Adamax]\noptimizer.momentum: [0.1]\n")


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        ("trials: [1, 2]", [], "space.yaml: trials is a flag of the command itself: give it as --trials on the "),
        ("model.unitz: [1, 2]", [], "space.yaml: unknown key model.unitz; did you mean model.units or model.dropout?"),
        ("model.dropout: {low: 1, high: 0}", [], "space.yaml: model.dropout is {'high': 0, 'low': 1} ("),
        ("", [], "space.yaml: expected flags with a range or choices, got none"),
        (SPACE, ["--sampler", "grid"], "a grid needs choices, integers, or a range with a step, for "),
        (SPACE, ["--trainer.output_dir", "x"], "--trainer.output_dir is chosen for each trial: give --output_dir "),
        (SPACE, ["--model.units", "3"], "space.yaml: model.units is the same in all trials: leave it out there, or as"),
        ("learning_rate: [os:system]", [], "space.yaml: "),
    ],
)
def test_mistakes(text: str, flags: list[str], message: str, space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (space / "space.yaml").write_text(text)
    assert exit_code(main, [TINY, "--output_dir", "runs", *flags]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {message}"), error
    assert error.count("\n") == 1
    assert not (space / "runs").exists()


def test_a_dry_run_writes_nothing(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([TINY, "--space", "space.yaml", "--output_dir", "runs", "--dry_run"]) == 0
    varied = "optimizer, learning_rate.lr, model.units, model.dropout, optimizer.momentum, trainer.loss_weights.mse"
    assert f"search {varied} in 20 trials of TinyScenario by tpe" in capsys.readouterr().out
    assert [path.name for path in space.iterdir()] == ["space.yaml"]


def options(directory: Path, **changes: Any) -> SimpleNamespace:
    """Flags of the command, as a sweep takes them."""
    given = {"trials": 2, "jobs": 2, "mode": "min", "sampler": "random", "pruner": "none", "seed": 0, "storage": ""}
    return SimpleNamespace(output_dir=str(directory), **{**given, **changes})


@pytest.mark.slow
def test_each_job_has_a_gpu_and_failed_trials_are_named(
    space: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    (space / "broken.py").write_text("import os\nraise ValueError('GPU ' + os.environ['CUDA_VISIBLE_DEVICES'])\n")
    variables = list(read(space, "model.units: [4, 8]").values())
    broken = Sweep([str(space / "broken.py")], variables, ["3", "GPU-5"], options(space, trials=9))
    with caplog.at_level("INFO"), pytest.raises(TfaipError, match="three trials in a row failed"):
        broken.run()
    assert "trial 1: fail, exit code 2" in caplog.messages
    assert [trial.state.name for trial in broken.study.trials[:2]] == ["FAIL", "FAIL"]
    errors = capfd.readouterr().err
    assert "ValueError: GPU 3" in errors
    assert "ValueError: GPU GPU-5" in errors


def test_a_sweep_with_other_settings_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "a %41?x#y"
    directory.mkdir()
    variables = list(read(tmp_path, "model.units: [4, 8]").values())
    Sweep(["scenario", "--x=1"], variables, [], options(directory))
    assert [path.name for path in directory.iterdir()] == ["study.db"]
    Sweep(["scenario", "--x=1"], variables, [], options(directory, trials=7, jobs=1, pruner="median"))
    with pytest.raises(UsageError, match=r"another sweep \(--seed: 0, now 1\): choose another --output_dir"):
        Sweep(["scenario", "--x=1"], variables, [], options(directory, seed=1))
    with pytest.raises(UsageError, match=r"\(command: 'scenario --x=1', now 'scenario --x=2'\)"):
        Sweep(["scenario", "--x=2"], variables, [], options(directory))


def test_a_storage_that_cannot_be_used_is_named_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        Sweep(["scenario"], [], [], options(tmp_path, storage="nosuch://user:secret@localhost/sweeps"))
    assert str(caught.value) == "the database of --storage cannot be opened: NoSuchModuleError"


@pytest.mark.slow
def test_trials_are_runs_and_continue_after_a_kill(space: Path) -> None:
    flags = ["--trials", "2", "--trainer.epochs", "3", "--pruner", "none"]
    process = start(space, *flags)
    first, second = (space / "runs" / f"trial_000{number}" for number in range(2))
    wait_for((second / "history.json").exists, "the second trial has no epoch")
    log = (first / "train.log").read_bytes()
    # The training holds its file, so that a sweep that was killed alone does not start it twice.
    assert [is_locked(run.with_suffix(".json")) for run in (first, second)] == [False, True]
    for pid in (training_of(process), process.pid):
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    again = sweep(space, *flags)
    assert again.rc == 0, again
    found = trials(space / "runs")
    assert [state for _, state, _ in found] == ["COMPLETE", "COMPLETE"]
    assert [values for _, _, values in found] == [losses(first), losses(second)]
    assert (first / "train.log").read_bytes() == log  # it was not trained again
    for (params, _, _), run in zip(found, (first, second), strict=True):
        stored = json.loads((run / "trainer_params.json").read_text())
        assert stored["learning_rate"]["lr"] == params["learning_rate.lr"]
        assert str(stored["scenario"]["model"]["units"]) == params["model.units"]
        assert stored["loss_weights"] == {"mse": params["trainer.loss_weights.mse"]}
        assert stored["optimizer"].get("momentum") == params.get("optimizer.momentum")
    rows = [row.split()[:2] for row in again.stdout.splitlines() if row.startswith("runs/")]
    best = sorted((first, second), key=lambda run: min(losses(run).values()))
    assert rows == [[f"runs/{run.name}", "done"] for run in best]


def training_of(process: Any) -> int:
    """The process of the only training of a sweep."""
    (training,) = (running.pid for running in list_processes() if running.parent == process.pid)
    return training


@pytest.mark.slow
def test_a_grid_two_jobs_and_a_storage(space: Path) -> None:
    (space / "space.yaml").write_text("optimizer: [SGD, Adam]\noptimizer.momentum: {low: 0, high: 0.5, step: 0.3}")
    storage = ["--storage", f"sqlite:///{space}/study.db"]
    result = sweep(space, "--sampler", "grid", "--jobs", "2", "--trainer.epochs", "1", *storage)
    assert (result.rc, "Warning" in result.stderr) == (0, False), result
    assert not (space / "runs" / "study.db").exists()
    found = {(params["optimizer"], params.get("optimizer.momentum")) for params, _, _ in trials(space)}
    assert found == {("SGD", 0.0), ("SGD", 0.3), ("Adam", None)}
    again = sweep(space, "--sampler", "grid", "--jobs", "2", "--trainer.epochs", "1", *storage)
    assert (again.rc, len(trials(space))) == (0, 3)
