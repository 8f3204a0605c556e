"""Callbacks for work that the trainer does itself: to derive from, and to recognise in a list."""

from pathlib import Path
from typing import Any

import keras

from tfaip.events.writer import EventWriter
from tfaip.trainer.reporting.progress import result_line
from tfaip.trainer.run.names import PARAMS_FILE, split_name
from tfaip.trainer.stepcallbacks import python_logs
from tfaip.util.logging import logger
from tfaip.util.typing import Logs

log = logger(__name__)


class LoggerCallback(keras.callbacks.Callback):
    """Callback that logs a line `Results of epoch 0001 ...` with all values it gets, also in `fit` of Keras.

    A subclass may add values to `logs` and call this class. The trainer logs its own line after it.
    """

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Log the values of an epoch, which Keras counts from 0."""
        log.info("%s", result_line(epoch + 1, python_logs(logs)))


class TensorBoardCallback(keras.callbacks.Callback):
    """Callback that writes all values it gets for TensorBoard, also in `fit` of Keras.

    A subclass may add values to `logs` and call this class, or write with `writer`.

    Args:
        log_dir: has a directory for each kind of values: `train`, `validation`, `lav_l0` ... In the directory of a
            run, where these are the trainer's own, they are below `callback`.
    """

    def __init__(self, log_dir: str | Path) -> None:
        super().__init__()
        self.log_dir = Path(log_dir)
        self._writers: dict[str, EventWriter] = {}

    def writer(self, kind: str) -> EventWriter:
        """Return the writer of a kind of values, e.g. `train`."""
        if kind not in self._writers:
            is_run = (self.log_dir / PARAMS_FILE).is_file()
            root = self.log_dir / "callback" if is_run else self.log_dir
            self._writers[kind] = EventWriter(root / kind)
        return self._writers[kind]

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Write the values of an epoch, which Keras counts from 0."""
        for name, value in python_logs(logs).items():
            kind, tag = split_name(name)
            self.writer(kind).scalars({tag: value}, epoch + 1)
        for writer in self._writers.values():
            writer.flush()

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Close the files."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()


class TrainerCheckpointsCallback(keras.callbacks.Callback):
    """Callback to derive from, or to recognise: params, checkpoints and models are written by the trainer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
