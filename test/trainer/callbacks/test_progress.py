"""What is printed while a model trains."""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest

from test.trainer.line import line_params, train
from tfaip.trainer.callbacks.logger import result_line
from tfaip.trainer.callbacks.progress import NoProgress, ProgressBar, create_progress, print_summary
from tfaip.trainer.params import ProgressBarMode

pytestmark = pytest.mark.backend


@pytest.mark.parametrize(
    ("mode", "is_terminal", "expected"),
    [
        (ProgressBarMode.AUTO, True, ProgressBar),
        (ProgressBarMode.AUTO, False, NoProgress),
        (ProgressBarMode.BAR, False, ProgressBar),
        (ProgressBarMode.PLAIN, True, NoProgress),
    ],
)
def test_modes(mode: ProgressBarMode, is_terminal: bool, expected: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    assert type(create_progress(mode)) is expected


def test_the_bar_shows_how_far_and_how_good(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
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
    assert "loss=0.2500 acc=0.5000" in shown
    # Reading values is not free: not for every batch.
    assert read == [3]


def test_a_total_that_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    bar = ProgressBar()
    bar.start("Validation", total=None, done=0)
    bar.advance(1, lambda: {})
    bar.stop()
    capsys.readouterr()


def test_no_progress_reads_no_values() -> None:
    quiet = NoProgress()
    quiet.start("Epoch", 1, 0)
    quiet.advance(1, lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    quiet.stop()


def test_the_line_of_an_epoch_is_what_tools_parse() -> None:
    line = result_line(7, {"val_loss": 0.25, "acc": 0.98765, "loss": 1.0, "lr": 1e-05, "bad": float("nan")})
    assert line == "Results of epoch 0007 acc: 0.9877 - bad: nan - loss: 1.0000 - lr: 0.0000 - val_loss: 0.2500"
    assert result_line(12345, {}) == "Results of epoch 12345 "


def test_a_training_logs_one_line_per_epoch(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="tfaip"):
        train(line_params([2], epochs=2, lr=0.5))
    assert [message for message in caplog.messages if message.startswith("Results")] == [
        "Results of epoch 0001 distance: 0.0000 - loss: 0.0000 - loss/mean_epoch: 0.0000 - lr: 0.5000",
        "Results of epoch 0002 distance: 2.0000 - loss: -2.0000 - loss/mean_epoch: -2.0000 - lr: 0.5000",
    ]


def test_the_summary_is_aligned(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="tfaip"):
        print_summary({"Best epoch": "none", "TensorBoard": "tensorboard --logdir runs/a"})
    assert caplog.messages == ["Best epoch   none", "TensorBoard  tensorboard --logdir runs/a"]
