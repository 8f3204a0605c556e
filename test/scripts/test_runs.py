"""`tfaip-runs`: lists of runs and comparisons, from their directories alone."""

import contextlib
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from test.support.commands import CommandResult, exit_code, finish_command, run_several, start_command
from test.support.runs import copy_tiny, files_below, make_once
from tfaip.errors import TfaipError
from tfaip.scripts.runs import main
from tfaip.util.files import locked_directory

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


def edit(file: Path, **values: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


ERROR = "2026-01-01 00:00:00,000 ERROR   tfaip: the run ended with "
# End of the log of a run that has not trained all epochs -> its state and problem.
ENDS = {
    ERROR + "ValueError: no\nTraceback\n  line\n": ("failed", "ValueError: no"),
    ERROR + "TrainingInterrupted: SIGTERM\n": ("stopped", ""),
    ERROR + "OSError: x\n2026-01-01 00:00:00,000 INFO    tfaip.trainer: resumed\n": ("stopped", ""),
}


def test_states(trained: Path, tmp_path: Path) -> None:
    names = [*map(str, range(len(ENDS))), "pipe", "killed", "damaged", "new", "busy"]
    for name in names:
        shutil.copytree(trained / "adam", tmp_path / name)
        shutil.rmtree(tmp_path / name / "export")
        if name != "killed":  # before its final model
            edit(tmp_path / name / "trainer_params.json", epochs=5)
    for name, end in zip(names, ENDS, strict=False):
        with (tmp_path / name / "train.log").open("a") as file:
            file.write(end)
    (tmp_path / "pipe" / "train.log").unlink()
    os.mkfifo(tmp_path / "pipe" / "train.log")  # is not waited for
    (tmp_path / "damaged" / "history.json").write_text('{"1": ')
    (tmp_path / "new" / "history.json").write_text("{}")
    copy_tiny(tmp_path)
    bad = ["--trainer.output_dir", "bad", "--train.samples", "0"]
    result = finish_command(start_command("train", "tiny", *bad, cwd=tmp_path))
    with locked_directory(tmp_path / "busy", TfaipError()):
        listed = facts(tmp_path, ".")
    states = {name: (run["state"], run["problem"]) for name, run in listed.items()}
    (state, problem), (_, damage) = states.pop("bad"), states["damaged"]
    expected = {**dict(zip(names, ENDS.values(), strict=False)), "damaged": ("damaged", damage), "new": ("new", "")}
    assert states == {**expected, "busy": ("running", ""), **dict.fromkeys(("pipe", "killed"), ("stopped", ""))}
    assert (listed["pipe"]["epoch"], listed["pipe"]["epochs"]) == (3, 5)
    assert "history.json" in damage
    assert (state, listed["bad"]["epoch"]) == ("failed", 0)
    assert problem[:60] == result.stderr.removeprefix("error: ").strip()[:60] != ""
    shown = [line for line in list_runs(tmp_path, ".").stdout.splitlines() if ": " in line]
    assert [line.partition(":")[0] for line in shown] == ["0", "bad", "damaged"]


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


def test_compare(trained: Path) -> None:
    compared = rows(trained, "compare", "deep/sgd", "adam/checkpoint")
    assert compared[:3] == [["run", "deep/sgd", "adam"], ["state", "done", "done"], ["epoch", "2", "3"]]
    differing = [["optimizer", "SGD", "Adam"], ["optimizer.momentum", "0.5", "-"], ["optimizer.nesterov", "false", "-"]]
    of_adam = {"beta_1": "0.9", "beta_2": "0.999", "epsilon": "1e-07", "amsgrad": "false"}
    assert compared[8:] == [*differing, *([f"optimizer.{name}", "-", value] for name, value in of_adam.items())]
    assert [line[0] for line in rows(trained.parent, "compare", "all")[:1]] == ["run"]
