"""What TensorBoard shows of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tfaip.model.tensorboardwriter import CollectedValue
from tfaip.trainer.events import EventWriter
from tfaip.trainer.run_directory import RunDirectory
from tfaip.util.typing import Logs

TRAIN = "train"
VALIDATION = "validation"
VALIDATION_PREFIX = "val_"


class TensorBoardEvents:
    """Writes the values of every epoch, and what layers show with `add_tensorboard`.

    Args:
        directory: the run; None: nothing is written.
        collect: gives the layers' values, computed on a validation batch.
    """

    def __init__(self, directory: RunDirectory | None, collect: Callable[[], list[CollectedValue]]) -> None:
        self._collect = collect
        self._writers: dict[str, EventWriter] = {}
        if directory is not None:
            self._writers = {kind: EventWriter(directory.events(kind)) for kind in (TRAIN, VALIDATION)}

    def collect(self) -> list[CollectedValue]:
        """The layers' values after this epoch."""
        return self._collect() if self._writers else []

    def write_epoch(self, epoch: int, values: Logs, shown: list[CollectedValue]) -> None:
        """Write one epoch.

        Args:
            epoch: from 1.
            values: all values; those of the validation go to their own directory, without their prefix.
            shown: values of layers.
        """
        if not self._writers:
            return
        validation = {
            name.removeprefix(VALIDATION_PREFIX): value
            for name, value in values.items()
            if name.startswith(VALIDATION_PREFIX)
        }
        training = {name: value for name, value in values.items() if not name.startswith(VALIDATION_PREFIX)}
        self._writers[TRAIN].scalars(training, epoch)
        self._writers[VALIDATION].scalars(validation, epoch)
        for collected in shown:
            self._write_collected(collected, epoch)
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """End the writers."""
        for writer in self._writers.values():
            writer.close()

    def _write_collected(self, collected: CollectedValue, epoch: int) -> None:
        name = collected.writer.name
        drawn = collected.writer.func(name, collected.value, epoch)
        parts = {f"{name}/{key}": value for key, value in drawn.items()} if isinstance(drawn, dict) else {name: drawn}
        for tag, value in parts.items():
            self._write_value(tag, value, epoch)

    def _write_value(self, tag: str, value: Any, epoch: int) -> None:
        array = np.asarray(value)
        writer = self._writers[VALIDATION]
        if array.ndim == 0:
            writer.scalars({tag: float(array)}, epoch)
        else:
            writer.image(tag, array, epoch)
