"""`tfaip-runs`: lists of runs and comparisons, from their directories alone."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from test.support.commands import CommandResult, exit_code, finish_command, run_several, start_command
from test.support.runs import copy_tiny, files_below, make_once
from test.support.tiny.scenario import TinyScenario
from tfaip.errors import TfaipError
from tfaip.params.settings import flag_values
from tfaip.scripts.runs import main
from tfaip.util.files import is_locked, locked_directory

MONITOR = "val_loss/mean_epoch"
# Name of a run -> its flags. All have 44 samples per epoch and lr 0.01.
RUNS = {
    "deep/sgd": ["--trainer.epochs", "2", "--optimizer", "SGD", "--optimizer.momentum", "0.5"],
    "adam": ["--trainer.epochs", "3", "--trainer.random_seed", "1"],
    # Every loss is below 100: it stops after its first epoch.
    "early": ["--trainer.epochs", "4", "--early_stopping.lower_threshold", "100", "--trainer.random_seed", "2"],
}

# They share trained runs.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(directory: Path) -> None:
        copy_tiny(directory)
        lines = [["train", "tiny", "--trainer.output_dir", f"all/{name}", *flags] for name, flags in RUNS.items()]
        result = run_several(lines, cwd=directory)
        assert result.rc == 0, result

    return make_once(tmp_path_factory, "listed_runs", make) / "all"


@pytest.fixture
def runs(trained: Path, tmp_path: Path) -> Path:
    """A copy to be changed, in the directory `all`."""
    shutil.copytree(trained, tmp_path / "all")
    return tmp_path / "all"


def list_runs(cwd: Path, *args: str) -> CommandResult:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        rc = exit_code(main, list(args))
    return CommandResult(rc, out.getvalue(), err.getvalue())


def facts(cwd: Path, *args: str) -> dict[str, dict[str, Any]]:
    """The facts of `--json` by run."""
    result = list_runs(cwd, *args, "--json")
    assert (result.rc, result.stderr) == (0, ""), result
    return {run["run"]: run for run in json.loads(result.stdout)}


def set_epochs(run: Path, epochs: int) -> None:
    """Let the stored params ask for another number of epochs, as those of a run that was stopped do."""
    file = run / "trainer_params.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "epochs": epochs}))


def test_a_run_that_an_error_ended_has_failed(runs: Path) -> None:
    copy_tiny(runs.parent)
    result = finish_command(
        start_command("train", "tiny", "--trainer.output_dir", "all/bad", "--train.samples", "0", cwd=runs.parent)
    )
    assert result.rc == 1
    # The log of a run ends with the way in which its last start ended.
    ends = {
        "adam": "2026-01-01 00:00:00,000 ERROR   tfaip: the run ended with ValueError: no\nTraceback\n  line\n",
        "deep/sgd": "2026-01-01 00:00:00,000 ERROR   tfaip: the run ended with TrainingInterrupted: SIGTERM\n",
        "early": "2026-01-01 00:00:00,000 ERROR   tfaip: the run ended with OSError: x\n"
        "2026-01-01 00:00:00,000 INFO    tfaip.trainer: resumed\n",
    }
    for name, end in ends.items():
        set_epochs(runs / name, 5)
        shutil.rmtree(runs / name / "export")
        with (runs / name / "train.log").open("a") as file:
            file.write(end)
    listed = facts(runs.parent, "all")
    assert {name: (run["state"], run["problem"]) for name, run in listed.items() if name != "all/bad"} == {
        "all/adam": ("failed", "ValueError: no"),
        "all/deep/sgd": ("stopped", ""),
        "all/early": ("stopped", ""),
    }
    assert (listed["all/bad"]["state"], listed["all/bad"]["epoch"]) == ("failed", 0)
    message = result.stderr.removeprefix("error: ").strip()
    assert listed["all/bad"]["problem"][:60] == message[:60] != ""
    assert list_runs(runs.parent, "all").stdout.splitlines()[-1].startswith(f"all/bad: {message[:60]}")


def test_a_pipe_in_the_place_of_a_log_is_not_waited_for(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "deep" / "sgd", tmp_path / "sgd")
    (tmp_path / "sgd" / "train.log").unlink(missing_ok=True)
    os.mkfifo(tmp_path / "sgd" / "train.log")
    set_epochs(tmp_path / "sgd", 5)
    assert facts(tmp_path, "sgd")["sgd"]["state"] == "stopped"


def test_states(runs: Path) -> None:
    set_epochs(runs / "adam", 5)
    shutil.rmtree(runs / "deep" / "sgd" / "export")  # killed before its final model
    (runs / "early" / "history.json").write_text('{"1": ')
    shutil.copytree(runs / "adam", runs / "new")
    (runs / "new" / "history.json").write_text("{}")
    shutil.copytree(runs / "adam", runs / "busy")
    with locked_directory(runs / "busy", TfaipError()):
        listed = facts(runs.parent, "all")
    assert {name: run["state"] for name, run in listed.items()} == {
        "all/adam": "stopped",
        "all/busy": "running",
        "all/deep/sgd": "stopped",
        "all/early": "damaged",
        "all/new": "new",
    }
    assert (listed["all/adam"]["epoch"], listed["all/adam"]["epochs"]) == (3, 5)
    assert "history.json" in listed["all/early"]["problem"]
    table = list_runs(runs.parent, "all").stdout
    assert table.splitlines()[-1] == f"all/early: {listed['all/early']['problem']}"


def test_a_look_does_not_stop_a_training_from_locking(tmp_path: Path) -> None:
    has_ended = threading.Event()
    looks = 0

    def look() -> None:
        nonlocal looks
        while not has_ended.is_set():
            is_locked(tmp_path)
            looks += 1

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(300):
        with locked_directory(tmp_path, TfaipError()):
            assert is_locked(tmp_path)
    has_ended.set()
    thread.join()
    assert looks > 0
    assert not is_locked(tmp_path)


def rows(cwd: Path, *args: str) -> list[list[str]]:
    """The cells of a table."""
    result = list_runs(cwd, *args)
    assert (result.rc, result.stderr) == (0, ""), result
    return [line.split() for line in result.stdout.splitlines()]


def test_list(trained: Path) -> None:
    before = files_below(trained)
    listed = facts(trained.parent, "all")
    assert list(listed) == ["all/adam", "all/deep/sgd", "all/early"]
    for name, epochs, asked in [("adam", 3, 3), ("deep/sgd", 2, 2), ("early", 1, 4)]:
        run = listed[f"all/{name}"]
        records = json.loads((trained / name / "history.json").read_text())
        losses = [record["values"][MONITOR] for record in records.values()]
        best = losses.index(min(losses))
        assert (run["state"], run["epoch"], run["epochs"], run["problem"]) == ("done", epochs, asked, "")
        assert (run["monitor"], run["mode"], run["best_epoch"], run["best"]) == (MONITOR, "min", best + 1, losses[best])
        assert run["values"] == records[str(best + 1)]["values"]
        assert run["seconds"] == pytest.approx(sum(r["meta"]["seconds"] for r in records.values()), abs=1e-3)
    classes = [run["params"]["optimizer"].rpartition(":")[2] for run in listed.values()]
    assert classes == ["AdamOptimizer", "SGDOptimizer", "AdamOptimizer"]
    assert [run["params"]["early_stopping.lower_threshold"] for run in listed.values()] == [None, None, 100.0]
    assert files_below(trained) == before


def test_table_has_the_params_that_differ(trained: Path) -> None:
    header, *lines = rows(trained.parent, "all")
    # The momentum belongs to one of the classes only; numbers of epochs and seeds differ anyway.
    fixed = ["run", "state", "epoch", "epochs", "monitor", "best", "best_epoch", "seconds"]
    assert header == [*fixed, "early_stopping.lower_threshold", "optimizer"]
    assert [line[:5] for line in lines] == [
        ["all/adam", "done", "3", "3", MONITOR],
        ["all/deep/sgd", "done", "2", "2", MONITOR],
        ["all/early", "done", "1", "4", MONITOR],
    ]
    assert [line[-2:] for line in lines] == [["null", "Adam"], ["null", "SGD"], ["100.0", "Adam"]]
    values = {name: run["best"] for name, run in facts(trained.parent, "all").items()}
    found = [line[0] for line in rows(trained.parent, "all", "--sort", "best")[1:]]
    assert found == sorted(values, key=lambda name: values[name])
    assert [line[0] for line in rows(trained.parent, "all", "--sort", "epoch")[1:]] == [
        "all/early",
        "all/deep/sgd",
        "all/adam",
    ]


def test_compare(trained: Path) -> None:
    compared = rows(trained, "compare", "deep/sgd", "adam/checkpoint")
    assert compared[:3] == [["run", "deep/sgd", "adam"], ["state", "done", "done"], ["epoch", "2", "3"]]
    differing = [["optimizer", "SGD", "Adam"], ["optimizer.momentum", "0.5", "-"], ["optimizer.nesterov", "false", "-"]]
    of_adam = {"beta_1": "0.9", "beta_2": "0.999", "epsilon": "1e-07", "amsgrad": "false"}
    assert compared[8:] == [*differing, *([f"optimizer.{name}", "-", value] for name, value in of_adam.items())]
    assert [line[0] for line in rows(trained.parent, "compare", "all")[:1]] == ["run"]


def test_params_are_named_as_their_flags(trained: Path) -> None:
    names = set(facts(trained, "adam")["adam"]["params"])
    flags = set(flag_values(TinyScenario.default_trainer_params()))
    empty = {"trainer.loss_weights", "stages", "transfer.blocks", "warmstart.blocks"}  # their items have flags
    assert flags - names == {"trainer.output_dir", "overwrite"} | empty
    assert {"optimizer", "learning_rate", "train", "val", "data.pre_proc", "data.post_proc"} <= names


@pytest.mark.parametrize(("name", "values"), [("scenario.scenario_id", "ab"), ("trainer.random_seed", "12")])
def test_runs_that_differ_in_one_thing(name: str, values: str, trained: Path, tmp_path: Path) -> None:
    """Copies of a scenario; other seeds."""
    for value in values:
        shutil.copytree(trained / "adam", tmp_path / value)
        file = tmp_path / value / "trainer_params.json"
        text = file.read_text().replace('"random_seed": 1', f'"random_seed": {value if value in "12" else 1}')
        file.write_text(text if value in "12" else text.replace('"tiny.', f'"{value}.'))
    table = rows(tmp_path, ".")
    assert table[0][8:] == [name]
    assert name == "scenario.scenario_id" or [line[8:] for line in table[1:]] == [["1"], ["2"]]


def test_odd_names_take_one_line_and_no_control_characters(trained: Path, tmp_path: Path) -> None:
    for name in ("a\nb", "\033[31mred", "[bold]x"):
        shutil.copytree(trained / "adam", tmp_path / name)
    os.mkdir(os.fsencode(tmp_path) + b"/huge\xff")
    shutil.copy(os.fsencode(trained / "adam" / "trainer_params.json"), os.fsencode(tmp_path) + b"/huge\xff")
    assert [row[0] for row in rows(tmp_path, ".")] == ["run", "?[31mred", "[bold]x", "a", "huge?"]
    assert list(facts(tmp_path, "."))[:3] == ["\033[31mred", "[bold]x", "a\nb"]


def test_odd_facts_of_a_run_do_not_hide_the_others(trained: Path, tmp_path: Path) -> None:
    odd = {"huge": ("seconds", 10**400), "inf": ("seconds", math.inf), "nan": ("stage", math.nan)}
    for name, (fact, value) in odd.items():
        shutil.copytree(trained / "adam", tmp_path / name)
        file = tmp_path / name / "history.json"
        history = json.loads(file.read_text())
        for record in history.values():
            record["meta"][fact] = value
            record["values"]["other"] = math.nan
        file.write_text(json.dumps(history))
        params = tmp_path / name / "trainer_params.json"
        params.write_text(json.dumps({**json.loads(params.read_text()), "val_every_n": math.nan}))
    assert [row[:2] for row in rows(tmp_path, ".")[1:]] == [[n, "done"] for n in ("huge", "inf", "nan")]
    assert len(rows(tmp_path, ".")[0]) == 8  # NaN is no difference
    listed = facts(tmp_path, ".")
    assert [run["seconds"] for run in listed.values()][:2] == [0, 0]
    assert [run["values"]["other"] for run in listed.values()] == [None, None, None]
