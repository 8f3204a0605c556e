"""Callbacks of the pages about MLflow and W&B on the real packages: one run, with each epoch once."""

from __future__ import annotations

import json
import shlex
import sqlite3
from pathlib import Path

import pytest

from test.docs.test_docs import blocks, commands
from test.support.commands import finish_command, start_command, start_python
from test.support.runs import copy_tiny, fault, faulty, history

pytestmark = [pytest.mark.backend, pytest.mark.slow]

STAGES = "--stages small=TrainStage --stages.small.epochs 2 --trainer.epochs 4"


def train_killed_and_resumed(page: str, place: Path, variables: dict[str, str]) -> dict[int, dict[str, float]]:
    """Train two stages as the page says, killed before the third checkpoint; return the values of all epochs."""
    copy_tiny(place)
    (code,) = blocks(page, "python")
    (place / "tiny" / code.partition("\n")[0].removeprefix("# my_package/")).write_text(code)
    (command,) = commands(page)
    command = [word.replace("my_package", "tiny") for word in command]
    killing = {**variables, **faulty(fault("SIGKILL", "os.rename", "epoch_0003"))}
    killed = finish_command(start_command(*command, *shlex.split(STAGES), cwd=place, env=killing))
    assert killed.rc == -9, killed
    # Without the record of what was typed: the callback is trusted as a part of the scenario's package.
    env = {"XDG_STATE_HOME": str(place / "state"), **variables}
    resumed = finish_command(start_command("resume_training", "runs/a", cwd=place, env=env))
    assert resumed.rc == 0, resumed
    values = {int(epoch): record["values"] for epoch, record in history(place / "runs" / "a").items()}
    assert list(values) == [1, 2, 3, 4]
    return values


def test_mlflow(tmp_path: Path) -> None:
    store = tmp_path / "mlflow.db"
    expected = train_killed_and_resumed("mlflow.md", tmp_path, {"MLFLOW_TRACKING_URI": f"sqlite:///{store}"})
    with sqlite3.connect(store) as database:
        ((run_id, status),) = database.execute("select run_uuid, status from runs").fetchall()
        metrics = database.execute("select step, key, value from metrics order by step").fetchall()
        params = dict(database.execute("select key, value from params").fetchall())
    database.close()
    assert (run_id, status) == ((tmp_path / "runs" / "a" / "mlflow.id").read_text(), "FINISHED")
    all_values = [(step, *item) for step, values in expected.items() for item in {**values, "epoch": step}.items()]
    assert sorted(metrics) == sorted(all_values)
    assert (params["model.units"], params["train.batch_size"]) == ("8", "4")


def test_wandb(tmp_path: Path) -> None:
    expected = train_killed_and_resumed("wandb.md", tmp_path, {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path)})
    run_id = (tmp_path / "runs" / "a" / "wandb.id").read_text()
    killed, resumed = sorted(tmp_path.glob("wandb/offline-run-*"))
    assert killed.name.endswith(f"-{run_id}")
    assert resumed == (tmp_path / "wandb" / "latest-run").resolve()
    result = finish_command(start_python("-m", "test.docs.wandbfile", resumed / f"run-{run_id}.wandb"))
    assert result.rc == 0, result
    run = json.loads(result.stdout)
    assert (run["id"], run["config"]["model.units"]) == (run_id, 8)
    assert [row["_step"] for row in run["rows"]] == [1, 2, 3, 4]
    for row, values in zip(run["rows"], expected.values(), strict=True):
        assert {name: value for name, value in row.items() if not name.startswith("_")} == values
