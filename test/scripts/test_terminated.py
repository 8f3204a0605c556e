"""SIGTERM and Ctrl-C to the commands that use models: one line, the exit code, and no half-written file."""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import pytest

from test.support.commands import exit_code
from test.support.trained import trained_tutorial
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.definitions import Sample
from tfaip.params import pai_dataclass, pai_meta
from tfaip.scenario.tutorial.full.data import TutorialData, TutorialGenerator
from tfaip.scripts.common.command import run_command


@pai_dataclass
@dataclass
class SignalImagesParams(DataGeneratorParams):
    """Images, of which the 30th one comes with a signal."""

    number: int = field(default=signal.SIGTERM, metadata=pai_meta(help="Signal to send"))
    pid: int = field(default=0, metadata=pai_meta(help="Process to send it to"))

    @staticmethod
    def cls() -> type[DataGenerator[Any]]:
        return SignalImages


class SignalImages(DataGenerator[SignalImagesParams]):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._images = TutorialGenerator(data=TutorialData()).create(self.mode)

    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> Sample:
        if index == 30:
            os.kill(self.params.pid, self.params.number)
        return self._images[index]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The best model of a run of the tutorial; not to be changed."""
    return trained_tutorial(tmp_path_factory) / "best"


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty working directory; afterwards the toolkit's logger is as before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    root = logging.getLogger("tfaip")
    before = (root.level, root.propagate, root.handlers[:])
    yield
    root.level, root.propagate, root.handlers[:] = before


def run(command: str, *arguments: str | Path) -> int:
    return exit_code(importlib.import_module(f"tfaip.scripts.{command}").main, [*map(str, arguments)])


def data(number: signal.Signals) -> list[str]:
    name = f"{SignalImagesParams.__module__}:{SignalImagesParams.__name__}"
    return ["--data", name, "--data.number", str(int(number)), "--data.pid", str(os.getpid())]


@pytest.mark.parametrize(
    ("command", "number", "dump"),
    [
        ("lav", signal.SIGTERM, "dump.jsonl"),
        ("multi_lav", signal.SIGINT, "dump.npz"),
        ("predict", signal.SIGTERM, "dump.npz"),
        ("predict", signal.SIGINT, "dump.jsonl"),
    ],
)
def test_a_dump_is_whole_or_not_there(
    command: str, number: signal.Signals, dump: str, model: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = model.with_name("other")
    if not other.exists():
        shutil.copytree(model, other)
    models = ["--export_dirs", model, other] if command == "multi_lav" else ["--export_dir", model]
    Path(dump).write_text("of an earlier run")
    handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    code = run(command, *models, "--dump", dump, *data(number))
    assert (code, capfd.readouterr().err) == (128 + number, f"{number.name}: stopped\n")
    assert [(path.name, path.read_text()) for path in Path().iterdir()] == [(dump, "of an earlier run")]
    assert {one: signal.getsignal(one) for one in handlers} == handlers


def test_export(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The signal comes when a file of the new format has been written."""
    copy = Path(shutil.copytree(model, tmp_path / "model"))
    before = sorted(copy.rglob("*"))
    save = keras.Model.save

    def save_and_signal(self: keras.Model, *args: Any, **kwargs: Any) -> None:
        save(self, *args, **kwargs)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(keras.Model, "save", save_and_signal)
    assert (run("export", copy, "--format", "keras"), capfd.readouterr().err) == (143, "SIGTERM: stopped\n")
    assert sorted(copy.rglob("*")) == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_what_native_code_made_of_the_signal_is_still_its_end(capfd: pytest.CaptureFixture[str]) -> None:
    def work(_: Any) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt as error:
            raise ValueError("a callback failed") from error

    assert run_command(work, []) == 143
    assert capfd.readouterr().err == "SIGTERM: stopped\n"
