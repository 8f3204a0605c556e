"""`tfaip-sweep`: real trainings, chosen by Optuna, in real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from test.support.commands import CommandResult, finish_command, start_command
from tfaip.errors import UsageError
from tfaip.scripts.sweep import _without_own, print_results
from tfaip.sweep.identity import about_sweep, require_same
from tfaip.sweep.space import Range, read_space
from tfaip.sweep.study import Sweep, SweepSettings, TrialResult

optuna = pytest.importorskip("optuna")

SPACE = """
learning_rate.lr: {low: 1e-4, high: 1.0, log: true}
model:
  units: [4, 8]
  dropout: {low: 0.0, high: 0.5}
"""
QUICK = ["--trainer.export_best", "False", "--trainer.export_final", "False", "--trainer.random_seed", "1"]
TINY = "test.support.tiny"
MONITOR = ["--monitor", "min val_loss"]
DEADLINE_S = 300


@pytest.fixture
def space(tmp_path: Path) -> Path:
    """A file with a search space."""
    (tmp_path / "space.yaml").write_text(SPACE)
    return tmp_path


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


def told(directory: Path) -> list[tuple[Mapping[str, Any], str, Any]]:
    """Params, state and values of all trials, as Optuna itself reads them."""
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{directory / 'study.db'}")
    return [(trial.params, trial.state.name, trial.intermediate_values) for trial in study.trials]


def losses(run: Path) -> dict[int, float]:
    """Losses of the validation in the epochs of a run."""
    records = json.loads((run / "history.json").read_text())
    return {int(epoch): record["values"]["val_loss"] for epoch, record in records.items()}


@pytest.mark.slow
def test_trials_are_runs_and_continue_after_a_kill(space: Path) -> None:
    flags = ["--trials", "2", "--trainer.epochs", "3", "--pruner", "none", *MONITOR]
    process = start(space, *flags)
    second = space / "runs" / "trial_0001"
    wait_for((second / "history.json").exists, "the second trial has no epoch")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    again = sweep(space, "--json", *flags)
    assert again.rc == 0, again
    results = json.loads(again.stdout)
    assert [result["state"] for result in results] == ["complete", "complete"]
    values = [result["value"] for result in results]
    assert values == sorted(values)
    for result in results:
        run = Path(result["directory"])
        assert run == space / "runs" / f"trial_{result['number']:04}"
        assert result["value"] == min(losses(run).values())
        params = json.loads((run / "trainer_params.json").read_text())
        assert params["learning_rate"]["lr"] == result["params"]["learning_rate.lr"]
        assert params["scenario"]["model"]["units"] == result["params"]["model.units"]
    found = told(space / "runs")
    assert [state for _, state, _ in found] == ["COMPLETE", "COMPLETE"]
    assert [values for _, _, values in found] == [losses(space / "runs" / f"trial_000{n}") for n in range(2)]
    # Nothing is left to do, and the same sweep with other params is another one.
    listed = finish_command(start_command("runs", "runs", "--json", cwd=space))
    assert [run["state"] for run in json.loads(listed.stdout)] == ["done", "done"]
    other = sweep(space, "--trials", "2", "--trainer.epochs", "4", "--pruner", "none", *MONITOR)
    assert other.rc == 2
    assert other.stderr == (
        "error: runs has a sweep with other settings: --trainer.epochs was 3, is 4; undo the change, or choose another "
        "--output_dir\n"
    ), other


def test_the_table_rounds_params(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space = {"lr": Range(0.0, 1.0), "model.units": Range(1, 8)}
    params: list[dict[str, Any]] = [
        {"lr": 0.0012345678901234567, "model.units": 4},
        {"lr": 0.0012345123, "model.units": 8},
        {},
    ]
    results = [TrialResult(n, "complete", 0.5, 1, chosen, f"d{n}") for n, chosen in enumerate(params)]
    print_results(results, SweepSettings("s", [], space, tmp_path, "min"), False)
    rows = [line.split()[-2:] for line in capsys.readouterr().out.splitlines()[:4]]
    assert rows == [["lr", "model.units"], ["0.0012346", "4"], ["0.0012345", "8"], ["-", "-"]]
    print_results(results, SweepSettings("s", [], space, tmp_path, "min"), True)
    assert [trial["params"] for trial in json.loads(capsys.readouterr().out)] == params


@pytest.mark.slow
def test_a_storage_that_cannot_be_used_is_named_without_its_password(space: Path) -> None:
    result = sweep(space, "--storage", "nosuch://user:secret@localhost/sweeps", *MONITOR)
    assert result.rc == 2
    assert result.stderr.startswith("error: the study nosuch://***@localhost/sweeps cannot be opened: "), result
    assert result.stderr.count("\n") == 1
    assert "secret" not in result.stdout + result.stderr


def test_the_study_is_in_a_directory_of_any_name(tmp_path: Path) -> None:
    directory = tmp_path / "a %41?x#y"
    directory.mkdir()
    Sweep(SweepSettings("scenario", [], {"units": Range(1, 2)}, directory, "min"))
    assert [path.name for path in tmp_path.iterdir()] == [directory.name]
    assert [path.name for path in directory.iterdir()] == ["study.db"]


@pytest.mark.slow
def test_failing_trials_end_the_sweep(space: Path) -> None:
    process = sweep(space, "--trials", "9", "--train.samples", "0", "--sampler", "random", *MONITOR)
    assert process.rc == 1
    *_, last = process.stderr.splitlines()
    assert last.startswith("error: 3 trials in a row failed, the last one with: "), process
    assert [state for _, state, _ in told(space / "runs")] == ["FAIL"] * 3


@pytest.mark.parametrize(
    ("text", "flags", "changes"),
    [
        ("a: [1]", ["--x=1", "--y", "2", "3"], ""),
        ("a: [1]", ["--y", "2", "3", "--x", "1"], ""),
        ("a: [1]", ["--x", "1", "--y", "2"], "--y was 2 3, is 2"),
        ("a: [1]", ["--x", "1"], "--y was 2 3, is not given"),
        ("a: [1]", ["--x", "1", "--y", "2", "3", "--z"], "--z was not given, is given"),
        ("a: [true]", ["--x", "1", "--y", "2", "3"], "a in the space was [1], is [true]"),
        (
            "b: {low: 1, high: 2}",
            ["--x", "1", "--y", "2", "3"],
            "a in the space was [1], is not given; b in the space was not given, is {low: 1, high: 2}",
        ),
    ],
)
def test_what_was_changed_is_named(text: str, flags: list[str], changes: str, tmp_path: Path) -> None:
    def about(space: str, words: list[str]) -> dict[str, Any]:
        (tmp_path / "space.yaml").write_text(space)
        return about_sweep("s", words, read_space(str(tmp_path / "space.yaml")), "min loss", "tpe", 0)

    stored = json.loads(json.dumps(about("a: [1]", ["--x", "1", "--y", "2", "3"])))
    given = about(text, flags)
    if not changes:
        require_same(stored, given, tmp_path)
        return
    with pytest.raises(UsageError) as caught:
        require_same(stored, given, Path("runs"))
    assert str(caught.value) == (
        f"runs has a sweep with other settings: {changes}; undo the change, or choose another --output_dir"
    )


@pytest.mark.parametrize(
    ("stored", "given", "change"),
    [
        ("max best", None, ""),
        ("max val_acc", None, "--monitor was max val_acc, is not given"),
        ("max best", "min loss", "--monitor was not given, is min loss"),
        ("min best", "max best", "--monitor was not given, is not given"),
    ],
)
def test_a_changed_monitor_is_named(stored: str, given: str | None, change: str) -> None:
    old, new = (about_sweep("s", [], {}, monitor, "tpe", 0) for monitor in (stored, given))
    if not change:
        require_same(old, new, Path("runs"))
        return
    with pytest.raises(UsageError, match=f"settings: {change};"):
        require_same(old, new, Path("runs"))


@pytest.mark.slow
def test_another_sweep_is_refused_before_the_backend_is_imported(space: Path) -> None:
    entries = read_space(str(space / "space.yaml"))
    (space / "runs").mkdir()
    Sweep(SweepSettings(TINY, [], entries, space / "runs", "min"))
    words = [TINY, "--space", "space.yaml", "--output_dir", "runs", "--seed", "1", "--sampler", "random", "--dry_run"]
    code = f"""
import sys
from tfaip.scripts.sweep import main
print(main({words!r}), 'keras' in sys.modules)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=space, env=environment, capture_output=True, text=True, check=False
    )
    assert result.stdout == "2 False\n", result
    assert "settings: --sampler was tpe, is random; --seed was 0, is 1; undo" in result.stderr


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        (
            "trials: [1, 2]",
            [],
            "space.yaml: trials is a flag of the command itself: give it as --trials on the command",
        ),
        ("--model.units: [1, 2]", [], "space.yaml: keys have no dashes: write model.units instead of --model.units"),
        ("model.unitz: [1, 2]", [], "space.yaml: unknown key model.unitz; did you mean model.units or model.dropout?"),
        ("model.units: [1, x]", [], "space.yaml: "),
        ("model.dropout: {low: 1}", [], "space.yaml: model.dropout is {'low': 1}; expected e.g. "),
        ("model.dropout: {low: 1, high: 0}", [], "space.yaml: model.dropout has the low 1 above the high 0; expected"),
        ("model.dropout: {low: 0, high: 1, log: true}", [], "space.yaml: model.dropout has log, which needs a low"),
        ("model.dropout: {low: 0, high: .nan}", [], "space.yaml: model.dropout has the high nan; expected e.g. "),
        ("model.dropout: [0.1, .nan]", [], "space.yaml: model.dropout has the choice nan; expected e.g. "),
        ("model.units: [1]\nmodel: {units: [2]}", [], "space.yaml: a flag is given twice, dotted and nested"),
        ("model.units: [4, 4]", [], "space.yaml: model.units has 2 choices, of which 1 differ; expected"),
        ("model.units: 3", [], "space.yaml: model.units is 3; expected e.g. {low: 1, high: 8} or [1, 2, 4]"),
        ("", [], "space.yaml: expected flags with a range or choices, got none"),
        (SPACE, ["--sampler", "tpi"], "--sampler is 'tpi', expected one of tpe, random, grid"),
        (SPACE, ["--sampler", "grid"], "a grid needs choices, or a range with a step and without log, for "),
        (SPACE, ["--jobs", "0"], "--jobs is 0, expected at least 1"),
        (SPACE, ["--monitor", "val_loss"], "--monitor is 'val_loss', expected a mode and a name: --monitor "),
        (SPACE, ["--trainer.output_dir", "x"], "--trainer.output_dir is chosen for each trial: give --output_dir "),
        ("trainer.output_dir: [a, b]", [], "space.yaml: trainer.output_dir is the same for all trials: leave it out"),
        ("model.units: {low: 1, high: 8.0}", [], "space.yaml: model.units: expected int, got 3.33"),
        ("model.units: {low: 1, high: 8, step: 0.5}", [], "space.yaml: model.units: expected int, got 1.5"),
        (
            "model.dropout: {low: 0, high: 1, step: 5.0e-324}",
            ["--sampler", "grid"],
            "model.dropout has more than 10000 values",
        ),
        (SPACE, ["--model.units", "3"], "--model.units is given, and varies in space.yaml: leave one of them out"),
        ("learning_rate: [os:system]", [], "space.yaml: "),
        ("model.units: [[1, 2]]", [], "space.yaml: model.units: expected int, got [1, 2]"),
        (SPACE, ["--trainer.epoch", "1"], "unknown flag --trainer.epoch; did you mean --trainer.epochs"),
    ],
)
def test_mistakes(text: str, flags: list[str], message: str, space: Path) -> None:
    (space / "space.yaml").write_text(text)
    monitor = [] if "--monitor" in flags else MONITOR
    words = [TINY, "--space", "space.yaml", "--output_dir", "runs", *flags, *monitor]
    result = finish_command(start_command("sweep", *words, cwd=space))
    assert result.rc == 2, result
    assert result.stderr.startswith(f"error: {message}"), result
    assert result.stderr.count("\n") == 1
    assert not (space / "runs").exists()


def test_a_dry_run_writes_nothing(space: Path) -> None:
    words = [TINY, "--space", "space.yaml", "--output_dir", "runs", "--dry_run"]
    result = finish_command(start_command("sweep", *words, cwd=space))
    assert result.rc == 0, result
    assert "search learning_rate.lr, model.units, model.dropout in 20 trials of TinyScenario by tpe" in result.stdout
    assert [path.name for path in space.iterdir()] == ["space.yaml"]


def test_its_own_flags_are_not_those_of_a_trial() -> None:
    own = ["--seed", "-1", "--json", "--monitor=max val_acc", "--dry_run", "True"]
    assert _without_own(["--trainer.epochs", "2", *own, "--model.units=3", "--jobs", "2"]) == [
        *("--trainer.epochs", "2", "--model.units=3"),
    ]


@pytest.mark.series
def test_a_sweep_that_is_killed_and_terminated_is_the_same(space: Path) -> None:
    flags = ["--trials", "12", "--trainer.epochs", "4", *MONITOR]
    whole = sweep(space, *flags, name="whole")
    assert whole.rc == 0, whole
    for trial, number in ((4, signal.SIGKILL), (8, signal.SIGTERM), (10, signal.SIGINT)):
        process = start(space, *flags, name="broken")
        wait_for((space / "broken" / f"trial_{trial:04}" / "history.json").exists, f"trial {trial} has no epoch")
        os.kill(process.pid, number)
        process.communicate()
        assert process.returncode == {9: -9, 15: 143, 2: 130}[number]
    ended = sweep(space, *flags, name="broken")
    assert ended.rc == 0, ended
    states = [state for _, state, _ in told(space / "whole")]
    assert len(states) == 12
    assert set(states) == {"COMPLETE", "PRUNED"}
    assert told(space / "broken") == told(space / "whole")
    listed = finish_command(start_command("runs", "broken", "--json", cwd=space))
    assert len(json.loads(listed.stdout)) == 12


@pytest.mark.series
def test_a_grid_and_two_jobs(space: Path) -> None:
    (space / "space.yaml").write_text("model: {units: [4, 8], dropout: {low: 0.0, high: 0.25, step: 0.25}}")
    name = "odd ?#%20\xe9"
    result = sweep(space, "--sampler", "grid", "--jobs", "2", "--trainer.epochs", "1", "--json", *MONITOR, name=name)
    assert result.rc == 0, result
    assert (space / name / "study.db").is_file()
    assert sorted(path.name for path in space.iterdir()) == [name, "space.yaml"]
    trials = json.loads(result.stdout)
    assert [trial["directory"] for trial in sorted(trials, key=lambda trial: trial["number"])] == [
        str(space / name / f"trial_{number:04}") for number in range(4)
    ]
    found = [(trial["params"]["model.units"], trial["params"]["model.dropout"]) for trial in trials]
    assert sorted(found) == [(4, 0.0), (4, 0.25), (8, 0.0), (8, 0.25)]
