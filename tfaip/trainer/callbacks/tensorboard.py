"""What TensorBoard shows of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tfaip.model.tensorboardwriter import CollectedValue
from tfaip.params.tree import is_hidden, walk
from tfaip.trainer.events import EventWriter
from tfaip.trainer.lognames import LAV_NAME, TRAIN, VALIDATION, VALIDATION_PREFIX
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.run_directory import RunDirectory
from tfaip.util.typing import Logs


class TensorBoardEvents:
    """Writes the values of every epoch, what model and evaluators draw, and what layers show with `add_tensorboard`.

    Args:
        directory: the run; None: nothing is written.
        collect: gives the layers' values, computed on a validation batch.
        draw: gives what the model draws of its metrics.
        params: the trainer params; their numbers, texts and truth values are shown as hyper-parameters.
        weights: gives the weights by path, for histograms.
    """

    def __init__(
        self,
        directory: RunDirectory | None,
        collect: Callable[[], list[CollectedValue]],
        draw: Callable[[], dict[str, Any]],
        params: TrainerParams[Any, Any],
        weights: Callable[[], Mapping[str, np.ndarray]],
    ) -> None:
        self._directory = directory
        self._collect = collect
        self._draw = draw
        self._params = params
        self._weights = weights
        self._writers: dict[str, EventWriter] = {}

    def collect(self) -> list[CollectedValue]:
        """The layers' values after this epoch."""
        return [] if self._directory is None else self._collect()

    def draw(self) -> dict[str, Any]:
        """What the model draws of its metrics as they are."""
        return {} if self._directory is None else self._draw()

    def write_epoch(
        self, epoch: int, values: Logs, drawings: Mapping[str, Mapping[str, Any]], shown: list[CollectedValue]
    ) -> None:
        """Write one epoch.

        Args:
            epoch: from 1.
            values: all values; those of the validation and of LAV go to directories of their own, without their prefix.
            drawings: directory (`train`, `validation`, `lav_l0`) -> tag -> what `EventWriter.drawing` takes.
            shown: values of layers.
        """
        if self._directory is None:
            return
        if not self._writers:
            self._writer(self._directory, TRAIN).hparams(_hyper_parameters(self._params), epoch)
        for name, value in values.items():
            kind, tag = _kind_and_tag(name)
            self._writer(self._directory, kind).scalars({tag: value}, epoch)
        for kind, drawn in drawings.items():
            for tag, drawing in drawn.items():
                self._writer(self._directory, kind).drawing(tag, drawing, epoch)
        for collected in shown:
            name = collected.writer.name
            drawing = collected.writer.func(name, collected.value, epoch)
            self._writer(self._directory, VALIDATION).drawing(name, drawing, epoch)
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


def _kind_and_tag(name: str) -> tuple[str, str]:
    """Directory and tag of a logged value: `val_loss` -> validation, loss; `lav_l0_acc` -> lav_l0, acc."""
    if name.startswith(VALIDATION_PREFIX):
        return VALIDATION, name.removeprefix(VALIDATION_PREFIX)
    lav = LAV_NAME.fullmatch(name)
    return (lav[1], lav[2]) if lav else (TRAIN, name)


def _hyper_parameters(params: TrainerParams[Any, Any]) -> dict[str, float | str | bool]:
    """What somebody chose: numbers, words and switches that have a flag."""
    values = {path: value for path, value in walk(params) if isinstance(value, (bool, int, float, str))}
    return {path: value for path, value in values.items() if not is_hidden(params, path)}
