"""What is printed while a model trains."""

from __future__ import annotations

import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from test.events.test_writer import scalars
from test.trainer.line import LineScenario, line_params, train, weight
from tfaip.errors import UsageError
from tfaip.scripts.common.parser import TrainingParser
from tfaip.trainer.params import ProgressBarMode
from tfaip.trainer.reporting.progress import (
    ProgressBar,
    ProgressDisplay,
    ProgressLines,
    TimedStart,
    create_progress_display,
    duration_text,
    log_summary,
    result_line,
    shown_once,
)
from tfaip.trainer.scheduler.modulation import CyclicModulationParams


@pytest.mark.parametrize(
    ("mode", "is_terminal", "expected"),
    [
        (ProgressBarMode.AUTO, True, ProgressBar),
        (ProgressBarMode.AUTO, False, ProgressLines),
        (ProgressBarMode.LINES, True, ProgressLines),
        (ProgressBarMode.BAR, False, ProgressBar),
        (ProgressBarMode.PLAIN, True, ProgressDisplay),
    ],
)
def test_modes(mode: ProgressBarMode, is_terminal: bool, expected: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    assert type(create_progress_display(mode)) is expected


@pytest.mark.parametrize(
    ("monitor", "names"),
    [
        ("val_acc", ["acc", "loss", "lr"]),
        ("val_loss/mean_epoch", ["loss", "acc", "lr"]),
        ("ce", ["loss", "acc", "lr"]),
        ("lav_l0_cer", ["loss", "acc", "lr"]),
    ],
)
def test_each_number_is_shown_once_and_the_monitored_one_first(monitor: str, names: list[str]) -> None:
    values = {"loss": 1.0, "loss/mean_epoch": 1.0, "ce": 1.0, "acc": 0.5, "lr": 0.1}
    assert list(shown_once(values, monitor, "ce")) == names
    assert list(shown_once({"ce": 1.0, "acc": 0.5}, "acc", "ce")) == ["acc", "ce"]  # there is no loss


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the bar be drawn though the output is captured."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")


def test_the_bar_shows_how_far_and_how_good(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_a_terminal(monkeypatch)
    read: list[int] = []

    def values_at(done: int) -> Any:
        return lambda: read.append(done) or {"loss": 0.25, "acc": 0.5}

    bar = ProgressBar()
    bar.start("Epoch 3/10", total=8, done=2)
    for done in (3, 4, 5):
        bar.advance(done, values_at(done))
    bar.stop()
    bar.stop()
    shown = capsys.readouterr().out
    assert "Epoch 3/10" in shown
    assert "3/8" in shown
    assert "batches/s" in shown
    assert "loss 0.2500, acc 0.5000, " in shown
    # Reading values is not free: not for every batch.
    assert read == [3]


def test_a_total_that_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    bar = ProgressBar()
    bar.start("Validation", total=None, done=0)
    bar.advance(1, lambda: {})
    bar.stop()
    capsys.readouterr()


def test_no_progress_reads_no_values() -> None:
    quiet = ProgressDisplay()
    quiet.start("Epoch", 1, 0)
    quiet.advance(1, lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    quiet.stop()


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def test_without_a_terminal_a_line_per_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Batches 100 to 400 at one per second: lines after 60, 120 ... seconds, the last batch has none."""
    clock, read = Clock(), []
    lines = ProgressLines(clock=clock)
    lines.start("Epoch 3/10", total=400, done=100)
    with caplog.at_level(logging.INFO, logger="tfaip"):
        for done in range(101, 401):
            clock.seconds += 1
            lines.advance(done, lambda done=done: read.append(done) or {"loss": 0.25, "lr": 1e-4})  # type: ignore[misc]
        lines.stop()
    assert caplog.messages == [
        f"Epoch 3/10: batch {done} of 400, 1 batches/s, {left} left, loss 0.2500, lr 1.00e-4"
        for done, left in ((160, "4:00"), (220, "3:00"), (280, "2:00"), (340, "1:00"))
    ]
    assert read == [160, 220, 280, 340]  # reading values waits for the device


def test_a_minute_begins_with_each_epoch(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    lines = ProgressLines(clock=clock)
    with caplog.at_level(logging.INFO, logger="tfaip"):
        for _ in range(3):
            lines.start("Validation", total=None, done=0)
            clock.seconds += 59
            lines.advance(1, lambda: {})
        assert caplog.messages == []
        clock.seconds += 2
        lines.advance(122, lambda: {})
    assert caplog.messages == ["Validation: batch 122, 2 batches/s"]


def test_durations() -> None:
    assert [duration_text(seconds) for seconds in (0, 59.6, 3599, 3600, 90061)] == [
        *("0:00", "1:00", "59:59", "1:00:00", "25:01:01")
    ]


@pytest.mark.parametrize(
    ("seconds", "messages"), [(0.9, []), (12.34, ["tracing, compiling and the first batches took 12.3 s"])]
)
def test_the_first_batches_are_timed(seconds: float, messages: list[str], caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    display = TimedStart(ProgressDisplay(), clock)
    with caplog.at_level(logging.INFO, logger="tfaip"):
        for _ in range(2):  # the second epoch is not the start
            display.start("Epoch", 2, 0)
            for done in (1, 2):
                clock.seconds += seconds
                display.advance(done, lambda: {})
            display.stop()
    assert caplog.messages == messages


def test_the_line_of_an_epoch_is_what_tools_parse() -> None:
    line = result_line(7, {"val_loss": 0.25, "acc": 0.98765, "loss": 1.0, "lr": 3.1e-05, "bad": float("nan")})
    assert line == "Results of epoch 0007 acc: 0.9877 - bad: nan - loss: 1.0000 - lr: 3.1e-05 - val_loss: 0.2500"
    assert result_line(12345, {}) == "Results of epoch 12345 "


def parsed(line: str) -> tuple[int, dict[str, float]]:
    """Epoch and values, as the tools of users read them."""
    found = re.fullmatch(r"Results of epoch (\d{4,}) (.*)", line)
    assert found is not None
    return int(found[1]), {name: float(number) for name, number in re.findall(r"(\S+): (\S+)", found[2])}


@given(
    st.dictionaries(
        st.sampled_from(["loss", "loss/mean_epoch", "lr", "val_acc", "lav_l0_cer"]),
        st.floats(width=32) | st.sampled_from([0.0, 1e-3, 9.9e-4, 5e-5, 4.9e-5, 1e-30, 1e30]),
    )
)
def test_a_parser_finds_every_value_to_four_digits(values: dict[str, float]) -> None:
    epoch, found = parsed(result_line(31, values))
    assert epoch == 31
    assert list(found) == sorted(values)
    # Half of the last digit: of four decimals, or, below 0.001, of four significant digits.
    for name, value in values.items():
        tolerance = 0.5e-4 if abs(value) >= 0.001 else 0.5e-3 * abs(value)
        assert found[name] == pytest.approx(value, rel=1e-12, abs=tolerance, nan_ok=True)
        assert (found[name] == 0) == (value == 0)


def test_a_training_logs_one_line_per_epoch(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="tfaip"):
        train(line_params([2], epochs=2, lr=0.5))
    assert [message for message in caplog.messages if message.startswith("Results")] == [
        "Results of epoch 0001 distance: 0.0000 - loss: 0.0000 - loss/mean_epoch: 0.0000 - lr: 0.5000",
        "Results of epoch 0002 distance: 2.0000 - loss: -2.0000 - loss/mean_epoch: -2.0000 - lr: 0.5000",
    ]


def test_every_place_shows_the_rate_that_was_in_use(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Base 1 and modulation 2^-n: updates 0 and 1 have the rates 1 and 1/2, the next two 1/4 and 1/8."""
    on_a_terminal(monkeypatch)
    params = line_params([1, 1], None, tmp_path / "run", epochs=2, progress_bar_mode=ProgressBarMode.BAR)
    params.learning_rate.modulation = CyclicModulationParams(decay=0.5)
    trainer = train(params)
    used = {1: (1 + 1 / 2) / 2, 2: (1 / 4 + 1 / 8) / 2}
    assert weight(trainer) == -2 * sum(used.values())
    lines = dict(parsed(message) for message in caplog.messages if message.startswith("Results"))
    assert {epoch: values["lr"] for epoch, values in lines.items()} == pytest.approx(used, abs=0.5e-4)
    assert dict(scalars(tmp_path / "run" / "train", "lr")) == used
    records = json.loads((tmp_path / "run" / "history.json").read_text())
    assert {int(epoch): record["effective_lr"] for epoch, record in records.items()} == used
    shown = capsys.readouterr().out
    assert "lr 1.000" in shown or "lr 0.7500" in shown  # after the first execution, of one update or of both


def test_a_validation_has_a_total(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Three samples in batches of one, of which one execution takes more."""
    on_a_terminal(monkeypatch)
    train(line_params([1], [1, 2, 3], epochs=2, progress_bar_mode=ProgressBarMode.BAR))
    shown = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", capsys.readouterr().out)
    begins = [line.split()[2] for line in re.split(r"[\r\n]", shown) if line.startswith("Validation")]
    assert begins.count("0/3") == 2
    assert {count.partition("/")[2] for count in begins} == {"3"}


def test_an_epoch_without_an_update_shows_the_rate_to_come(caplog: pytest.LogCaptureFixture) -> None:
    params = line_params([1], epochs=3, train_accum_steps=2)
    params.learning_rate.modulation = CyclicModulationParams(decay=0.5)
    train(params)
    lines = dict(parsed(message) for message in caplog.messages if message.startswith("Results"))
    # Each update has the gradients of two epochs; the first one, with rate 1, comes in epoch 2.
    assert [values["lr"] for values in lines.values()] == [1.0, 1.0, 0.5]


def test_the_summary_is_aligned(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="tfaip"):
        log_summary({"Best epoch": "none", "TensorBoard": "tensorboard --logdir runs/a"})
    assert caplog.messages == ["Best epoch   none", "TensorBoard  tensorboard --logdir runs/a"]


@pytest.mark.parametrize(("number", "mode"), [(0, "plain"), (1, "auto"), (2, "lines")])
def test_numbers_of_tfaip_1_2(number: int, mode: str) -> None:
    """They mean the same on the command line, in files and in Python; what is stored is the word."""
    parser = TrainingParser("train", "", LineScenario)
    for flag in ("--trainer.progress_bar_mode", "--progress_bar_mode"):
        assert parser.parse([flag, str(number)]).trainer.progress_bar_mode is ProgressBarMode(mode)
    params = line_params([1])
    assert type(params).from_dict({**params.to_dict(), "progress_bar_mode": number}).progress_bar_mode == mode
    params.progress_bar_mode = number  # type: ignore[assignment]
    assert train(params).params.to_dict()["progress_bar_mode"] == mode
    for wrong in ("3", "bars"):
        with pytest.raises(UsageError, match=rf"expected auto \| bar \| lines \| plain, got '{wrong}'"):
            parser.parse(["--progress_bar_mode", wrong])
    with pytest.raises(UsageError, match=r"progress_bar_mode: expected auto \| bar \| lines \| plain, got 3"):
        params.set_flags({"trainer.progress_bar_mode": 3})
