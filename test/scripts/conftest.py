"""Runs that many tests compare with, made once per test session: read them, or copy them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from test.support.runs import copy_tiny, make_once, run_well

SEED = ("--trainer.random_seed", "7")


@pytest.fixture(autouse=True)
def _no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands leave no `__pycache__` where a test looks for what they wrote."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the package `tiny`, where commands can be started."""
    return make_once(tmp_path_factory, "workplace", lambda path: (copy_tiny(path), None)[1])


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory, workplace: Path) -> Path:
    """Directory with `run/`, four epochs of the tiny scenario without interruption, and `stdout`."""

    def make(path: Path) -> None:
        result = run_well("train", "tiny", "--trainer.output_dir", path / "run", *SEED, cwd=workplace)
        (path / "stdout").write_text(result.stdout)

    return make_once(tmp_path_factory, "whole", make)


@pytest.fixture(scope="session")
def half_original(tmp_path_factory: pytest.TempPathFactory, workplace: Path) -> Path:
    """Directory with `run/`, two epochs of the same, which also saved within its epochs."""

    def make(path: Path) -> None:
        flags = [*SEED, "--trainer.epochs", "2", "--trainer.checkpoint_save_freq", "3"]
        run_well("train", "tiny", "--trainer.output_dir", path / "run", *flags, cwd=workplace)

    return make_once(tmp_path_factory, "half", make)


@pytest.fixture
def half(half_original: Path, tmp_path: Path) -> Path:
    """A copy of the two epochs, moved to another place, to continue."""
    return Path(shutil.copytree(half_original / "run", tmp_path / "half"))


def read_params(run: Path) -> dict:
    """The stored trainer params of a run."""
    return json.loads((run / "trainer_params.json").read_text())
