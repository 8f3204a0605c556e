"""Files that an older version of tfaip wrote (`test/data/older/write.py`) load, and give the values of that version."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest

from test.events.test_writer import scalars
from test.support.commands import REPOSITORY
from test.support.runs import latest
from tfaip.params import ParamsBase
from tfaip.params.names.oldnames import REMOVED_FIELDS, RENAMED_CLASSES
from tfaip.params.values.serialization import from_dict, to_dict

OLDER = REPOSITORY / "test" / "data" / "older"
CLASSES = json.loads((OLDER / "classes.json").read_text())
STORED_PARAMS = [
    "export/scenario_params.json",
    *("run_tensorflow/trainer_params.json", "run_jax/trainer_params.json"),
    *("run_tensorflow/best/scenario_params.json", "run_jax/best/scenario_params.json"),
]
# The same computations in float32; another processor or backend adds in another order.
ROUNDING = 1e-4
# The runs have noise on their gradients (0.01), whose numbers come from another generator today.
OTHER_NOISE = 5e-4

Run = Callable[..., tuple[int, str, str]]


def unpack(name: str, directory: Path) -> Path:
    """Unpack a run into a directory, where it may be changed."""
    with tarfile.open(OLDER / f"{name}.tar.xz") as archive:
        archive.extractall(directory, filter="data")
    return directory / name


def read(name: str) -> Any:
    """Return what a JSON file holds that is not in an archive."""
    return json.loads((OLDER / name).read_text())


def without_modules(value: Any) -> Any:
    """Return params with the names of the classes alone, since classes may have moved, and by their names of today."""
    if isinstance(value, list):
        return [without_modules(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    found = {name: without_modules(entry) for name, entry in value.items()}
    for name in ("__cls__", "scenario_id"):
        if isinstance(found.get(name), str):
            found[name] = RENAMED_CLASSES.get(found[name], found[name]).rpartition(":")[2]
    for name in REMOVED_FIELDS.get(found.get("__cls__", ""), ()):
        found.pop(name, None)
    return found


def without_added(value: Any, stored: Any) -> Any:
    """Return params without the fields that a newer version has added."""
    if isinstance(value, list) and isinstance(stored, list) and len(value) == len(stored):
        return [without_added(*pair) for pair in zip(value, stored, strict=True)]
    if not (isinstance(value, dict) and isinstance(stored, dict)):
        return value
    return {name: without_added(entry, stored[name]) for name, entry in value.items() if name in stored}


def assert_holds(params: ParamsBase, stored: Any) -> None:
    """The params are those that are stored."""
    expected = without_modules(stored)
    assert without_added(without_modules(to_dict(params)), expected) == expected


def history_of(run: Path) -> dict[str, dict[str, float]]:
    records = json.loads((run / "history.json").read_text())
    return {epoch: {"lr": record["lr"], **record["values"]} for epoch, record in records.items()}


def assert_same_values(values: dict[str, dict[str, float]], expected: dict[str, dict[str, float]]) -> None:
    assert list(values) == list(expected)
    for epoch, record in expected.items():
        assert values[epoch] == pytest.approx(record, rel=OTHER_NOISE), epoch


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_of_params_is_found(name: str) -> None:
    params = from_dict(ParamsBase, CLASSES[name])
    assert type(params).__name__ == RENAMED_CLASSES.get(name, name).rpartition(":")[2]
    assert_holds(params, CLASSES[name])


@pytest.mark.parametrize("name", STORED_PARAMS)
def test_stored_params_read_back_equal(name: str, tmp_path: Path) -> None:
    top = name.partition("/")[0]
    place = OLDER if (OLDER / top).is_dir() else unpack(top, tmp_path).parent
    stored = json.loads((place / name).read_text())
    about_the_file = {"__version__": stored.pop("__version__"), "__tfaip__": stored.pop("__tfaip__")}
    assert about_the_file == {"__version__": 1, "__tfaip__": "2.0.0.dev0"}
    assert_holds(from_dict(ParamsBase, stored), stored)


@pytest.mark.backend
def test_a_stopped_run_ends_as_if_it_had_not_been_stopped(run: Run, tmp_path: Path) -> None:
    name = f"run_{keras.backend.backend()}"
    copy, expected = unpack(name, tmp_path), read(f"{name}.json")
    before = json.loads((copy / "history.json").read_text())
    code, out, err = run("resume_training", name)
    assert (code, err) == (0, "")
    assert "resuming in epoch 3, after 4 batches" in out.splitlines()
    assert "changed" not in out
    assert latest(copy) == "epoch_0004"
    assert_same_values(history_of(copy), expected["history"])
    # Not computed again, but kept.
    after = json.loads((copy / "history.json").read_text())
    assert {epoch: after[epoch] for epoch in before} == before
    logged = {str(step): loss for step, loss in scalars(copy / "validation", "loss")}
    losses = {epoch: record["val_loss"] for epoch, record in expected["history"].items()}
    assert logged == pytest.approx(losses, rel=OTHER_NOISE)
    assert run("lav", "--export_dir", name, "--out", "lav.json")[0] == 0
    results = json.loads(Path("lav.json").read_text())["results"]["lav_l0"]
    assert results == pytest.approx(expected["lav_of_best"], rel=OTHER_NOISE)


@pytest.mark.backend
def test_a_stopped_run_of_the_other_backend_continues(run: Run, tmp_path: Path) -> None:
    ours = keras.backend.backend()
    (theirs,) = {"tensorflow", "jax"} - {ours}
    name = f"run_{theirs}"
    copy = unpack(name, tmp_path)
    before = history_of(copy)
    code, out, err = run("resume_training", name)
    assert code == 0, err
    assert f"the checkpoint was written on {theirs} and continues on {ours}: equal only up to rounding" in out + err
    found = history_of(copy)
    assert list(found) == ["1", "2", "3", "4"]
    assert {epoch: found[epoch] for epoch in ("1", "2")} == before


@pytest.mark.backend
def test_an_exported_model_has_its_values(run: Run) -> None:
    code, _, err = run("lav", "--export_dir", OLDER / "export", "--out", "lav.json")
    assert (code, err) == (0, "")
    results = json.loads(Path("lav.json").read_text())["results"]["lav_l0"]
    assert results == pytest.approx(read("export.json"), rel=ROUNDING)
