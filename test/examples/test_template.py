"""The scenario skeleton trains as its README says."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from test.support.commands import REPOSITORY, run_several

TEMPLATE = REPOSITORY / "examples" / "template"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the template, as a user makes one."""
    shutil.copytree(TEMPLATE, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "copy"


@pytest.mark.slow
def test_commands_of_the_readme(copied: Path) -> None:
    lines = re.findall(r"^tfaip-train (.*)$", (copied / "README.md").read_text(), re.MULTILINE)
    assert len(lines) == 3
    result = run_several([["train", *line.split()] for line in lines], cwd=copied)
    assert result.rc == 0, result
    history = json.loads((copied / "runs" / "second" / "history.json").read_text())
    # Of 5000 points a network learns to tell equal signs almost perfectly; guessing gives 0.5.
    assert max(epoch["values"]["val_acc"] for epoch in history.values()) > 0.95


def test_readme_lists_the_files() -> None:
    listed = re.findall(r"^\| `(\w+\.py)`", (TEMPLATE / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(
        path.name for path in (TEMPLATE / "my_scenario").glob("*.py") if path.name != "__init__.py"
    )
