"""Config files, and a module that files must not name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Write = Callable[[str, str], str]

MODULE = """
import pathlib
from dataclasses import dataclass
pathlib.Path(__file__).with_name("marker").touch()
from tfaip.params import pai_dataclass
from tfaip.trainer.optimizer import SGDOptimizer

@pai_dataclass
@dataclass
class Mine(SGDOptimizer):
    pass

def halve(rate):
    return rate / 2
"""


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory on the path with a module that leaves a marker when it is imported."""
    (tmp_path / "foreign.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("foreign", None)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a config file into the working directory; returns its name."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, text: str) -> str:
        Path(name).write_text(text)
        return name

    return write_file
