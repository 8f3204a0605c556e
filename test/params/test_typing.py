"""Type checkers understand params classes: a mistake in a declaration or a call is an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from test.support.commands import REPOSITORY

SCENARIO = """
from tfaip import DataBaseParams, option

class LineData(DataBaseParams):
    height: int = option(16, "Height in pixels", low=1)
    rate: float = option(1, "Rate")
    units: list[int] = [48]
    lines: list[str] = option(factory=lambda: ["a"])
    name: str | None = option(None, "Name")

class Higher(LineData):
    height = 32
    more: int = 3

higher: Higher = Higher.from_json(Higher(height=4, more=2).to_json())
units: list[int] = higher.units

class Wrong(DataBaseParams):
    height: int = option("16", "Height in pixels", low=1)
    units: list[int] = ["a"]
    width: int = option(3, lo=1)

Wrong(height="3")
Wrong(hight=3)
Wrong().heigt = 3
Wrong().height = "3"
"""


@pytest.mark.slow
def test_wrong_types_names_and_limits_are_errors_and_right_ones_are_not(tmp_path: Path) -> None:
    (tmp_path / "scenario.py").write_text(SCENARIO)
    config = ["--config-file", str(REPOSITORY / "pyproject.toml"), "--cache-dir", str(tmp_path / "cache")]
    command = [sys.executable, "-m", "mypy", *config, "--no-error-summary", "scenario.py"]
    environment = {**os.environ, "MYPYPATH": str(REPOSITORY)}
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert result.returncode == 1, result
    lines = [line for line in result.stdout.splitlines() if ": error: " in line]
    assert [f"{line.split(':')[1]} {line.rpartition('[')[2].rstrip(']')}" for line in lines] == [
        *("19 assignment", "20 list-item", "21 call-arg"),
        *("23 arg-type", "24 call-arg", "25 attr-defined", "26 assignment"),
    ]
