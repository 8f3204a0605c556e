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


def test_a_run_that_is_killed_between_record_and_params_keeps_its_permission(tmp_path: Path) -> None:
    file = stored(tmp_path / "run")
    params = TinyScenario.default_trainer_params()
    params.learning_rate = FunctionParams(function=FunctionName("colorsys:rgb_to_hls"))
    record_permission(file, params, TinyScenario, Permission(), is_resumed=True)
    # The old file is still there: what the new one would name is the user's choice as well.
    assert read_permission(file) == Permission(("colorsys",))
    save_params(file, params)
    assert read_permission(file) == Permission(("colorsys",))


def test_params_of_another_run_that_is_replaced_get_no_permission(tmp_path: Path) -> None:
    file = stored(tmp_path / "run")
    file.write_text(file.read_text() + "\n")  # from elsewhere, so that there is no record of it
    params = TinyScenario.default_trainer_params()
    params.learning_rate = FunctionParams(function=FunctionName("colorsys:rgb_to_hls"))
    record_permission(file, params, TinyScenario, Permission())
    assert read_permission(file) == Permission()
    save_params(file, params)
    assert read_permission(file) == Permission(("colorsys",))


def test_params_that_name_nothing_need_no_record(tmp_path: Path, state: Path) -> None:
    file = stored(tmp_path / "run")
    record_permission(file, TinyScenario.default_trainer_params(), TinyScenario, Permission())
    assert list(state.iterdir()) == []
    assert read_permission(file) == Permission()


def test_further_packages() -> None:
    assert Permission(("a",), "/x").and_trusted(["b", "a"]) == Permission(("a", "b"), "/x")


def changed(**values: Any) -> Callable[[Path], None]:
    def change_it(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return change_it


def replaced(make: Callable[[Path], Any]) -> Callable[[Path], None]:
    def replace_it(path: Path) -> None:
        path.rename(path.with_suffix(".old"))
        make(path)

    return replace_it


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_text(""),
        lambda path: path.write_text(path.read_text()[:-20]),
        lambda path: path.write_bytes(b"\xff\xfe"),
        lambda path: path.write_text("[]"),
        lambda path: path.write_text("[" * 60000),
        lambda path: path.write_text(path.read_text() + " " * 70000),
        changed(run="/elsewhere"),
        changed(run=None),
        changed(params_sha256=None),
        changed(params_sha256=[]),
        changed(params_sha256=7),
        changed(packages="statistics"),
        changed(packages=["statistics.x"]),
        changed(packages=[["statistics"]]),
        changed(packages=None),
        changed(import_root=7),
        changed(import_root="relative"),
        changed(import_root="/a\0b"),
        changed(history_file="relative"),
        changed(history_file=7),
        lambda path: path.parent.chmod(0o777),
        replaced(os.mkfifo),
        replaced(lambda path: path.mkdir()),
        replaced(lambda path: path.symlink_to(path.with_suffix(".old"))),
        replaced(lambda path: path.symlink_to("/dev/zero")),
    ],
)
def test_a_damaged_record_permits_nothing(
    damage: Callable[[Path], None], tmp_path: Path, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = stored(tmp_path / "run")
    (entry,) = state.iterdir()
    damage(entry)
    with caplog.at_level(logging.INFO, logger="tfaip"):
        assert read_permission(file) == Permission()
    assert caplog.messages == []


def test_params_that_are_no_file(tmp_path: Path) -> None:
    file = stored(tmp_path / "run")
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.mkdir()):
        file.rename(tmp_path / "kept")
        make(file)
        assert read_permission(file) == Permission()
        file.rmdir() if file.is_dir() else file.unlink()
        (tmp_path / "kept").rename(file)
    assert read_permission(file) == EXPECTED


@pytest.mark.parametrize("home", ["a file", "nowhere", "relative"])
def test_without_a_place_for_records(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    values = {"a file": str(tmp_path / "file"), "nowhere": "/proc/nowhere", "relative": "state"}
    monkeypatch.setenv("XDG_STATE_HOME", values[home])
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.INFO, logger="tfaip"):
        assert read_permission(stored(tmp_path / "run")) == Permission()
    assert (caplog.messages, sorted(os.listdir(tmp_path))) == ([], ["file", "run"])


def test_without_the_variable_the_home_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert read_permission(stored(tmp_path / "run")) == EXPECTED
    assert len(list((tmp_path / "home" / ".local" / "state" / "tfaip" / "runs").iterdir())) == 1
