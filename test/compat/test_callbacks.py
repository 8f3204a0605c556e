"""Callbacks of tfaip 1.2 in a real training and in `fit` of Keras."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from test.events.test_writer import scalars
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
    assert {epoch: values["tenth"] for epoch, values in epochs.items()} == {1: 0.0, 2: 0.1}
    assert {epoch: values["loss"] for epoch, values in epochs.items()} == pytest.approx(losses, abs=1e-4)
    # Beside the events of the trainer, which are as without the callback.
    for events in (run / "callback" / "train", run / "train"):
        assert dict(scalars(events, "loss")) == pytest.approx(losses)
    stored = json.loads((run / "params" / "trainer_params.json").read_text())
    assert stored["epochs"] == 2
    assert stored["__cls__"] == json.loads((run / "trainer_params.json").read_text())["__cls__"]


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
    assert scalars(tmp_path / "events" / "train", "loss") == [(1, 1.0)]
    assert scalars(tmp_path / "events" / "validation", "loss") == [(1, pytest.approx(0.9216))]


def test_params_need_a_place() -> None:
    with pytest.raises(ValueError, match="TrainerCheckpointsCallback has no place: give directory"):
        TrainerCheckpointsCallback(line_params([1], None, None))


def test_log_files_are_replaced_or_continued(tmp_path: Path) -> None:
    for append, expected in [(False, "one\n"), (True, "one\ntwo\n"), (False, "one\n")]:
        with WriteToLogFile(tmp_path / "own.log", append) as log:
            logging.getLogger("tfaip.x").warning("two" if append else "one")
        lines = [line.rpartition(": ")[2] for line in log.path.read_text().splitlines(keepends=True)]
        assert "".join(lines) == expected
    assert log.path == tmp_path / "own.log"
    assert WriteToLogFile(tmp_path / "directory").path == tmp_path / "directory" / "train.log"


def test_a_log_without_results(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "train.log").write_text("nothing\n")
    assert ParseLogFile(tmp_path).epochs() == {}
    assert "has no results of epochs" in caplog.text
