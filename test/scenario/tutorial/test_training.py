"""The tutorials as a user trains them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from test.support.commands import CommandResult, finish_command, start_python

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


@pytest.mark.guard
@pytest.mark.backend
@pytest.mark.parametrize("strategy", ["default", *["mirror"] * (os.environ["KERAS_BACKEND"] == "tensorflow")])
def test_min_learns(strategy: str, tmp_path: Path, run_command: Callable[..., CommandResult]) -> None:
    flags = ["--trainer.epochs", "10", "--trainer.random_seed", "1", "--device.dist_strategy", strategy]
    result = run_command("train", MIN, "--trainer.output_dir", tmp_path / "run", *flags)
    assert result.rc == 0, result
    assert max(validation_accuracies(tmp_path / "run")) >= 0.95
    assert (tmp_path / "run" / "export" / "serve").is_dir()


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
    flags += ["--trainer.lav_every_n", "1", "--trainer.calc_ema", "0.9"]
    result = finish_command(start_python("-c", JAX, FULL, run, *flags))
    assert (result.rc, result.stderr) == (0, ""), result
    assert result.stdout.splitlines()[-1] == "jax"
    assert "lav_l0_loss" in json.loads((run / "history.json").read_text())["1"]["values"]
    assert (run / "best").is_dir()
    assert not (run / "best" / "serve").exists()
    events = b"".join(file.read_bytes() for file in (run / "validation").iterdir())
    assert b"unsure_images" in events
    assert b"\x89PNG" in events
