"""Type checkers understand params classes: a mistake in a declaration or a call is an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from test.support.commands import REPOSITORY

RIGHT = """
from tfaip import DataBaseParams, option
from tfaip.params import ParamsBase


class Tone(ParamsBase):
    frequency: int = 440


class LineData(DataBaseParams):
    height: int = option(16, "Height in pixels", low=1)
    rate: float = option(1, "Rate")
    alphabet: str = "0123456789"
    units: list[int] = [48]
    tones: list[Tone] = option(factory=lambda: [Tone(3)])
    name: str | None = option(None, "Name")


class Higher(LineData):
    height = 32
    more: int = 3


data = LineData(height=3, alphabet="ab")
data.height = 4
units: list[int] = data.units
higher = Higher(height=4, more=2)
again: Higher = Higher.from_json(higher.to_json())
"""

WRONG = """
from tfaip import DataBaseParams, option


class LineData(DataBaseParams):
    height: int = option("16", "Height in pixels", low=1)
    units: list[int] = ["a"]
    width: int = option(3, lo=1)


LineData(height="3")
LineData(hight=3)
LineData().heigt = 3
LineData().height = "3"
"""


def check(directory: Path, *targets: str) -> list[str]:
    """Return line and kind of the errors that mypy finds in `scenario.py`, with the settings of the repository."""
    config = ["--config-file", str(REPOSITORY / "pyproject.toml"), "--cache-dir", str(directory / "cache")]
    command = [sys.executable, "-m", "mypy", *config, "--no-error-summary", *targets]
    environment = {**os.environ, "MYPYPATH": str(REPOSITORY)}
    result = subprocess.run(command, capture_output=True, text=True, cwd=directory, env=environment, check=False)
    assert result.returncode in (0, 1), result
    lines = [line for line in result.stdout.splitlines() if ": error: " in line]
    assert all("scenario.py:" in line for line in lines), lines
    return [f"{line.split(':')[1]} {line.rpartition('[')[2].rstrip(']')}" for line in lines]


@pytest.mark.slow
def test_wrong_types_names_and_limits_are_errors_and_right_ones_are_not(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "scenario.py").write_text(WRONG)
    assert check(tmp_path, "right.py", "scenario.py") == [
        "6 assignment",
        "7 list-item",
        "8 call-arg",
        "11 arg-type",
        "12 call-arg",
        "13 attr-defined",
        "14 assignment",
    ]
