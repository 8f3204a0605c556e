"""The examples train as their READMEs say, and are as short as they promise to be."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from test.support.commands import REPOSITORY, finish_command, run_several, start_module, start_python

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
        (EXAMPLES / "images" / "images", 70),
        (EXAMPLES / "lines" / "lines", 130),
        (EXAMPLES / "text" / "text", 110),
        (EXAMPLES / "tabular" / "tabular", 110),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_an_example_is_short(package: Path, limit: int) -> None:
    assert 0 < non_empty_lines(package) <= limit


def copy_of(name: str, directory: Path) -> Path:
    """Copy an example, without the pictures that its commands draw."""
    return Path(
        shutil.copytree(EXAMPLES / name, directory / name, ignore=shutil.ignore_patterns("__pycache__", "*.svg"))
    )


def run_readme(name: str, directory: Path, block: int = 0) -> Path:
    """Run the commands of a block of a README on a copy of the example; return its directory."""
    copy = copy_of(name, directory)
    blocks = re.findall(r"^```shell\n(.*?)^```$", (copy / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    commands = [shlex.split(line) for line in blocks[block].splitlines()]
    scripts = [words[1:] for words in commands if words[0] == "python"]
    commands = [words for words in commands if words[0] != "python"]
    while scripts and scripts[0][0].startswith("make_"):  # what the commands need
        made = finish_command(start_python(*scripts.pop(0), cwd=copy))
        assert made.rc == 0, made
    words = [[name.removeprefix("tfaip-").replace("-", "_"), *arguments] for name, *arguments in commands]
    result = run_several(words, cwd=copy)
    assert result.rc == 0, result
    for script in scripts:
        drawn = finish_command(start_python(*script, cwd=copy))
        assert drawn.rc == 0, drawn
        assert (copy / script[-1]).read_text().endswith("</svg>\n")
    return copy


def values_of(run: Path) -> list[dict[str, float]]:
    """The values of the epochs of a run."""
    return [record["values"] for record in json.loads((run / "history.json").read_text()).values()]


@pytest.mark.series
@pytest.mark.backend
def test_wine(tmp_path: Path) -> None:
    values = values_of(run_readme("wine", tmp_path) / "runs" / "wine")
    assert len(values) == 20
    assert max(record["val_acc"] for record in values) >= 0.93
    manifest = json.loads((tmp_path / "wine" / "runs" / "wine" / "best" / "training_data.json").read_text())
    assert manifest["gen"]["val"]["first"] == 1


@pytest.mark.series
@pytest.mark.backend
def test_images(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    values = values_of(run_readme("images", tmp_path) / "runs" / "images")
    assert max(record["val_acc"] for record in values) >= 0.95
    # The model knows its classes without the folder.
    stored = json.loads((tmp_path / "images" / "runs" / "images" / "best" / "scenario_params.json").read_text())
    assert stored["data"]["classes"] == [str(digit) for digit in range(10)]


@pytest.mark.series
@pytest.mark.backend
def test_lines(tmp_path: Path) -> None:
    values = values_of(run_readme("lines", tmp_path) / "runs" / "lines")
    rates = [record["lav_l0_cer"] for record in values]
    assert rates[0] > rates[-1]
    assert min(rates) <= 0.01
    lines = (tmp_path / "lines" / "predicted.jsonl").read_text().splitlines()
    samples = [json.loads(line) for line in lines]
    assert len(samples) == 200
    right = [sample["outputs"]["text"] == sample["meta"]["text"] for sample in samples]
    assert sum(right) >= 190


@pytest.mark.series
@pytest.mark.backend
def test_a_backbone_from_a_file(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    runs = run_readme("images", tmp_path, block=1) / "runs"
    transfer, fresh = (max(record["val_acc"] for record in values_of(runs / name)) for name in ("transfer", "fresh"))
    assert transfer >= 0.82
    assert transfer >= fresh + 0.03


@pytest.mark.series
@pytest.mark.backend
def test_handwritten_lines_and_their_vote(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    copy = run_readme("lines", tmp_path, block=1)
    results = json.loads((copy / "votes.json").read_text())["results"]["lav_l0"]
    voted = results.pop("voted")["cer"]
    rates = [values["cer"] for values in results.values()]
    assert len(rates) == 3
    assert max(rates) <= 0.05
    assert voted < max(rates)


@pytest.mark.series
@pytest.mark.backend
def test_tabular(tmp_path: Path) -> None:
    values = values_of(run_readme("tabular", tmp_path) / "runs" / "tabular")
    # The median of the training for all has 64.8.
    assert min(record["lav_l0_mae"] for record in values) <= 46
    stored = json.loads((tmp_path / "tabular" / "runs" / "tabular" / "best" / "scenario_params.json").read_text())
    assert len(stored["data"]["mean"]) == len(stored["data"]["stddev"]) == 10


@pytest.mark.series
@pytest.mark.backend
def test_text(tmp_path: Path) -> None:
    values = values_of(run_readme("text", tmp_path) / "runs" / "text")
    assert max(record["lav_l0_f1"] for record in values) >= 0.98
    # The model has its words without the folder.
    best = tmp_path / "text" / "runs" / "text" / "best"
    stored = json.loads((best / "scenario_params.json").read_text())
    words = (best / "resources" / Path(stored["data"]["vocabulary"]).name).read_text().split("\n")
    assert len(words) == 2001
    picture = (tmp_path / "text" / "lines.svg").read_text()
    assert picture.count("<text ") == 24
    samples = [json.loads(line) for line in (tmp_path / "text" / "predicted.jsonl").read_text().splitlines()]
    pairs = [zip(sample["outputs"]["tags"], sample["meta"]["tags"], strict=True) for sample in samples]
    right = [tag == truth for both in pairs for tag, truth in both]
    assert len(samples) == 1000
    assert sum(right) / len(right) >= 0.98


@pytest.mark.series
@pytest.mark.backend
@pytest.mark.parametrize("name", ["wine", "tabular", "images", "lines", "text"])
def test_the_tests_of_an_example(name: str, tmp_path: Path) -> None:
    copy = copy_of(name, tmp_path)
    if name == "images":
        pytest.importorskip("PIL")
    data = {
        "images": ["make_digits", "digits"],
        "text": ["make_code", "code"],
        "tabular": ["make_patients", "patients"],
    }
    if name in data:
        script, folder = data[name]
        made = finish_command(start_python(f"{script}.py", folder, cwd=copy))
        assert made.rc == 0, made
    result = finish_command(start_module("unittest", cwd=copy))
    assert result.rc == 0, result
    # Two examples have a second scenario, with a test of its own.
    number = {"images": 14, "lines": 13}.get(name, 6)
    assert f"Ran {number} tests in " in result.stderr
