"""The tutorials as a user trains them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from test.support.commands import CommandResult, finish_command, run_several, start_python
from test.support.runs import history

Run = Callable[..., CommandResult]
FULL = "tfaip.scenario.tutorial.full"
MIN = "tfaip.scenario.tutorial.min"


def validation_accuracies(output_dir: Path) -> list[float]:
    history = json.loads((output_dir / "history.json").read_text())
    return [epoch["values"]["val_acc"] for epoch in history.values()]


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param([], id="CNN", marks=pytest.mark.slow),
        pytest.param(["--model.graph", "MLP"], id="MLP", marks=pytest.mark.guard),
    ],
)
def test_full_reaches_97_percent(flags: list[str], tmp_path: Path, run_command: Callable[..., CommandResult]) -> None:
    output_dir = tmp_path / "run"
    flags = [*flags, "--trainer.random_seed", "1", "--scenario.export_serve", "False"]
    result = run_command("train", FULL, "--trainer.output_dir", output_dir, *flags)
    assert result.rc == 0, result
    accuracies = validation_accuracies(output_dir)
    assert len(accuracies) == 20
    assert max(accuracies) >= 0.97
    assert accuracies[-1] >= 0.96


STRATEGY = {"tensorflow": "mirror", "jax": "data_parallel"}[os.environ["KERAS_BACKEND"]]


@pytest.mark.guard
@pytest.mark.backend
@pytest.mark.parametrize("strategy", ["default", *["mirror"] * (STRATEGY == "mirror")])
def test_min_learns(strategy: str, tmp_path: Path, run_command: Callable[..., CommandResult]) -> None:
    flags = ["--trainer.epochs", "10", "--trainer.random_seed", "1", "--device.dist_strategy", strategy]
    result = run_command("train", MIN, "--trainer.output_dir", tmp_path / "run", *flags)
    assert result.rc == 0, result
    assert max(validation_accuracies(tmp_path / "run")) >= 0.95
    assert (tmp_path / "run" / "export" / "serve").is_dir()


@pytest.mark.backend
@pytest.mark.parametrize("devices", [pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.guard)])
def test_a_strategy_changes_nothing(devices: int, tmp_path: Path, run_command: Callable[..., CommandResult]) -> None:
    # The last batch has 15 samples.
    flags = ["--trainer.random_seed", "1", "--trainer.samples_per_epoch", "47", "--val.limit", "47"]
    flags += ["--trainer.lav_every_n", "1", "--stages", "small=TrainStage", "apply=PredictStage"]
    flags += ["--stages.small.epochs", "1", "--stages.small.overrides", "model.units=8"]
    plain = ["train", MIN, "--trainer.output_dir", tmp_path / "plain", "--trainer.epochs", "3", *flags]
    assert run_command(*plain).rc == 0
    run = tmp_path / "shared"
    flags += ["--device.dist_strategy", STRATEGY, "--trainer.epochs", "2"]
    commands: list[list[str | Path]] = [
        ["train", MIN, "--trainer.output_dir", run, *flags],
        ["resume_training", run, "--trainer.epochs", "3"],
        ["export", run / "best", "--check"],
    ]
    result = run_several(commands, tmp_path, devices)
    assert result.rc == 0, result
    expected, shared = history(tmp_path / "plain"), history(run)
    assert list(expected) == list(shared) == ["1", "2", "3"]
    for epoch, record in expected.items():
        assert shared[epoch]["values"] == pytest.approx(record["values"], rel=1e-5)
    assert (run / "stages" / "apply" / "predictions.jsonl").read_text().count("\n") == 1437


JAX = """
import os, sys
from tfaip.scripts import resume_training, train

sys.modules["tensorflow"] = None
os.environ["KERAS_BACKEND"] = "jax"
scenario, run, *flags = sys.argv[1:]
assert train.main([scenario, "--trainer.output_dir", run, *flags]) == 0
# Where no variable is set, the run's own backend continues it.
del os.environ["KERAS_BACKEND"]
assert resume_training.main([run, "--trainer.epochs", "2"]) == 0
print(os.environ["KERAS_BACKEND"])
"""


@pytest.mark.slow
def test_jax_trains_and_resumes_without_tensorflow(tmp_path: Path) -> None:
    run = tmp_path / "run"
    flags = ["--trainer.epochs", "1", "--model.graph", "MLP", "--scenario.export_serve", "False"]
    flags += ["--trainer.samples_per_epoch", "64", "--val.limit", "32"]
    result = finish_command(start_python("-c", JAX, FULL, run, *flags))
    assert (result.rc, result.stderr) == (0, ""), result
    assert result.stdout.splitlines()[-1] == "jax"
    assert (run / "best").is_dir()
    assert not (run / "best" / "serve").exists()
    events = b"".join(file.read_bytes() for file in (run / "validation").iterdir())
    assert b"unsure_images" in events
    assert b"\x89PNG" in events
