"""Runs that many tests compare with, made once per test session: read them, or copy them."""

import contextlib
import importlib
import json
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from test.support.commands import CommandResult
from test.support.runs import copy_tiny, make_once, run_well
from test.support.trained import tutorial as tutorial

SEED = ("--trainer.random_seed", "7")


@pytest.fixture(autouse=True)
def _no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands leave no `__pycache__` where a test looks for what they wrote."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


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


@pytest.fixture
def run(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., CommandResult]]:
    """`run("lav", *args, cwd=)` in this process (default: in an empty directory): rc, stdout, stderr.

    As after a process, its modules and its search path are gone.
    """
    monkeypatch.chdir(tmp_path)
    root = logging.getLogger("tfaip")
    before = (root.level, root.propagate, list(root.handlers))

    def run_one(command: str, *args: Any, cwd: Path | None = None) -> CommandResult:
        main = importlib.import_module(f"tfaip.scripts.{command}").main
        path, modules = sys.path[:], set(sys.modules)
        capfd.readouterr()
        with contextlib.chdir(cwd or Path.cwd()):
            try:
                code = main([*map(str, args)])
            except SystemExit as end:
                code = int(end.code or 0)
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(tempfile.gettempdir()):
                del sys.modules[name]
        return CommandResult(code, *capfd.readouterr())

    yield run_one
    root.level, root.propagate, root.handlers = before


def well(result: CommandResult) -> str:
    """The output of a command that succeeded and has nothing to complain about."""
    assert (result.rc, result.stderr) == (0, ""), result
    return result.stdout


def refused(result: CommandResult, *fragments: str, code: int = 2) -> None:
    """The command ended with this code and one line that holds all fragments."""
    assert result.rc == code, result
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: "), result
    assert [fragment for fragment in fragments if fragment not in line] == [], line


def read_params(run: Path) -> dict:
    """The stored trainer params of a run."""
    return json.loads((run / "trainer_params.json").read_text())
