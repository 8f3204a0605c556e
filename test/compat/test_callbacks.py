"""Callbacks of tfaip 1.2 in a real training and in `fit` of Keras."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from test.events.test_writer import points
from test.support.commands import finish_command, start_python
from test.trainer.line import line_params, train
from tfaip.compat.callbacks import LoggerCallback, TensorBoardCallback, TrainerCheckpointsCallback
from tfaip.compat.logfiles import ParseLogFile, WriteToLogFile


class More(LoggerCallback):
    """Adds a value, as programs did."""

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_epoch_end(epoch, {**(logs or {}), "tenth": epoch / 10})


def test_callbacks_in_a_training(tmp_path: Path) -> None:
    run = tmp_path / "run"
    params = line_params([1, 1], None, run, epochs=2)
    callbacks = [More(), TensorBoardCallback(run), TrainerCheckpointsCallback(params)]
    train(params, *callbacks)
    history = json.loads((run / "history.json").read_text())
    losses = {int(epoch): record["values"]["loss"] for epoch, record in history.items()}
    # The line of the trainer and that of the callback are read together.
    epochs = ParseLogFile(run).epochs()
    assert {epoch: found["tenth"] for epoch, found in epochs.items()} == {1: 0.0, 2: 0.1}
    assert {epoch: found["loss"] for epoch, found in epochs.items()} == pytest.approx(losses, abs=1e-4)
    # Beside the events of the trainer, which are as without the callback.
    for events in (run / "callback" / "train", run / "train"):
        assert dict(points(events, "loss")) == pytest.approx(losses)


def test_callbacks_in_fit(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile("sgd", "mse")
    with WriteToLogFile(tmp_path / "log") as log:
        logging.getLogger("tfaip").setLevel(logging.INFO)
        callbacks = [LoggerCallback(), TensorBoardCallback(tmp_path / "events")]
        x = np.ones((2, 1))
        model.fit(x, x, validation_data=(x, x), epochs=1, verbose=0, callbacks=callbacks)
    logging.getLogger("tfaip").setLevel(logging.NOTSET)
    # Weight and bias are 0; then both are 0.02 (2 * 0.01 * 1), and (1 - 0.04)^2 = 0.9216.
    assert ParseLogFile(log.path).epochs() == {1: {"loss": 1.0, "val_loss": 0.9216}}
    assert points(tmp_path / "events" / "train", "loss") == [(1, 1.0)]
    assert points(tmp_path / "events" / "validation", "loss") == [(1, pytest.approx(0.9216))]


def test_log_files_are_replaced_or_continued_and_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for append, expected in [(False, ["one"]), (True, ["one", "two"]), (False, ["one"])]:
        with WriteToLogFile(tmp_path / "own.log", append) as log:
            logging.getLogger("tfaip.x").warning("two" if append else "one")
        assert [line.rpartition(": ")[2] for line in log.path.read_text().splitlines()] == expected
    assert log.path == tmp_path / "own.log"
    assert WriteToLogFile(tmp_path / "directory").path == tmp_path / "directory" / "train.log"
    assert ParseLogFile(log.path).epochs() == {}
    assert "has no results of epochs" in caplog.text


PROGRAM = """
import logging, sys
from tfaip.util.logging import WriteToLogFile, logger

with WriteToLogFile(sys.argv[1]):
    logger("client.main").info("one")
    logging.getLogger("client.part").info("two")
    logging.getLogger("other").info("three")
"""


def test_messages_of_a_program_are_in_the_file_and_on_the_console_once(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("of a start that failed")
    result = finish_command(start_python("-W", "ignore", "-c", PROGRAM, str(tmp_path)))
    assert result.stdout.split() == ["one", "two", "three"]
    logged = [line.rpartition(" ")[2] for line in (tmp_path / "train.log").read_text().splitlines()]
    assert logged == ["one", "two", "three"]
