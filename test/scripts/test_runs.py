"""`tfaip-runs`: lists of runs and comparisons, from their directories alone."""

from __future__ import annotations

import csv
import json
import math
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from test.support.commands import CommandResult, finish_command, run_several, start_command
from test.support.runs import copy_tiny, files_below, make_once
from test.support.tiny.scenario import TinyScenario
from tfaip.params.flags import flag_values
from tfaip.trainer.tools.runs import find_runs
from tfaip.util.files import is_locked, locked_directory

MONITOR = "val_loss/mean_epoch"
# Name of a run -> its flags. All have 44 samples per epoch and lr 0.01.
RUNS = {
    "deep/sgd": ["--trainer.epochs", "2", "--optimizer", "SGD", "--optimizer.momentum", "0.5"],
    "adam": ["--trainer.epochs", "3", "--trainer.random_seed", "1"],
    # Every loss is below 100: it stops after its first epoch.
    "early": ["--trainer.epochs", "4", "--early_stopping.lower_threshold", "100", "--trainer.random_seed", "2"],
}


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
    return finish_command(start_command("runs", *args, cwd=cwd))


def facts(cwd: Path, *args: str) -> dict[str, dict[str, Any]]:
    """The facts of `--json` by run."""
    result = list_runs(cwd, *args, "--json")
    assert (result.rc, result.stderr) == (0, ""), result
    return {run["run"]: run for run in json.loads(result.stdout)}


def set_epochs(run: Path, epochs: int) -> None:
    """Let the stored params ask for another number of epochs, as those of a run that was stopped do."""
    file = run / "trainer_params.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "epochs": epochs}))


@pytest.mark.slow
def test_list(trained: Path) -> None:
    before = files_below(trained)
    listed = facts(trained.parent, "all", "--values", "loss", "--params", "optimizer", "*.lower_threshold")
    assert list(listed) == ["all/adam", "all/deep/sgd", "all/early"]
    for name, epochs, asked in [("adam", 3, 3), ("deep/sgd", 2, 2), ("early", 1, 4)]:
        run = listed[f"all/{name}"]
        records = json.loads((trained / name / "history.json").read_text())
        losses = [record["values"][MONITOR] for record in records.values()]
        best = losses.index(min(losses))
        assert (run["state"], run["epoch"], run["epochs"], run["problem"]) == ("done", epochs, asked, "")
        assert run["best"] == {"monitor": MONITOR, "mode": "min", "epoch": best + 1, "value": losses[best]}
        assert run["values"] == {"loss": records[str(best + 1)]["values"]["loss"]}
        assert run["seconds"] == pytest.approx(sum(r["meta"]["seconds"] for r in records.values()), abs=1e-3)
    classes = [run["params"]["optimizer"].rpartition(":")[2] for run in listed.values()]
    assert classes == ["AdamOptimizer", "SGDOptimizer", "AdamOptimizer"]
    assert [run["params"]["early_stopping.lower_threshold"] for run in listed.values()] == [None, None, 100.0]
    assert files_below(trained) == before


def test_table_has_the_params_that_differ(trained: Path) -> None:
    result = list_runs(trained.parent, "all")
    header, *rows = [line.split() for line in result.stdout.splitlines()]
    # The momentum belongs to one of the classes only; numbers of epochs and seeds differ anyway.
    assert header == ["run", "state", "epochs", "best", "epoch", "time", "lower_threshold", "optimizer"]
    assert [row[:3] for row in rows] == [
        ["all/adam", "done", "3/3"],
        ["all/deep/sgd", "done", "2/2"],
        ["all/early", "done", "1/4"],
    ]
    assert [row[-2:] for row in rows] == [["null", "Adam"], ["null", "SGD"], ["100.0", "Adam"]]


def test_copies_of_a_scenario_differ_in_one_column(trained: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        shutil.copytree(trained / "adam", tmp_path / name)
        file = tmp_path / name / "trainer_params.json"
        file.write_text(file.read_text().replace('"tiny.', f'"{name}.').replace(":Tiny", f":{name.title()}"))
    header, *rows = [line.split() for line in list_runs(tmp_path, ".").stdout.splitlines()]
    assert header == ["run", "state", "epochs", "best", "epoch", "time", "scenario"]
    assert [row[-1][:6] for row in rows] == ["first.", "second"]
    compared = list_runs(tmp_path, "compare", "first", "second").stdout.split("\n\n")[0].splitlines()
    assert [row.split()[0] for row in compared[1:]] == ["state", "epochs", "best", "epoch", "time", "scenario"]


def test_params_are_named_as_their_flags(trained: Path) -> None:
    names = set(facts(trained, "adam", "--params", "*")["adam"]["params"])
    flags = set(flag_values(TinyScenario.default_trainer_params()))
    places = {"trainer.output_dir", "overwrite"}
    assert flags - names == places
    classes = {"optimizer", "learning_rate", "train", "val", "data.pre_proc", "data.post_proc"}
    assert classes <= names
    rest = {name for name in names - flags - classes if not name.endswith("__cls__")}
    assert {"scenario.scenario_id", "keras_backend", "learning_rate.epochs", "gen.setup.train.mode"} <= rest
    chosen = facts(trained, "adam", "--params", "lr", "train.batch_size")["adam"]["params"]
    assert chosen == {"learning_rate.lr": 0.01, "train.batch_size": 4}


def set_params(run: Path, group: str, **values: Any) -> None:
    file = run / "trainer_params.json"
    stored = json.loads(file.read_text())
    stored[group].update(values)
    file.write_text(json.dumps(stored))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rates", "shown"),
    [
        ((0.0012345678901234567, 0.1), ["0.0012346", "0.1"]),
        ((0.0012345678, 0.0012345679), ["0.0012345678", "0.0012345679"]),
        ((1e-7, 123456.75), ["1e-07", "123457.0"]),
    ],
)
def test_tables_round_numbers_that_look_different_then(
    rates: tuple[float, float], shown: list[str], trained: Path, tmp_path: Path
) -> None:
    for name, rate in zip("ab", rates, strict=True):
        shutil.copytree(trained / "adam", tmp_path / name)
        set_params(tmp_path / name, "learning_rate", lr=rate)
    listed = [row.split()[-1] for row in list_runs(tmp_path, ".").stdout.splitlines()]
    assert listed == ["lr", *shown]
    compared = [row.split() for row in list_runs(tmp_path, "compare", "a", "b").stdout.splitlines()]
    assert compared[6] == ["learning_rate.lr", *shown]
    assert [run["params"] for run in facts(tmp_path, ".").values()] == [{"learning_rate.lr": rate} for rate in rates]


def test_best_values_that_differ_look_different(trained: Path, tmp_path: Path) -> None:
    for name, value in (("a", 0.12345678), ("b", 0.12345999)):
        shutil.copytree(trained / "adam", tmp_path / name)
        file = tmp_path / name / "history.json"
        history = json.loads(file.read_text())
        for record in history.values():
            record["values"][MONITOR] = value
        file.write_text(json.dumps(history))
    rows = [row.split() for row in list_runs(tmp_path, "compare", "a", "b").stdout.splitlines()]
    assert rows[3] == ["best", MONITOR, "0.123457", MONITOR, "0.123460"]


@pytest.mark.slow
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


def test_only_seeds_differ(trained: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        shutil.copytree(trained / "adam", tmp_path / f"run{seed}")
        file = tmp_path / f"run{seed}" / "trainer_params.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "random_seed": seed}))
    assert [run["params"] for run in facts(tmp_path, ".").values()] == [
        {"trainer.random_seed": 1},
        {"trainer.random_seed": 2},
    ]


@pytest.mark.slow
def test_states(runs: Path) -> None:
    set_epochs(runs / "adam", 5)
    shutil.rmtree(runs / "deep" / "sgd" / "export")  # killed before its final model
    (runs / "early" / "history.json").write_text('{"1": ')
    shutil.copytree(runs / "adam", runs / "new")
    (runs / "new" / "history.json").write_text("{}")
    shutil.copytree(runs / "adam", runs / "busy")
    with locked_directory(runs / "busy"):
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
    result = list_runs(runs.parent, "compare", "all/adam", "all/early")
    assert (result.rc, result.stderr.count("\n")) == (2, 1), result


@pytest.mark.slow
def test_odd_names_take_one_line_and_no_control_characters(trained: Path, tmp_path: Path) -> None:
    for name in ("a\nb", "\033[31mred", "[bold]x"):
        shutil.copytree(trained / "adam", tmp_path / name)
    file = tmp_path / "a\nb" / "history.json"
    file.write_text(file.read_text().replace("val_mae", "val_\\u001b[2J"))
    for line in (["."], [".", "--values", "*"], ["compare", "a\nb", "[bold]x", "--values", "*"]):
        result = list_runs(tmp_path, *line)
        assert result.rc == 0, result
        assert "\033" not in result.stdout
        assert "[bold]x" in result.stdout
    assert [row.split()[0] for row in list_runs(tmp_path, ".").stdout.splitlines()] == [
        "run",
        "?[31mred",
        "[bold]x",
        "a",
    ]
    assert list(facts(tmp_path, ".")) == ["\033[31mred", "[bold]x", "a\nb"]


@pytest.mark.slow
def test_odd_facts_of_a_run_do_not_hide_the_others(trained: Path, tmp_path: Path) -> None:
    odd = {"huge": ("seconds", 10**400), "inf": ("seconds", math.inf), "nan": ("stage", math.nan)}
    for name, (fact, value) in odd.items():
        shutil.copytree(trained / "adam", tmp_path / name)
        file = tmp_path / name / "history.json"
        history = json.loads(file.read_text())
        for record in history.values():
            record["meta"][fact] = value
            record["values"]["a[1]"] = 2.0
        file.write_text(json.dumps(history))
        params = tmp_path / name / "trainer_params.json"
        params.write_text(json.dumps({**json.loads(params.read_text()), "val_every_n": math.nan}))
    os.rename(tmp_path / "huge", os.fsencode(tmp_path) + b"/huge\xff")
    table = list_runs(tmp_path, ".", "--values", "a[1]")
    assert table.rc == 0, table
    assert [row.split()[:2] for row in table.stdout.splitlines()[1:]] == [[n, "done"] for n in ("huge?", "inf", "nan")]
    assert [row.split()[-1] for row in table.stdout.splitlines()] == ["a[1]", "2.0000", "2.0000", "2.0000"]
    listed = facts(tmp_path, ".")
    assert [run["seconds"] for run in listed.values()][:2] == [0, 0]
    assert [run["params"] for run in listed.values()] == [{}, {}, {}]  # NaN is no difference
    result = list_runs(tmp_path, ".", "--csv")
    assert (result.rc, result.stdout.splitlines()[1][:9]) == (0, r"huge\udcf")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_directories_that_may_not_be_read_are_passed_over(tmp_path: Path) -> None:
    for name in ("closed", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "trainer_params.json").write_text("{}")
    (tmp_path / "closed").chmod(0o444)
    assert find_runs(tmp_path) == [tmp_path / "open"]


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
        with locked_directory(tmp_path):
            assert is_locked(tmp_path)
    has_ended.set()
    thread.join()
    assert looks > 0
    assert not is_locked(tmp_path)


@pytest.mark.slow
def test_sort(trained: Path) -> None:
    values = {name: run["best"]["value"] for name, run in facts(trained.parent, "all").items()}
    assert list(facts(trained.parent, "all", "--sort", "best")) == sorted(values, key=lambda name: values[name])
    assert list(facts(trained.parent, "all", "--sort", "epochs")) == ["all/early", "all/deep/sgd", "all/adam"]


def test_csv(trained: Path) -> None:
    result = list_runs(trained.parent, "all", "--csv", "--values", "loss")
    lines = list(csv.DictReader(result.stdout.splitlines()))
    assert [line["run"] for line in lines] == ["all/adam", "all/deep/sgd", "all/early"]
    listed = facts(trained.parent, "all", "--values", "loss")
    for line in lines:
        run = listed[line["run"]]
        assert float(line["loss"]) == run["values"]["loss"]
        assert (float(line["best_value"]), line["best_mode"]) == (run["best"]["value"], "min")
        assert line["optimizer"] == run["params"]["optimizer"]


@pytest.mark.slow
def test_compare(trained: Path) -> None:
    result = list_runs(trained, "compare", "adam", "deep/sgd", "--values", "val_loss", "lr*", "--json")
    assert result.rc == 2
    assert result.stderr.startswith("error: --values 'lr*': no run has it; expected one of: loss, ")
    result = list_runs(trained, "compare", "adam", "deep/sgd", "--json")
    compared = json.loads(result.stdout)
    records = {name: json.loads((trained / name / "history.json").read_text()) for name in ("adam", "deep/sgd")}
    expected = {n: [[int(e), r["values"][MONITOR]] for e, r in history.items()] for n, history in records.items()}
    assert compared["curves"] == {MONITOR: expected}
    assert [run["run"] for run in compared["runs"]] == ["adam", "deep/sgd"]
    lines = csv.DictReader(list_runs(trained, "compare", "adam", "deep/sgd", "--csv").stdout.splitlines())
    found = [(line["run"], int(line["epoch"]), line["name"], float(line["value"])) for line in lines]
    assert found == [(name, e, MONITOR, value) for name, curve in expected.items() for e, value in curve]


@pytest.mark.slow
def test_picture(trained: Path, tmp_path: Path) -> None:
    picture = tmp_path / "curves.png"
    result = list_runs(trained, "compare", "adam", "deep/sgd", "early", "--png", str(picture))
    assert result.rc == 0, result
    assert picture.read_bytes().startswith(b"\x89PNG\r\n")
    assert "* adam   o deep/sgd   + early" in result.stdout


def test_odd_names_in_pictures(trained: Path, tmp_path: Path) -> None:
    far = f"{'a' * 60}/{{}}/{'b' * 120}"
    names = ["$\\frac$x", "_x", far.format("c"), far.format("d")]
    for name in names:
        shutil.copytree(trained / "adam", tmp_path / name)
    result = list_runs(tmp_path, "compare", *names, "--png", "curves.png")
    assert result.rc == 0, result
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG\r\n")
    legend = result.stdout.splitlines()[-1].split("   ")
    assert [entry.split()[0] for entry in legend] == ["*", "o", "+", "x"]
    assert len({entry[2:] for entry in legend}) == 4


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["missing"], "no runs in missing: expected a directory"),
        (["../tiny"], "no runs in ../tiny: expected directories with trainer_params.json, at most 8 levels below"),
        (["compare", "adam"], "tfaip-runs compare needs two different runs or more, got 1"),
        (["compare", "adam", "./adam"], "tfaip-runs compare needs two different runs or more, got 1"),
        (["adam", "--sort", "size"], "--sort is 'size', expected one of name, state, epochs, best, seconds, changed"),
        (["adam", "--json", "--csv"], "--json and --csv exclude each other: give one of them"),
        (["adam", "--params", "optimizer.learning"], "--params 'optimizer.learning': no run has it"),
        (["adam", "--png", "x.png"], "--png shows the curves of a comparison: tfaip-runs compare RUN RUN --png x.png"),
    ],
)
def test_mistakes(trained: Path, line: list[str], message: str) -> None:
    result = list_runs(trained, *line)
    assert (result.rc, result.stdout) == (2, ""), result
    assert result.stderr.startswith(f"error: {message}"), result
    assert result.stderr.count("\n") == 1
    assert not (trained / "x.png").exists()


def test_no_backend_is_imported(trained: Path) -> None:
    code = (
        "import sys; from tfaip.scripts.runs import main; main(['adam']); main(['compare', 'adam', 'early'])\n"
        "print(sorted({'keras', 'tensorflow', 'jax'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=trained, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_dry_run(trained: Path) -> None:
    result = list_runs(trained.parent, "all", "--dry_run")
    assert result.stdout == "dry run: would list 3 runs\nwould write no file; nothing was written\n"
