"""What is printed while a model trains."""

from __future__ import annotations

import base64
import io
import logging
import re
import sys
from pathlib import Path

import nbformat
import pytest

from test.support.commands import REPOSITORY, finish_command, start_python
from test.trainer.line import LineScenario, line_params, train
from tfaip.errors import UsageError
from tfaip.scripts.common.parser import TrainingParser
from tfaip.trainer.params import ProgressBarMode
from tfaip.trainer.reporting.progress import create_progress_display, result_line, shown_once
from tfaip.trainer.scheduler.params import CyclicModulationParams
from tfaip.util.terminal import (
    NotebookProgress,
    ProgressBar,
    ProgressDisplay,
    announced,
    can_show_bar,
    is_notebook,
    track,
)


def displays(monkeypatch: pytest.MonkeyPatch, term: str, encoding: str = "utf-8") -> list[type]:
    """The displays that `auto`, `bar`, `lines` and `plain` lead to on such a terminal."""
    monkeypatch.setenv("TERM", term)
    with io.TextIOWrapper(io.BytesIO(), encoding=encoding) as output, monkeypatch.context() as patch:
        patch.setattr(output, "isatty", lambda: True, raising=False)
        patch.setattr(sys, "stdout", output)
        assert can_show_bar() is (term == "xterm" and encoding == "utf-8")
        modes = [ProgressBarMode.AUTO, ProgressBarMode.BAR, ProgressBarMode.LINES, ProgressBarMode.PLAIN]
        return [type(create_progress_display(mode, "loss", None)) for mode in modes]


def test_a_bar_needs_a_terminal_that_can_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [ProgressBar, ProgressDisplay, ProgressDisplay]
    assert displays(monkeypatch, "xterm") == [ProgressBar, *others]
    assert displays(monkeypatch, "dumb") == [ProgressDisplay, *others]
    assert displays(monkeypatch, "xterm", "latin-1") == [ProgressDisplay, *others]
    assert not is_notebook()
    assert type(create_progress_display(ProgressBarMode.AUTO, "loss", None)) is ProgressDisplay  # no terminal


@pytest.mark.parametrize(
    ("monitor", "first"), [("val_acc", "acc"), ("val_loss/mean_epoch", "loss"), ("ce", "loss"), ("lav_l0_cer", "loss")]
)
def test_each_number_is_shown_once_and_the_monitored_one_first(monitor: str, first: str) -> None:
    values = {"loss": 1.0, "loss/mean_epoch": 1.0, "ce": 1.0, "acc": 0.5, "lr": 0.1}
    names = list(shown_once(values, monitor, "ce"))
    assert (names[0], sorted(names)) == (first, ["acc", "loss", "lr"])
    assert list(shown_once({"ce": 1.0, "acc": 0.5}, "acc", "ce")) == ["acc", "ce"]  # there is no loss


@pytest.fixture
def _on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar is drawn though the output is captured."""
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", "200")):
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("_on_a_terminal")
def test_the_bar_shows_how_far_and_how_good(capsys: pytest.CaptureFixture[str]) -> None:
    read: list[int] = []
    bar = ProgressBar("batch")
    bar.start("Epoch 3/10", total=8, done=2)
    for done in (3, 4, 5):
        bar.advance(done, lambda done=done: read.append(done) or {"loss": 0.25, "acc": 0.5})  # type: ignore[misc]
    bar.stop()
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("Epoch 3/10", "3/8", "loss 0.2500, acc 0.5000, "))
    # Reading values is not free: not for every batch.
    assert read == [3]
    bar.start("Validation", total=None)
    bar.advance(1)
    bar.stop()
    assert "1/?" in capsys.readouterr().out


@pytest.mark.usefixtures("_on_a_terminal")
def test_items_are_passed_on_with_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(track("abc", "Work", 3, shown=False)) == ["a", "b", "c"]
    assert capsys.readouterr().out == ""
    assert list(track("abc", "Work", 3, shown=True)) == ["a", "b", "c"]
    assert "1/3" in capsys.readouterr().out
    monkeypatch.setattr("tfaip.util.terminal.is_notebook", lambda: True)
    monkeypatch.setattr(NotebookProgress, "refresh_s", 0.0)
    assert list(track("abc", "Work", 3, shown=True)) == ["a", "b", "c"]
    shown = capsys.readouterr().out
    assert re.findall(r"Work: item \d of 3", shown) == [f"Work: item {number} of 3" for number in (1, 2, 3)]
    assert shown.rpartition("\r ")[2].strip() == ""


class Clock:
    """Time that passes only when a test says so."""

    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def test_without_a_terminal_a_line_per_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Batches 100 to 390 at one per second: lines after 60, 120 ... seconds of an epoch."""
    read: list[int] = []
    clock = Clock()
    lines = ProgressDisplay("batch", clock=clock)
    with caplog.at_level(logging.INFO, logger="tfaip"):
        lines.start("Epoch 3/10", total=400, done=100)
        for done in range(101, 391):
            clock.seconds += 1
            lines.advance(done, lambda done=done: read.append(done) or {"loss": 0.25, "lr": 1e-4})  # type: ignore[misc]
        lines.start("Validation", total=None)
        clock.seconds += 59
        lines.advance(1)
        clock.seconds += 2
        lines.advance(122)
    shown = [f"{160 + 60 * i} of 400, 1/s, {4 - i}:00 left, loss 0.2500, lr 1.00e-4" for i in range(4)]
    assert caplog.messages == [*(f"Epoch 3/10: batch {text}" for text in shown), "Validation: batch 122, 2/s"]
    assert read == [160, 220, 280, 340]  # reading values waits for the device


def test_in_a_notebook_a_line_is_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    """Batches of half a second: shown once a second."""
    clock = Clock()
    display = NotebookProgress("batch", clock=clock)
    display.start("Epoch 1/2", 6, 1)
    for done in range(2, 7):
        clock.seconds += 0.5
        display.advance(done, lambda: {"loss": 0.5})
    display.stop()
    lines = [f"Epoch 1/2: batch {done} of 6, 2/s, 0:0{left} left, loss 0.5000" for done, left in ((3, 2), (5, 0))]
    assert capsys.readouterr().out == "".join(f"\r{line}" for line in lines) + f"\r{' ' * len(lines[0])}\r"


@pytest.mark.parametrize("mode", [ProgressBarMode.LINES, ProgressBarMode.PLAIN])
@pytest.mark.parametrize(
    ("seconds", "messages"), [(0.9, []), (12.34, ["tracing, compiling and the first batches took 12.3 s"])]
)
def test_the_first_batches_are_timed(
    mode: ProgressBarMode, seconds: float, messages: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    display = create_progress_display(mode, "loss", None)
    display.clock = clock = Clock()
    with caplog.at_level(logging.INFO, logger="tfaip"):
        for _ in range(2):  # the second epoch is not the start
            display.start("Epoch", 2)
            for done in (1, 2):
                clock.seconds += seconds
                display.advance(done)
            display.stop()
    assert caplog.messages == messages


def test_the_line_of_an_epoch_is_what_tools_parse() -> None:
    line = result_line(7, {"val_loss": 0.25, "acc": 0.98765, "loss": 1.0, "lr": 3.1e-05, "bad": float("nan")})
    assert line == "Results of epoch 0007 acc: 0.9877 - bad: nan - loss: 1.0000 - lr: 3.1e-05 - val_loss: 0.2500"
    assert result_line(12345, {}) == "Results of epoch 12345 "


def test_an_epoch_without_an_update_shows_the_rate_to_come(caplog: pytest.LogCaptureFixture) -> None:
    params = line_params([1], epochs=3, train_accum_steps=2)
    params.learning_rate.modulation = CyclicModulationParams(decay=0.5)
    train(params)
    # Each update has the gradients of two epochs; the first one, with rate 1, comes in epoch 2.
    assert re.findall(r"Results of epoch 000\d .* - lr: (\S+)", caplog.text) == ["1.0000", "1.0000", "0.5000"]


@pytest.mark.usefixtures("_on_a_terminal")
def test_a_validation_has_a_total(capsys: pytest.CaptureFixture[str]) -> None:
    """Three samples in batches of one, of which one execution takes more."""
    train(line_params([1], [1, 2, 3], epochs=2, progress_bar_mode=ProgressBarMode.BAR))
    shown = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", capsys.readouterr().out)
    begins = [line.split()[2] for line in re.split(r"[\r\n]", shown) if line.startswith("Validation")]
    assert begins.count("0/3") == 2
    assert {count.partition("/")[2] for count in begins} == {"3"}


@pytest.mark.parametrize(("number", "mode"), [(0, "plain"), (1, "auto"), (2, "lines")])
def test_numbers_of_tfaip_1_2(number: int, mode: str) -> None:
    """They mean the same on the command line, in files and in Python; what is stored is the word."""
    parser = TrainingParser("train", "", LineScenario)
    assert parser.parse(["--progress_bar_mode", str(number)]).trainer.progress_bar_mode is ProgressBarMode(mode)
    params = line_params([1])
    assert type(params).from_dict({**params.to_dict(), "progress_bar_mode": number}).progress_bar_mode == mode
    params.progress_bar_mode = number  # type: ignore[assignment]
    assert train(params).params.to_dict()["progress_bar_mode"] == mode
    with pytest.raises(UsageError, match=r"expected auto \| bar \| lines \| plain, got '3'"):
        parser.parse(["--progress_bar_mode", "3"])


CELLS = [
    f"""import os, sys
sys.path.insert(0, {str(REPOSITORY)!r})
from test.support.tiny.scenario import TinyScenario
params = TinyScenario.default_trainer_params()
params['trainer.random_seed'] = 1
trainer = TinyScenario.create_trainer(params)
logs = trainer.train()""",
    "trainer.history.plot('loss')",
]


@pytest.mark.slow
def test_a_training_in_a_notebook(tmp_path: Path) -> None:
    """4 epochs of 11 batches, which take less than the second after which the line is shown; its text is gone."""
    notebook, path = nbformat.v4.new_notebook(), tmp_path / "training.ipynb"
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in CELLS]
    nbformat.write(notebook, path)
    own = {"IPYTHONDIR": "ipython", "JUPYTER_CONFIG_DIR": "config", "JUPYTER_RUNTIME_DIR": "runtime"}
    env = {name: str(tmp_path / directory) for name, directory in own.items()}
    execute = "from nbclient.cli import main; main()"
    result = finish_command(start_python("-c", execute, "--inplace", path, cwd=tmp_path, env=env), 300)
    assert result.rc == 0, result
    trained, plotted = (cell.outputs for cell in nbformat.read(path, as_version=4).cells)
    assert not [output for output in trained if output.output_type == "display_data"]
    printed = "".join(output.text for output in trained if output.get("name") == "stdout")
    # Each part after a carriage return has replaced the one before.
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in printed.split("\n")]
    assert len([line for line in lines if " | " in line]) == 2 + 4  # the header and the epochs
    assert not [line for line in lines if line.startswith(("Epoch", "Validation"))]
    (picture,) = [output.data for output in plotted if output.output_type == "execute_result"]
    assert base64.b64decode(picture["image/png"]).startswith(b"\x89PNG")


def test_what_is_done_is_shown_meanwhile(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for term, is_shown in (("xterm", True), ("dumb", False)):
        monkeypatch.setenv("TERM", term)
        with announced("building the model"):
            assert ("building the model ..." in capsys.readouterr().out) is is_shown
            print("a line")
        assert "a line\n" in capsys.readouterr().out
