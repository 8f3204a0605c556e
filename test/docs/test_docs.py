"""What the documentation shows is run: files are written as shown, commands are typed as shown."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from test.support.commands import REPOSITORY, finish_command, run_several, start_module

DOCS = REPOSITORY / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [
    *("../README.md", "command_line.md", "data.md", "devices.md", "evaluation.md", "export.md", "layers.md"),
    *("long_form.md", "optimizer.md", "params.md", "scenario.md", "schedules.md", "sweeps.md", "training.md"),
    *("variable_length.md", "warm_start.md"),
]
FILE_NAME = re.compile(r"# (\S+\.(?:py|yaml|txt))(?:: .*)?\n")


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of one language."""
    return [code for found, code in BLOCK.findall((DOCS / page).read_text()) if found == language]


def write_files(page: str, directory: Path) -> None:
    """Write the blocks that begin with a comment that is a file name."""
    for code in [code for language in ("python", "yaml", "text") for code in blocks(page, language)]:
        if named := FILE_NAME.match(code):
            path = directory / named[1]
            path.parent.mkdir(exist_ok=True)
            path.write_text(code)
            if path.suffix == ".py":
                (path.parent / "__init__.py").touch()


def commands(page: str) -> list[list[str]]:
    """The commands of all shell blocks as arguments of the `run_command` fixture."""
    lines = [shlex.split(line) for code in blocks(page, "shell") for line in code.replace("\\\n", "").splitlines()]
    return [[name.removeprefix("tfaip-").replace("-", "_"), *arguments] for name, *arguments in lines]


# So little training that only its way is tested, unless the command says how much.
SHORT = {"--trainer.samples_per_epoch": "64", "--val.limit": "32", "--trainer.skip_model_load_test": "True"}
UNEXPORTED = {"--scenario.export_serve": "False", "--trainer.export_final": "False"}
# Their commands read what a training exports.
EXPORTING = ["evaluation.md", "export.md", "layers.md", "variable_length.md"]
# These say how much, or train nothing.
NOT_SHORTENED = {"--help", "--print_config", "--summary", "--trainer.profile", "--early_stopping.upper_threshold"}


def short_commands(page: str) -> list[list[str]]:
    """The commands of a page, with less training."""
    less = SHORT if page in EXPORTING else SHORT | UNEXPORTED
    return [shorten(command, less) for command in commands(page)]


def shorten(command: list[str], less: dict[str, str]) -> list[str]:
    if command[0] not in ("train", "train_from_params") or NOT_SHORTENED & set(command):
        return command
    return [*command, *[word for flag, value in less.items() if flag not in command for word in (flag, value)]]


def run_page(page: str, directory: Path, chosen: Sequence[list[str]]) -> None:
    """Run commands beside the files of a page, and those files that are scripts."""
    write_files(page, directory)
    result = run_several(chosen, cwd=directory)
    assert result.rc == 0, result
    assert "warning: " not in result.stdout + result.stderr, result
    for script in sorted(directory.glob("*.py")):
        result = finish_command(start_module(script.stem, cwd=directory))
        assert result.rc == 0, f"{script}\n{result}"


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page(page: str, tmp_path: Path) -> None:
    assert commands(page)
    if "onnx" in (DOCS / page).read_text():
        pytest.importorskip("tf2onnx")
    run_page(page, tmp_path, short_commands(page))


@pytest.mark.slow
def test_commands_of_the_quickstart(tmp_path: Path) -> None:
    write_files("quickstart.md", tmp_path)
    for script in ("plants", "split"):
        assert finish_command(start_module(script, cwd=tmp_path)).rc == 0
    result = run_several(commands("quickstart.md"), cwd=tmp_path)
    assert result.rc == 0, result
    header, *rows = (tmp_path / "predicted.csv").read_text().splitlines()
    assert header == "outputs/class,outputs/prob,meta/file,meta/line"
    assert [(row[:5], row[-9:]) for row in rows] == [("moss,", "new.csv,2"), ("reed,", "new.csv,3")]


@pytest.mark.slow
def test_the_session_of_the_python_page(tmp_path: Path) -> None:
    write_files("python.md", tmp_path)
    session = "\n".join(code for code in blocks("python.md", "python") if not FILE_NAME.match(code))
    (tmp_path / "session.py").write_text(session)
    result = finish_command(start_module("session", cwd=tmp_path))
    assert result.rc == 0, result
    printed = result.stdout.splitlines()
    assert "[64] [64]" in printed
    assert any(line.startswith("[1, 2] ['acc', ") for line in printed), printed
    assert "0.5 reached in epoch 1" in printed or "0.5 reached in epoch 2" in printed
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["mydigits", "session"]


@pytest.mark.slow
def test_the_tests_of_the_page_about_tests(tmp_path: Path) -> None:
    write_files("testing.md", tmp_path)
    result = finish_command(start_module("pytest", "-q", "test_more_digits.py", "-k", "evaluator", cwd=tmp_path))
    assert result.rc == 0, result
    assert "1 passed, 6 deselected" in result.stdout
    result = finish_command(start_module("test_digits", "TestDigits.test_params_can_be_stored", cwd=tmp_path))
    assert result.rc == 0, result
    assert "Ran 1 test in " in result.stderr


def test_the_tables_of_extras_and_commands_are_complete() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    table = (DOCS / "installation.md").read_text().partition("## Extras")[2].partition("## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(project["optional-dependencies"])
    # What scenarios of 1.2 import, and what shows profiles.
    required = (REPOSITORY / "requirements.txt").read_text().splitlines() + project["optional-dependencies"]["profile"]
    for name in ("paiargparse>=1.1.2", "tensorboard-plugin-profile"):
        assert any(line.startswith(name) for line in required)
    listed = re.findall(r"^\| `(tfaip-[\w-]+)", (DOCS / "command_line.md").read_text(), re.MULTILINE)
    assert sorted(set(listed)) == sorted(project["scripts"])


def test_files_that_pages_name_exist() -> None:
    for page in [*DOCS.glob("*.md"), *REPOSITORY.glob("*.md")]:
        text = re.sub(BLOCK, "", page.read_text())
        named = re.findall(r"`((?:tfaip|examples|docs|benchmarks|test)/[\w/.]+)`", text)
        assert [name for name in named if not (REPOSITORY / name).exists()] == [], page
    modules = re.findall(r"`(\w+/[\w/]+\.(?:py|txt))`", (DOCS / "architecture.md").read_text())
    assert [name for name in modules if not any((REPOSITORY / root / name).exists() for root in ("tfaip", "."))] == []
