"""The JAX backend where TensorFlow is not installed."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from test.support.commands import REPOSITORY, CommandResult, finish_command, start_python
from test.support.runs import copy_tiny, printed_epochs, result_lines


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All installed packages but TensorFlow."""
    directory = tmp_path_factory.mktemp("packages")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.lower().startswith("tensorflow"):
            (directory / entry.name).symlink_to(entry)
    return directory


def run_without(packages: Path, *args: str | Path, cwd: Path | None = None, backend: str = "jax") -> CommandResult:
    env = {"KERAS_BACKEND": backend, "PYTHONPATH": f"{REPOSITORY}:{packages}"}
    return finish_command(start_python("-S", *args, cwd=cwd, env=env))


@pytest.mark.slow
def test_it_trains_validates_and_resumes(packages: Path, tmp_path: Path) -> None:
    assert "No module named 'tensorflow'" in run_without(packages, "-c", "import tensorflow").stderr
    workplace, run = copy_tiny(tmp_path), tmp_path / "run"
    train = ["-m", "tfaip.scripts.train", "tiny", "--trainer.output_dir", run, "--trainer.epochs", "1"]
    result = run_without(packages, *train, "--trainer.lav_every_n", "1", "--trainer.calc_ema", "0.9", cwd=workplace)
    assert (result.rc, result.stderr) == (0, ""), result
    assert "lav_l0_loss" in result_lines(run)[0][1]
    resume = ["-m", "tfaip.scripts.resume_training", run, "--trainer.epochs", "2"]
    result = run_without(packages, *resume, cwd=workplace)
    assert (result.rc, result.stderr) == (0, ""), result
    assert printed_epochs(result.stdout) == [2]


@pytest.mark.parametrize(
    ("backend", "flags", "message"),
    [
        pytest.param(
            "jax",
            ["--scenario.export_serve", "True"],
            "exporting a SavedModel needs tensorflow, which is not installed",
            marks=pytest.mark.slow,
        ),
        ("tensorflow", [], "the Keras backend 'tensorflow' cannot be imported"),
    ],
)
def test_what_needs_it_says_so(packages: Path, tmp_path: Path, backend: str, flags: list[str], message: str) -> None:
    run = tmp_path / "run"
    train = ["-m", "tfaip.scripts.train", "tiny", "--trainer.output_dir", run, *flags]
    result = run_without(packages, *train, cwd=copy_tiny(tmp_path), backend=backend)
    assert result.rc == 2, result
    assert result.stderr.startswith(f"error: {message}")
    assert not run.exists()
