"""Loggers on the real packages: a server of MLflow, its local store, and offline runs of W&B."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from test.support.commands import CommandResult, finish_command, kill_group, start_command, start_python
from test.support.runs import copy_tiny, files_below, history, make_once
from tfaip.trainer.loggers.logger import LoggedRun
from tfaip.trainer.loggers.mlflowlogger import MLflowLogger, MLflowLoggerParams

FAIL = """
import keras


class Fail(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise RuntimeError("the third epoch fails")
"""
SECRET = "a-key-of-a-user"  # noqa: S105
KEYS = {"WANDB_API_KEY": SECRET, "MLFLOW_TRACKING_TOKEN": SECRET}
START_S = 180.0
# A process that is asked needs time of the processor.
POLL_S = 0.2
AWAY = "http://127.0.0.1:9"


@dataclass(frozen=True)
class Run:
    """A run with loggers, and what was read back.

    Args:
        path: its directory.
        results: of its commands.
        wandb: its offline runs of W&B.
        mlflow: its runs of MLflow, as the API of the server gives them, each with its `curves`.
        server: address that the server of MLflow had.
    """

    path: Path
    results: list[CommandResult]
    wandb: list[dict[str, Any]]
    mlflow: list[dict[str, Any]]
    server: str

    @classmethod
    def read(cls, place: Path) -> Run:
        """Read what `store` has written."""
        stored = json.loads((place / "read.json").read_text())
        stored["results"] = [CommandResult(**result) for result in stored["results"]]
        return cls(place / "run", **stored)


def store(place: Path, results: list[CommandResult], server: str = "") -> None:
    """Read back what was logged, while the server of MLflow runs."""
    wandb = []
    for file in sorted(place.glob("run/loggers/wandb/offline-run-*/*.wandb")):
        result = finish_command(start_python("-m", "test.trainer.loggers.wandbfile", file))
        assert result.rc == 0, result
        wandb.append(json.loads(result.stdout))
    runs = runs_of(server, "TinyScenario") if server else []
    for run in runs:
        run["curves"] = {entry["key"]: curve(server, run, entry["key"]) for entry in run["data"]["metrics"]}
    results_read = [result._asdict() for result in results]
    content = {"results": results_read, "wandb": wandb, "mlflow": runs, "server": server}
    (place / "read.json").write_text(json.dumps(content))


def logged(run: Path) -> dict[int, dict[str, float]]:
    """What is to be logged by epoch: the values of the history, and the rate."""
    return {int(e): {**r["values"], "lr": r["effective_lr"]} for e, r in history(run).items()}


def row_of(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.startswith("_")}


def make_failed(place: Path) -> None:
    """Train a run whose third epoch fails, logged within its directory; the home directory is empty."""
    (place / "home").mkdir()
    copy_tiny(place)
    (place / "mine.py").write_text(FAIL)
    flags = ["--trainer.output_dir", "run", "--trainer.loggers", "MLflow", "WandB", "--trainer.callbacks", "mine:Fail"]
    flags += ["--trainer.loggers.0.tags", "data=v2", "--trainer.loggers.0.experiment", "points"]
    env = {"HOME": str(place / "home"), "XDG_STATE_HOME": str(place / "state"), **KEYS}
    store(place, [finish_command(start_command("train", "tiny", *flags, cwd=place, env=env))])


def make_killed(place: Path, failed: Path) -> None:
    """Train a run that is killed and resumed; a third logger has no server."""
    copy_tiny(place)
    with running_server(place, failed / "run/loggers/mlflow.db") as server:
        env = {"XDG_STATE_HOME": str(place / "state"), **KEYS}
        flags = ["--trainer.output_dir", "run", "--trainer.loggers", "MLflow", "WandB", "MLflow"]
        flags += ["--trainer.loggers.0.tracking_uri", server, "--trainer.loggers.2.tracking_uri", AWAY]
        flags += ["--trainer.loggers.2.tags", "//größe*=1"]
        process = start_command("train", "tiny", *flags, "--trainer.epochs", "9999", cwd=place, env=env)
        end = time.monotonic() + START_S
        try:
            while not any(len(curve(server, run, "loss")) >= 2 for run in runs_of(server, "TinyScenario")):
                assert time.monotonic() < end
                time.sleep(POLL_S)
        finally:
            kill_group(process)
        killed = CommandResult(-9, *process.communicate())
        latest = (place / "run/checkpoint/latest").read_text()
        flags = ["--trainer.epochs", str(int(latest.split("_")[1]) + 2)]
        resumed = finish_command(start_command("resume_training", "run", *flags, cwd=place, env=env))
        store(place, [killed, resumed], server)


@pytest.fixture(scope="session")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run.read(make_once(tmp_path_factory, "logged_failed", make_failed))


@pytest.fixture(scope="session")
def killed(tmp_path_factory: pytest.TempPathFactory, failed: Run) -> Run:
    return Run.read(make_once(tmp_path_factory, "logged_killed", partial(make_killed, failed=failed.path.parent)))


@contextmanager
def running_server(place: Path, database: Path) -> Iterator[str]:
    """Run a server of MLflow; it begins with a store that there is, since a new one takes many seconds."""
    shutil.copy(database, place / "mlflow.db")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{place}/mlflow.db", "--no-serve-artifacts"]
    command += ["--default-artifact-root", str(place / "artifacts")]
    env = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (place / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=place, stdout=log, stderr=log, env=env, start_new_session=True)
    try:
        address, end = f"http://127.0.0.1:{port}", time.monotonic() + START_S
        while not is_healthy(address):
            assert process.poll() is None, (place / "log").read_text()
            assert time.monotonic() < end, (place / "log").read_text()
            time.sleep(POLL_S)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def is_healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=10) as reply:  # noqa: S310
            return bool(reply.read() == b"OK")
    except OSError:
        return False


def ask(server: str, route: str, body: Any = None, **query: str) -> Any:
    """Ask the API of MLflow."""
    address = f"{server}/api/2.0/mlflow/{route}?{urllib.parse.urlencode(query)}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310
        return json.load(reply)


def runs_of(server: str, experiment: str) -> list[Any]:
    experiments = ask(server, "experiments/search", {"max_results": 10, "filter": f"name = '{experiment}'"})
    numbers = [found["experiment_id"] for found in experiments.get("experiments", [])]
    return ask(server, "runs/search", {"experiment_ids": numbers}).get("runs", []) if numbers else []


def curve(server: str, run: Any, name: str) -> list[tuple[int, float]]:
    reply = ask(server, "metrics/get-history", run_id=run["info"]["run_id"], metric_key=name)
    return [(int(metric["step"]), metric["value"]) for metric in reply.get("metrics", [])]


@pytest.mark.slow
def test_a_run_that_fails_is_logged_within_its_directory(failed: Run) -> None:
    (result,) = failed.results
    assert (result.rc, "the third epoch fails" in result.stderr) == (1, True), result
    expected = logged(failed.path)
    assert list(expected) == [1, 2]
    with sqlite3.connect(failed.path / "loggers" / "mlflow.db") as store:
        ((name, status),) = store.execute("select name, status from runs").fetchall()
        metrics = store.execute("select step, key, value from metrics").fetchall()
        tags = dict(store.execute("select key, value from tags").fetchall())
    store.close()
    assert (name, status, tags["data"]) == ("run", "FAILED", "v2")
    values = {step: {key: value for at, key, value in metrics if at == step} for step, _, _ in metrics}
    assert values == {epoch: {**record, "epoch": epoch} for epoch, record in expected.items()}
    assert len(metrics) == sum(map(len, values.values()))
    (run,) = failed.wandb
    assert [row_of(row) for row in run["rows"]] == list(values.values())
    assert (run["exit"], run["summary"]["status"], run["project"]) == (1, "failed", "TinyScenario")
    assert run["id"] == tags["tfaip.run"] == json.loads((failed.path / "loggers" / "logged.json").read_text())["id"]


def test_nothing_is_written_elsewhere(failed: Run) -> None:
    place = failed.path.parent
    assert set(files_below(place / "home")) == {".keras/keras.json"}  # of Keras, in every training
    ours = {"home", "state", "run", "tiny", "mine.py", "read.json"}
    assert {path.name for path in place.iterdir()} - {"__pycache__"} == ours


@pytest.mark.slow
def test_a_killed_run_shows_each_epoch_once(killed: Run) -> None:
    result = killed.results[-1]
    assert result.rc == 0, result
    expected = logged(killed.path)
    last = max(expected)
    assert list(expected) == list(range(1, last + 1))
    (run,) = killed.mlflow
    assert (run["info"]["run_name"], run["info"]["status"]) == ("run", "FINISHED")
    assert len(expected[1]) == len(run["data"]["metrics"]) - 1
    for name in expected[1]:
        assert run["curves"][name] == [[epoch, values[name]] for epoch, values in expected.items()]
    (offline,) = killed.wandb
    assert [row_of(row) for row in offline["rows"]] == [{**row, "epoch": e} for e, row in expected.items()]
    assert [row["_step"] for row in offline["rows"]] == list(expected)
    assert (offline["exit"], offline["summary"]["status"]) == (0, "finished")


def test_params_are_logged_by_their_flags(killed: Run) -> None:
    (run,) = killed.mlflow
    params = {entry["key"]: entry["value"] for entry in run["data"]["params"]}
    assert params["model.units"] == "8"
    assert params["optimizer"] == "tfaip.trainer.optimizer.optimizers:AdamOptimizer"
    assert params["train.batch_size"] == "4"
    # MLflow never changes a param: the resumed run has tagged the new value.
    tags = {entry["key"]: entry["value"] for entry in run["data"]["tags"]}
    assert params["trainer.epochs"] == "9999"
    assert tags["trainer.epochs"] == str(max(logged(killed.path)))
    (offline,) = killed.wandb
    assert {flag: offline["config"][flag] for flag in ("model.units", "learning_rate.decay")} == {
        "model.units": 8,
        "learning_rate.decay": 0.5,
    }
    # Keys of MLflow are paths of few signs.
    odd = {"trainer.loggers.2.tags.//größe*": "trainer_loggers_2_tags___größe_"}
    assert set(params) == {odd.get(flag, flag) for flag in offline["config"]} - {"_wandb"}
    assert params[odd["trainer.loggers.2.tags.//größe*"]] == "1"


def test_a_server_that_is_away_is_one_warning(killed: Run) -> None:
    result = killed.results[-1]
    assert result.stderr == "", result
    (line,) = [line for line in result.stdout.splitlines() if "warning" in line]
    assert line.startswith("warning: MLflowLogger does not log, the training continues and tries again: "), result
    assert "Connection refused" in line
    # What the service prints itself is left out.
    assert "View run" not in result.stdout


def test_no_secret_is_written(killed: Run, failed: Run) -> None:
    for run in (killed, failed):
        assert [name for name, content in files_below(run.path).items() if SECRET.encode() in content] == []
        assert [result for result in run.results if SECRET in str(result)] == []


def test_a_file_chooses_no_host(killed: Run) -> None:
    """The resume of another user, who has not typed the flags, unlike the one that continued the logged run."""
    env = {"XDG_STATE_HOME": str(killed.path.parent / "other")}
    result = finish_command(start_command("resume_training", "run", "--print_config", cwd=killed.path.parent, env=env))
    assert result.rc == 0, result
    assert re.findall(r"tracking_uri: (\S+)", result.stdout) == ["null", "null"], result
    refused = [line for line in str(result).splitlines() if "was not typed for this run" in line]
    assert [line.split()[1] for line in refused] == ["--trainer.loggers.0", "--trainer.loggers.2"], result


def test_a_directory_in_the_place_of_the_database(tmp_path: Path) -> None:
    """Found before the package is asked, which would try to open it for minutes."""
    (tmp_path / "mlflow.db").mkdir()
    run = LoggedRun("0" * 16, "run", "Scenario", {}, tmp_path)
    with pytest.raises(IsADirectoryError, match="mlflow.db"):
        MLflowLogger(MLflowLoggerParams(), SimpleNamespace(entities=None)).begin(run)
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow.db"]
