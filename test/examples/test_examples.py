"""The examples train as their READMEs say, and are as short as they promise to be."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from test.support.commands import REPOSITORY, finish_command, run_several, start_python

EXAMPLES = REPOSITORY / "examples"
TUTORIALS = REPOSITORY / "tfaip" / "scenario" / "tutorial"


def non_empty_lines(package: Path) -> int:
    return sum(bool(line.strip()) for path in package.rglob("*.py") for line in path.read_text().splitlines())


@pytest.mark.parametrize(
    ("package", "limit"),
    [
        (TUTORIALS / "min", 50),
        (EXAMPLES / "template" / "my_scenario", 60),
        (EXAMPLES / "wine" / "wine", 30),
        (EXAMPLES / "folder" / "folder", 70),
        (EXAMPLES / "lines" / "lines", 130),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_an_example_is_short(package: Path, limit: int) -> None:
    assert 0 < non_empty_lines(package) <= limit


def run_readme(name: str, directory: Path) -> dict[str, dict[str, float]]:
    """Run the commands of a README on a copy of the example; return the values of the epochs of its run."""
    copy = directory / name
    shutil.copytree(EXAMPLES / name, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (block,) = re.findall(r"^```shell\n(.*?)^```$", (copy / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    commands = [shlex.split(line) for line in block.splitlines()]
    if commands[0][0] == "python":
        made = finish_command(start_python(*commands.pop(0)[1:], cwd=copy))
        assert made.rc == 0, made
    words = [[name.removeprefix("tfaip-").replace("-", "_"), *arguments] for name, *arguments in commands]
    result = run_several(words, cwd=copy)
    assert result.rc == 0, result
    history = json.loads((copy / "runs" / name / "history.json").read_text())
    return {epoch: record["values"] for epoch, record in history.items()}


@pytest.mark.series
@pytest.mark.backend
def test_wine(tmp_path: Path) -> None:
    values = run_readme("wine", tmp_path)
    assert len(values) == 20
    assert max(record["val_acc"] for record in values.values()) >= 0.93
    manifest = json.loads((tmp_path / "wine" / "runs" / "wine" / "best" / "training_data.json").read_text())
    assert manifest["gen"]["val"]["first"] == 1


@pytest.mark.series
@pytest.mark.backend
def test_folder(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    values = run_readme("folder", tmp_path)
    assert max(record["val_acc"] for record in values.values()) >= 0.95
    # The model knows its classes without the folder.
    stored = json.loads((tmp_path / "folder" / "runs" / "folder" / "best" / "scenario_params.json").read_text())
    assert stored["data"]["classes"] == [str(digit) for digit in range(10)]


@pytest.mark.series
@pytest.mark.backend
def test_lines(tmp_path: Path) -> None:
    values = run_readme("lines", tmp_path)
    rates = [record["lav_l0_cer"] for record in values.values()]
    assert rates[0] > rates[-1]
    assert min(rates) <= 0.01
    lines = (tmp_path / "lines" / "predicted.jsonl").read_text().splitlines()
    samples = [json.loads(line) for line in lines]
    assert len(samples) == 200
    right = [sample["outputs"]["text"] == sample["meta"]["text"] for sample in samples]
    assert sum(right) >= 190


@pytest.mark.series
@pytest.mark.backend
@pytest.mark.parametrize("name", ["wine", "folder", "lines"])
def test_the_tests_of_an_example(name: str, tmp_path: Path) -> None:
    copy = tmp_path / name
    shutil.copytree(EXAMPLES / name, copy, ignore=shutil.ignore_patterns("__pycache__"))
    if name == "folder":
        pytest.importorskip("PIL")
        made = finish_command(start_python("make_digits.py", "digits", cwd=copy))
        assert made.rc == 0, made
    result = finish_command(start_python("-m", "unittest", cwd=copy))
    assert result.rc == 0, result
    assert "Ran 6 tests in " in result.stderr
