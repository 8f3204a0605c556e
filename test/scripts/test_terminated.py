"""SIGTERM and Ctrl-C to the commands that use models: one line, the exit code, and no half-written file."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest

from test.support.commands import CommandResult
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.definitions import Sample
from tfaip.params import option
from tfaip.scenario.tutorial.full.data import TutorialData, TutorialGenerator
from tfaip.scripts.common.command import run_command

Run = Callable[..., CommandResult]


class SignalImagesParams(DataGeneratorParams, cls=":SignalImages"):
    """Images, of which the 30th one comes with a signal."""

    number: int = option(signal.SIGTERM, "Signal to send")
    pid: int = option(0, "Process to send it to")


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
    command: str, number: signal.Signals, dump: str, tutorial: Path, run: Run
) -> None:
    models = ["--export_dir", tutorial / "best"]
    if command == "multi_lav":
        models = ["--export_dirs", tutorial / "best", tutorial / "export"]
    Path(dump).write_text("of an earlier run")
    handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    name = f"{SignalImagesParams.__module__}:{SignalImagesParams.__name__}"
    data = ["--data", name, "--data.number", int(number), "--data.pid", os.getpid()]
    result = run(command, *models, "--dump", dump, *data)
    assert (result.rc, result.stderr) == (128 + number, f"{number.name}: stopped\n")
    assert [(path.name, path.read_text()) for path in Path().iterdir()] == [(dump, "of an earlier run")]
    assert {one: signal.getsignal(one) for one in handlers} == handlers


def test_export(tutorial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """The signal comes when a file of the new format has been written."""
    copy = Path(shutil.copytree(tutorial / "best", tmp_path / "model"))
    before = sorted(copy.rglob("*"))
    save = keras.Model.save

    def save_and_signal(self: keras.Model, *args: Any, **kwargs: Any) -> None:
        save(self, *args, **kwargs)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(keras.Model, "save", save_and_signal)
    result = run("export", copy, "--format", "keras")
    assert (result.rc, result.stderr) == (143, "SIGTERM: stopped\n")
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
