"""The examples train as their READMEs say, and are as short as they promise to be."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from test.support.commands import REPOSITORY, finish_command, run_several, start_module, start_python
from tfaip.model.weights import load_weights_of

EXAMPLES = REPOSITORY / "examples"


def test_an_example_is_short() -> None:
    limits = {"template/my_scenario": 60, "wine/wine": 30, "images/images": 70, "lines/lines": 130, "text/text": 110}
    packages = {EXAMPLES / name: limit for name, limit in {**limits, "tabular/tabular": 110}.items()}
    for package, limit in {REPOSITORY / "tfaip" / "scenario" / "tutorial" / "min": 50, **packages}.items():
        text = "\n".join(path.read_text() for path in package.rglob("*.py"))
        assert 0 < sum(bool(line.strip()) for line in text.splitlines()) <= limit, package


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


def values_of(run: Path, name: str) -> list[float]:
    """A value of the epochs of a run."""
    return [record["values"][name] for record in json.loads((run / "history.json").read_text()).values()]


def stored_data(copy: Path) -> Any:
    """The params of the data of the best model of an example, which it needs without the data."""
    stored = json.loads((copy / "runs" / copy.name / "best" / "scenario_params.json").read_text())
    return stored["data"]


@pytest.mark.series
@pytest.mark.backend
def test_wine_images_and_tables(tmp_path: Path) -> None:
    wine = run_readme("wine", tmp_path)
    values = values_of(wine / "runs" / "wine", "val_acc")
    assert len(values) == 20
    assert max(values) >= 0.93
    manifest = json.loads((wine / "runs" / "wine" / "best" / "training_data.json").read_text())
    assert manifest["gen"]["val"]["first"] == 1
    tabular = run_readme("tabular", tmp_path)
    # The median of the training for all has 64.8.
    assert min(values_of(tabular / "runs" / "tabular", "lav_l0_mae")) <= 46
    assert len(stored_data(tabular)["mean"]) == len(stored_data(tabular)["stddev"]) == 10
    pytest.importorskip("PIL")
    images = run_readme("images", tmp_path)
    assert max(values_of(images / "runs" / "images", "val_acc")) >= 0.95
    assert stored_data(images)["classes"] == [str(digit) for digit in range(10)]


@pytest.mark.series
@pytest.mark.backend
def test_lines(tmp_path: Path) -> None:
    copy = run_readme("lines", tmp_path)
    rates = values_of(copy / "runs" / "lines", "lav_l0_cer")
    assert rates[0] > rates[-1]
    assert min(rates) <= 0.01
    samples = [json.loads(line) for line in (copy / "predicted.jsonl").read_text().splitlines()]
    assert len(samples) == 200
    assert sum(sample["outputs"]["text"] == sample["meta"]["text"] for sample in samples) >= 190


@pytest.mark.series
@pytest.mark.backend
def test_a_backbone_from_a_file(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    runs = run_readme("images", tmp_path, block=1) / "runs"
    transfer, fresh = (max(values_of(runs / name, "val_acc")) for name in ("transfer", "fresh"))
    assert transfer >= max(0.82, fresh + 0.03)


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
def test_text(tmp_path: Path) -> None:
    copy = run_readme("text", tmp_path)
    assert max(values_of(copy / "runs" / "text", "lav_l0_f1")) >= 0.98
    # The model has its words without the folder.
    words = copy / "runs" / "text" / "best" / "resources" / Path(stored_data(copy)["vocabulary"]).name
    assert len(words.read_text().split("\n")) == 2001
    assert (copy / "lines.svg").read_text().count("<text ") == 24
    samples = [json.loads(line) for line in (copy / "predicted.jsonl").read_text().splitlines()]
    pairs = [zip(sample["outputs"]["tags"], sample["meta"]["tags"], strict=True) for sample in samples]
    right = [tag == truth for both in pairs for tag, truth in both]
    assert len(samples) == 1000
    assert sum(right) / len(right) >= 0.98


# What writes the data of an example, and the number of its tests; two have a second scenario, with a test of its own.
DATA = {"images": ["make_digits.py", "digits"], "text": ["make_code.py", "code"]}
DATA["tabular"] = ["make_patients.py", "patients"]


@pytest.mark.series
@pytest.mark.backend
@pytest.mark.parametrize(("name", "number"), [("wine", 6), ("tabular", 6), ("images", 14), ("lines", 13), ("text", 6)])
def test_the_tests_of_an_example(name: str, number: int, tmp_path: Path) -> None:
    copy = copy_of(name, tmp_path)
    if name == "images":
        pytest.importorskip("PIL")
    if name in DATA:
        made = finish_command(start_python(*DATA[name], cwd=copy))
        assert made.rc == 0, made
    result = finish_command(start_module("unittest", cwd=copy))
    assert result.rc == 0, result
    assert f"Ran {number} tests in " in result.stderr


@pytest.mark.slow
def test_the_template(tmp_path: Path) -> None:
    copy = run_readme("template", tmp_path)
    # Of 5000 points a network learns to tell equal signs almost perfectly; guessing gives 0.5.
    assert max(values_of(copy / "runs" / "second", "val_acc")) > 0.95


# So little training that only its way is tested.
SHORT = [
    *("--trainer.epochs", "1", "--trainer.export_final", "False", "--trainer.skip_model_load_test", "True"),
    *("--scenario.export_serve", "False"),
]


def kernels_of(file: Path) -> list[np.ndarray]:
    """All kernels of convolutions in a file of Keras."""
    found: list[np.ndarray] = []

    def add(_: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and len(item.shape) == 4:
            found.append(np.array(item))

    with h5py.File(file) as opened:
        opened.visititems(add)
    return found


@pytest.mark.slow
@pytest.mark.backend
def test_a_frozen_backbone_keeps_the_weights_of_its_file(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    copy = copy_of("images", tmp_path)
    process = start_module("make_backbone", "backbone.weights.h5", "20", "1", cwd=copy)
    made = finish_command(start_python("make_digits.py", "digits", cwd=copy))
    assert made.rc == 0, made
    trained = finish_command(process)
    assert trained.rc == 0, trained
    flags = ["--data.folder", "digits", "--train.per_class", "1", "--val.limit", "4"]
    frozen = ["--model.backbone", "backbone.weights.h5", "--trainer.no_train_scope", "backbone"]
    result = run_several([["train", "transfer", *flags, *frozen, "--trainer.output_dir", "run", *SHORT]], cwd=copy)
    assert result.rc == 0, result
    found = [array for array in load_weights_of(copy / "run" / "best").values() if array.ndim == 4]
    given = kernels_of(copy / "backbone.weights.h5")
    assert len(found) == len(given) == 4
    for kernel in given:
        assert any(np.array_equal(kernel, other) for other in found)
