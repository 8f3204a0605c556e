"""What the documentation shows is run: files are written as shown, commands are typed as shown."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from test.support.commands import REPOSITORY, finish_command, run_several, start_python

DOCS = REPOSITORY / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [
    "command_line.md",
    "data.md",
    "devices.md",
    "evaluation.md",
    "optimizer.md",
    "python.md",
    "scenario.md",
    "training.md",
    "warm_start.md",
]
FILE_NAME = re.compile(r"# (\S+\.(?:py|yaml))\n")


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of one language."""
    return [code for found, code in BLOCK.findall((DOCS / page).read_text()) if found == language]


def write_files(page: str, directory: Path) -> None:
    """Write the blocks that begin with a comment that is a file name."""
    for code in blocks(page, "python") + blocks(page, "yaml"):
        if named := FILE_NAME.match(code):
            path = directory / named[1]
            path.parent.mkdir(exist_ok=True)
            path.write_text(code)
            if path.suffix == ".py":
                (path.parent / "__init__.py").touch()


def commands(page: str) -> list[list[str]]:
    """The commands of all shell blocks as arguments of the `run_command` fixture."""
    lines = [shlex.split(line) for code in blocks(page, "shell") for line in code.splitlines()]
    return [[name.removeprefix("tfaip-").replace("-", "_"), *arguments] for name, *arguments in lines]


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page(page: str, tmp_path: Path) -> None:
    write_files(page, tmp_path)
    assert commands(page)
    result = run_several(commands(page), cwd=tmp_path)
    assert result.rc == 0, result
    assert "warning: " not in result.stdout + result.stderr, result
    for script in sorted(tmp_path.glob("*.py")):
        result = finish_command(start_python(script, cwd=tmp_path))
        assert result.rc == 0, f"{script}\n{result}"


def test_python_of_the_scenario_page(tmp_path: Path) -> None:
    write_files("scenario.md", tmp_path)
    (code,) = (code for code in blocks("scenario.md", "python") if not FILE_NAME.match(code))
    result = finish_command(start_python("-c", code, cwd=tmp_path))
    assert result.rc == 0, result
    assert "val_acc" in result.stdout
    assert not (tmp_path / "runs").exists()


def test_the_table_of_commands_is_complete() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    listed = re.findall(r"^\| `(tfaip-[\w-]+)", (DOCS / "command_line.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(project["scripts"])


def test_tables_of_rates_come_after_their_unit() -> None:
    text = (DOCS / "learning_rate.md").read_text()
    assert 0 < text.index("in units of 0.001") < text.index("\n| rate | ")


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_files_that_a_page_names_exist(page: str) -> None:
    text = re.sub(BLOCK, "", (DOCS / page).read_text())
    named = re.findall(r"`((?:tfaip|examples|docs|benchmarks|test)/[\w/.]+)`", text)
    assert [name for name in named if not (REPOSITORY / name).exists()] == []
