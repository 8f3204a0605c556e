"""The tutorials as a user trains them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from test.support.commands import CommandResult, finish_command, start_python

FULL = "tfaip.scenario.tutorial.full"
MIN = "tfaip.scenario.tutorial.min"
BACKENDS = ("keras", "tensorflow", "jax")


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
def test_min_learns(tmp_path: Path, run_command: Callable[..., CommandResult]) -> None:
    flags = ["--trainer.epochs", "10", "--trainer.random_seed", "1"]
    result = run_command("train", MIN, "--trainer.output_dir", tmp_path / "run", *flags)
    assert result.rc == 0, result
    assert max(validation_accuracies(tmp_path / "run")) >= 0.95
    assert (tmp_path / "run" / "export" / "serve").is_dir()


@pytest.mark.slow
def test_jax_needs_no_tensorflow(tmp_path: Path) -> None:
    flags = ["--trainer.epochs", "1", "--trainer.output_dir", str(tmp_path / "run"), "--scenario.export_serve", "False"]
    code = f"""
import sys
sys.modules["tensorflow"] = None
from tfaip.scripts.train import main
sys.exit(main({[FULL, *flags]!r}))
"""
    result = finish_command(start_python("-c", code, env={"KERAS_BACKEND": "jax"}))
    assert result.rc == 0, result
    assert (tmp_path / "run" / "best").is_dir()
    assert not (tmp_path / "run" / "best" / "serve").exists()
    (events,) = (tmp_path / "run" / "validation").iterdir()
    assert b"unsure_images" in events.read_bytes()
    assert b"\x89PNG" in events.read_bytes()


def test_min_is_small() -> None:
    root = Path(__file__).resolve().parents[3] / "tfaip" / "scenario" / "tutorial" / "min"
    assert sum(len(path.read_text().splitlines()) for path in root.glob("*.py")) < 120


@pytest.mark.parametrize("arguments", [[], [FULL], [MIN], [FULL, "--model.graph", "MLP"]])
def test_help_loads_no_backend(arguments: list[str]) -> None:
    code = f"""
import sys
from tfaip.scripts.train import main
try:
    code = main({[*arguments, "--help"]!r})
except SystemExit as end:
    code = end.code
print("END", code, [name for name in {BACKENDS!r} if name in sys.modules])
"""
    result = finish_command(start_python("-c", code))
    assert result.stdout.splitlines()[-1] == "END 0 []", result
    assert result.stderr == ""


def test_help_shows_the_fields_of_the_chosen_graph(run_command: Callable[..., CommandResult]) -> None:
    mlp = run_command("train", FULL, "--model.graph", "MLP", "--help", env={"COLUMNS": "80"})
    cnn = run_command("train", FULL, "--help", env={"COLUMNS": "80"})
    assert mlp.rc == cnn.rc == 0
    assert "--model.graph.units" in mlp.stdout
    assert "--model.graph.filters" not in mlp.stdout
    assert "--model.graph.filters" in cnn.stdout
    assert max(len(line) for line in cnn.stdout.splitlines()) <= 80


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--data.dataset", "mnst"], "mnist"),
        (["--model.graph", "RNN"], "CNN"),
        (["--model.graph.filter", "3"], "--model.graph.filters"),
        (["--model.graph", "MLP", "--model.graph.filters", "3"], "--model.graph.filters"),
        (["--data.pre_proc.processors.0.max_shift", "-1"], "max_shift is -1"),
    ],
)
def test_mistakes_are_one_line(
    flags: list[str], message: str, tmp_path: Path, run_command: Callable[..., CommandResult]
) -> None:
    result = run_command("train", FULL, "--trainer.output_dir", tmp_path / "run", *flags)
    assert result.rc == 2, result
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_chosen_dataset_reaches_the_generators(tmp_path: Path, run_command: Callable[..., CommandResult]) -> None:
    nowhere = "http://127.0.0.1:9"
    proxies = {name: nowhere for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")}
    result = run_command(
        *("train", FULL, "--trainer.output_dir", tmp_path / "run", "--data.dataset", "fashion_mnist"),
        env={"KERAS_HOME": str(tmp_path / "keras"), "no_proxy": "", **proxies},
    )
    assert result.rc == 2, result
    assert "the data set 'fashion_mnist' is not in Keras' cache" in result.stderr.splitlines()[-1]
    assert not (tmp_path / "run").exists()
