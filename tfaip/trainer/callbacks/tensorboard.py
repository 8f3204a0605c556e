"""What TensorBoard shows of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tfaip.model.tensorboardwriter import CollectedValue
from tfaip.params.tree import walk
from tfaip.trainer.events import EventWriter
from tfaip.trainer.lognames import LAV_NAME, VALIDATION_PREFIX
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.run_directory import RunDirectory
from tfaip.util.typing import Logs

TRAIN = "train"
VALIDATION = "validation"


class TensorBoardEvents:
    """Writes the values of every epoch, and what layers show with `add_tensorboard`.

    Args:
        directory: the run; None: nothing is written.
        collect: gives the layers' values, computed on a validation batch.
        params: the trainer params; their numbers, texts and truth values are shown as hyper-parameters.
        weights: gives the weights by path, for histograms.
    """

    def __init__(
        self,
        directory: RunDirectory | None,
        collect: Callable[[], list[CollectedValue]],
        params: TrainerParams[Any, Any],
        weights: Callable[[], Mapping[str, np.ndarray]],
    ) -> None:
        self._directory = directory
        self._collect = collect
        self._params = params
        self._weights = weights
        self._writers: dict[str, EventWriter] = {}

    def collect(self) -> list[CollectedValue]:
        """The layers' values after this epoch."""
        return [] if self._directory is None else self._collect()

    def write_epoch(self, epoch: int, values: Logs, shown: list[CollectedValue]) -> None:
        """Write one epoch.

        Args:
            epoch: from 1.
            values: all values; those of the validation and of LAV go to directories of their own, without their prefix.
            shown: values of layers.
        """
        if self._directory is None:
            return
        if not self._writers:
            self._writer(self._directory, TRAIN).hparams(_hyper_parameters(self._params), epoch)
        for name, value in values.items():
            kind, tag = _kind_and_tag(name)
            self._writer(self._directory, kind).scalars({tag: value}, epoch)
        for collected in shown:
            self._write_collected(self._writer(self._directory, VALIDATION), collected, epoch)
        if self._params.histogram_every_n and epoch % self._params.histogram_every_n == 0:
            for path, weight in self._weights().items():
                self._writer(self._directory, TRAIN).histogram(f"weights/{path}", weight, epoch)
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """End the writers."""
        for writer in self._writers.values():
            writer.close()

    def _writer(self, directory: RunDirectory, kind: str) -> EventWriter:
        if kind not in self._writers:
            self._writers[kind] = EventWriter(directory.events(kind))
        return self._writers[kind]

    def _write_collected(self, writer: EventWriter, collected: CollectedValue, epoch: int) -> None:
        name = collected.writer.name
        drawn = collected.writer.func(name, collected.value, epoch)
        parts = {f"{name}/{key}": value for key, value in drawn.items()} if isinstance(drawn, dict) else {name: drawn}
        for tag, value in parts.items():
            array = np.asarray(value)
            if array.ndim == 0:
                writer.scalars({tag: float(array)}, epoch)
            else:
                writer.image(tag, array, epoch)


def _kind_and_tag(name: str) -> tuple[str, str]:
    """Directory and tag of a logged value: `val_loss` -> validation, loss; `lav_l0_acc` -> lav_l0, acc."""
    if name.startswith(VALIDATION_PREFIX):
        return VALIDATION, name.removeprefix(VALIDATION_PREFIX)
    lav = LAV_NAME.fullmatch(name)
    return (lav[1], lav[2]) if lav else (TRAIN, name)


def _hyper_parameters(params: TrainerParams[Any, Any]) -> dict[str, float | str | bool]:
    return {path: value for path, value in walk(params) if isinstance(value, (bool, int, float, str))}
