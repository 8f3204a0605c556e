"""TensorBoard events of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras

from tfaip.components.scenario import ScenarioComponents
from tfaip.data.pipeline.batching import Batch
from tfaip.errors import TfaipError
from tfaip.events.writer import EventWriter
from tfaip.model.tensorboardwriter import CollectedValue, collect_tensorboard_values
from tfaip.model.trainingmodel import TrainingModel
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import variable_arrays
from tfaip.params.flags import flag_values
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.reporting.ownsummaries import OwnSummaries
from tfaip.trainer.run.directory import RunDirectory
from tfaip.trainer.run.names import TRAIN, VALIDATION, split_name
from tfaip.util.logging import logger
from tfaip.util.typing import Logs

log = logger(__name__)


@dataclass
class TensorBoardEvents:
    """Events of every epoch: values, plots of model and evaluators, values that layers send by `add_tensorboard`.

    Args:
        directory: directory of the run; None: nothing is written.
        params: the trainer params; their numbers, texts and switches are shown as hyper-parameters.
        scenario: its model plots metrics, its graph has the weights for histograms.
        model: runs the batch that the layers' values are computed on.
        sample_batch: returns this batch.
        stage: name of the stage; None: the run has no stages.
    """

    directory: RunDirectory | None
    params: TrainerParams[Any, Any]
    scenario: ScenarioComponents[Any, Any]
    model: TrainingModel
    sample_batch: Callable[[], Batch]
    stage: str | None = None

    def __post_init__(self) -> None:
        self._writers: dict[str, EventWriter] = {}
        self._summaries: OwnSummaries | None = None
        self._has_layer_values = self.directory is not None

    def collect(self) -> list[CollectedValue]:
        """Return the values that layers send, from one eager forward pass.

        There is no way out of a compiled step that works on both backends.
        """
        if not self._has_layer_values:
            return []
        batch = self.sample_batch()
        # The graph may draw random numbers and count here. The training must not see that: a
        # resumed run could not repeat it.
        with keras.StatelessScope(), collect_tensorboard_values() as values:
            self.model((batch.inputs, batch.targets), training=False)
        self._has_layer_values = bool(values)
        return values

    def draw(self) -> dict[str, Any]:
        """Return the model's plots of its metrics with their current values."""
        return {} if self.directory is None else self.scenario.model._tensorboard()

    def write_epoch(
        self, epoch: int, values: Logs, drawings: Mapping[str, Mapping[str, Any]], layer_values: list[CollectedValue]
    ) -> None:
        """Write one epoch; warn if the disk refuses it, since nothing of the training depends on it.

        Args:
            epoch: from 1.
            values: all values; those of validation and LAV have their own directories, without
                prefix.
            drawings: directory (`train`, ...) -> tag -> argument of `EventWriter.drawing`.
            layer_values: values of layers.
        """
        if self.directory is None:
            return
        try:
            self._write(self.directory, epoch, values, drawings)
            self._write_layer_values(self.directory, epoch, layer_values)
            for writer in self._writers.values():
                writer.flush()
        except TfaipError as error:
            if not isinstance(error.__cause__, OSError):  # what a user draws is wrong
                raise
            log.warning("TensorBoard will not show all of epoch %d: %s", epoch, error)
            # A file may end within an event: the next epoch begins new ones.
            self.close()
            self._writers.clear()

    def _write(
        self, directory: RunDirectory, epoch: int, values: Logs, drawings: Mapping[str, Mapping[str, Any]]
    ) -> None:
        if not self._writers:
            self._writer(directory, TRAIN).hparams(_hyper_parameters(self.params), epoch)
            if self.stage is not None:
                self._writer(directory, TRAIN).text("stage", self.stage, epoch)
        for name, value in values.items():
            kind, tag = split_name(name)
            self._writer(directory, kind).scalars({tag: value}, epoch)
        for kind, drawn in drawings.items():
            for tag, drawing in drawn.items():
                self._writer(directory, kind).drawing(tag, drawing, epoch)
        if self.params.histogram_every_n and epoch % self.params.histogram_every_n == 0:
            weights = variable_arrays(variables_by_path(self.scenario.graph))
            for path, weight in weights.items():
                self._writer(directory, TRAIN).histogram(f"weights/{path}", weight, epoch)

    def _write_layer_values(self, directory: RunDirectory, epoch: int, layer_values: list[CollectedValue]) -> None:
        for collected in layer_values:
            drawing = self._own_summaries(directory).drawing(collected, epoch)
            if drawing is not None:
                self._writer(directory, VALIDATION).drawing(collected.writer.name, drawing, epoch)

    def close(self) -> None:
        """Close all writers."""
        for writer in self._writers.values():
            writer.close()
        if self._summaries is not None:
            self._summaries.close()

    def _own_summaries(self, directory: RunDirectory) -> OwnSummaries:
        if self._summaries is None:
            self._summaries = OwnSummaries(directory.events(VALIDATION))
        return self._summaries

    def _writer(self, directory: RunDirectory, kind: str) -> EventWriter:
        if kind not in self._writers:
            self._writers[kind] = EventWriter(directory.events(kind))
        return self._writers[kind]


def _hyper_parameters(params: TrainerParams[Any, Any]) -> dict[str, float | str | bool]:
    """Return the numbers, texts and switches that have a flag."""
    chosen: dict[str, float | str | bool] = {}
    for flag, value in flag_values(params).items():
        if isinstance(value, bool | int | float | str):
            chosen[flag] = value
    return chosen
