"""The record of what was typed for a run: who may write it, how many there are, and what a damaged one permits."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from test.support.tiny.scenario import TinyScenario
from tfaip.params.stored import save_params
from tfaip.params.types import FunctionName
from tfaip.trainer.run.permission import Permission, read_permission, record_permission
from tfaip.trainer.scheduler import FunctionParams, NewbobRelParams
from tfaip.trainer.stages.params import TrainStage

# `test` is the package of the scenario, which needs no permission.
EXPECTED = Permission(("statistics",))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "tfaip" / "runs"


def stored(run: Path, **changes: Any) -> Path:
    """Store params that name a function, with a record; returns their file."""
    params = replace(TinyScenario.default_trainer_params(), **changes)
    params.learning_rate = FunctionParams(function=FunctionName("statistics:mean"))
    run.mkdir(exist_ok=True)
    file = run / "trainer_params.json"
    record_permission(file, params, TinyScenario, Permission())
    save_params(file, params)
    return file


def test_params_and_run_belong_to_the_record(tmp_path: Path, state: Path) -> None:
    file = stored(tmp_path / "run")
    assert read_permission(file) == EXPECTED
    assert read_permission(tmp_path / "run" / ".." / "run" / "trainer_params.json") == EXPECTED
    (tmp_path / "link").symlink_to(tmp_path / "run")
    assert read_permission(tmp_path / "link" / "trainer_params.json") == EXPECTED
    text = file.read_text()
    file.write_text(text + " ")
    assert read_permission(file) == Permission()
    file.write_text(text)
    assert read_permission(file) == EXPECTED
    file.rename(tmp_path / "trainer_params.json")
    assert read_permission(file) == read_permission(tmp_path / "trainer_params.json") == Permission()
    assert state.stat().st_mode & 0o777 == 0o700


def test_overrides_of_stages_are_typed_too(tmp_path: Path) -> None:
    stages = {"a": TrainStage(epochs=1, overrides={"learning_rate.decay": "colorsys:rgb_to_hls"})}
    assert read_permission(stored(tmp_path / "run", stages=stages)) == Permission(("statistics", "colorsys"))


def test_a_function_without_a_mark_of_the_package_of_the_scenario_is_typed_too(tmp_path: Path) -> None:
    for name, expected in (("halve", Permission(("test",))), ("third", Permission())):
        params = replace(TinyScenario.default_trainer_params(), output_dir=str(tmp_path))
        params.learning_rate = NewbobRelParams(decay=FunctionName(f"test.params.test_functions:{name}"))
        record_permission(tmp_path / "trainer_params.json", params, TinyScenario, Permission())
        save_params(tmp_path / "trainer_params.json", params)
        assert read_permission(tmp_path / "trainer_params.json") == expected


def test_a_run_that_is_killed_between_record_and_params_keeps_its_permission(tmp_path: Path, state: Path) -> None:
    file = stored(tmp_path / "run")
    params = TinyScenario.default_trainer_params()
    params.learning_rate = FunctionParams(function=FunctionName("colorsys:rgb_to_hls"))
    record_permission(file, params, TinyScenario, Permission(), is_resumed=True)
    # The old file is still there: what the new one would name is the user's choice as well.
    for _ in range(2):
        assert read_permission(file) == Permission(("colorsys",))
        save_params(file, params)
    file.write_text(file.read_text() + "\n")  # of another run, which is replaced: there is no record of it
    record_permission(file, params, TinyScenario, Permission())
    assert read_permission(file) == Permission()
    save_params(file, params)
    assert read_permission(file) == Permission(("colorsys",))
    # Params that name nothing need no record.
    record_permission(file, TinyScenario.default_trainer_params(), TinyScenario, Permission())
    assert list(state.iterdir()) == []
    assert Permission(("a",), "/x").and_trusted(["b", "a"]) == Permission(("a", "b"), "/x")


CHANGES: list[dict[str, Any]] = [
    *({"run": value} for value in ("/elsewhere", None)),
    *({"params_sha256": value} for value in (None, [], 7)),
    *({"packages": value} for value in ("statistics", ["statistics.x"], [["statistics"]], None)),
    *({"import_root": value} for value in (7, "relative", "/a\0b")),
    *({"history_file": value} for value in ("relative", 7)),
]
DAMAGE: list[Callable[[Path], Any]] = [
    *(lambda path, text=text: path.write_text(text) for text in ("", "[]", "[" * 60000)),
    lambda path: path.write_text(path.read_text()[:-20]),
    lambda path: path.write_bytes(b"\xff\xfe"),
    lambda path: path.write_text(path.read_text() + " " * 70000),
    lambda path: path.parent.chmod(0o777),
]
REPLACED: list[Callable[[Path], Any]] = [
    *(os.mkfifo, Path.mkdir, lambda path: None, lambda path: path.symlink_to("/dev/zero")),
    lambda path: path.symlink_to(path.with_suffix(".old")),
]


@pytest.mark.parametrize("damage", [*CHANGES, *DAMAGE, *REPLACED])
def test_a_damaged_record_permits_nothing(damage, tmp_path: Path, state: Path, caplog) -> None:
    file = stored(tmp_path / "run")
    (entry,) = state.iterdir()
    if isinstance(damage, dict):
        entry.write_text(json.dumps({**json.loads(entry.read_text()), **damage}))
    else:
        if damage in REPLACED:
            entry.rename(entry.with_suffix(".old"))
        damage(entry)
    with caplog.at_level(logging.INFO, logger="tfaip"):
        assert read_permission(file) == Permission()
        if damage in REPLACED[:-1]:  # the params instead
            file.unlink()
            damage(file)
            assert read_permission(file) == Permission()
    assert caplog.messages == []


@pytest.mark.parametrize("home", ["file", "/proc/nowhere", "relative", None])
def test_without_a_place_for_records(home, tmp_path: Path, monkeypatch, caplog) -> None:
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / ("file" if home else "home")))
    if home is None:  # that of the user is used
        monkeypatch.delenv("XDG_STATE_HOME")
    else:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / home) if home == "file" else home)
    with caplog.at_level(logging.INFO, logger="tfaip"):
        assert read_permission(stored(tmp_path / "run")) == (Permission() if home else EXPECTED)
    assert (caplog.messages, sorted(os.listdir(tmp_path))) == ([], ["file", *([] if home else ["home"]), "run"])
