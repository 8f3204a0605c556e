"""TensorBoard events of a run, and traces for its profiler's page."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import keras

from tfaip.backend.active import backend
from tfaip.components.scenario import ScenarioComponents
from tfaip.data.pipeline.batching import Batch
from tfaip.errors import TfaipError
from tfaip.events.writer import EventWriter, write_hparams
from tfaip.model.tensorboardwriter import CollectedValue, collect_tensorboard_values
from tfaip.model.trainingmodel import TrainingModel
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import variable_arrays
from tfaip.params.settings import flag_values
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.run.directory import RunDirectory
from tfaip.trainer.run.names import EPOCH_MEAN, HPARAMS_FILE, TRAIN, UPDATES, VALIDATION, split_name
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
    """

    directory: RunDirectory | None
    params: TrainerParams[Any, Any]
    scenario: ScenarioComponents[Any, Any]
    model: TrainingModel
    sample_batch: Callable[[], Batch]

    def __post_init__(self) -> None:
        self._writers: dict[str, EventWriter] = {}
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
        """Write one epoch.

        Args:
            values: all values; those of validation and LAV have their own directories, without prefix.
            drawings: directory (`train`, ...) -> tag -> argument of `EventWriter.drawing`.
        """
        if self.directory is None:
            return
        writer = partial(self._writer, self.directory)
        with self._reported(f"all of epoch {epoch}"):
            for name, value in values.items():
                kind, tag = split_name(name)
                if tag not in (EPOCH_MEAN, self.model.only_loss):  # other names of `loss`
                    writer(kind).scalars({tag: value}, epoch)
            for kind, drawn in drawings.items():
                for tag, drawing in drawn.items():
                    writer(kind).drawing(tag, drawing, epoch)
            if self.params.histogram_every_n and epoch % self.params.histogram_every_n == 0:
                for path, weight in variable_arrays(variables_by_path(self.scenario.graph)).items():
                    writer(TRAIN).histogram(f"weights/{path}", weight, epoch)
            for sent in layer_values:
                drawing = sent.writer.func(sent.writer.name, sent.value, epoch)
                if drawing is None:
                    raise TypeError(
                        f"the function of the TensorboardWriter {sent.writer.name!r} returned nothing: return an "
                        "image, a number or a curve, instead of writing it with tf.summary"
                    )
                writer(VALIDATION).drawing(sent.writer.name, drawing, epoch)
            for opened in self._writers.values():
                opened.flush()

    def write_updates(self, update: int, values: Logs) -> None:
        """Write the means of a window that ends after `update` updates of the training."""
        if self.directory is None:
            return
        with self._reported(f"the values of update {update}"):
            # In a directory of their own: where a process begins, TensorBoard drops all values of later steps.
            writer = self._writer(self.directory, UPDATES)
            writer.scalars({f"{UPDATES}/{name}": value for name, value in values.items()}, update)
            writer.flush()

    @contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        """Warn if the disk refuses what is written, since nothing of the training depends on it."""
        try:
            yield
        except TfaipError as error:
            if not isinstance(error.__cause__, OSError):  # what a user draws is wrong
                raise
            log.warning("TensorBoard will not show %s: %s", what, error)
            # A file may end within an event: what follows begins new ones.
            self.close()

    def close(self) -> None:
        """Close all files."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _writer(self, directory: RunDirectory, kind: str) -> EventWriter:
        """Return the writer of a directory; the first one also writes the hyper-parameters of the run."""
        if kind not in self._writers:
            if not self._writers:
                flags = flag_values(self.params).items()
                shown = {flag: value for flag, value in flags if isinstance(value, bool | int | float | str)}
                write_hparams(directory.root / HPARAMS_FILE, shown)
            self._writers[kind] = EventWriter(directory.root / kind)
        return self._writers[kind]


class Profiler:
    """Trace of the training between two batches, once.

    A trace consists of whole executions of the compiled step (see `trainer.steps_per_execution`):
    it begins with the first one that starts at batch `first` or later, so that compiling the step
    is not in it, and ends with the one that trains batch `last`.

    Args:
        directory: directory of TensorBoard events; the trace is written to `plugins/profile` in it.
        first: first batch, counted from 1 over all epochs that this process trains.
        last: last batch, at least `first`.
    """

    def __init__(self, directory: Path, first: int, last: int) -> None:
        self._directory, self._first, self._last = directory, first, last
        self._done = 0
        self._begin = 0  # first batch of the trace; 0: not begun
        self._is_active = False
        self._step: Any = None

    def before_execution(self) -> None:
        """Begin an execution of the step."""
        if not self._begin and self._done + 1 >= self._first:
            backend.start_profile(self._directory)  # if it fails there is no trace to end
            self._begin, self._is_active = self._done + 1, True
        if self._is_active:
            self._step = backend.profiled_step(self._done)
            self._step.__enter__()

    def after_execution(self, batches: int, wait: Callable[[], object]) -> None:
        """End an execution of the step.

        Args:
            batches: number of batches that it trained.
            wait: returns when the device has finished them; called only if the trace ends here.
        """
        self._done += batches
        if self._is_active:
            self._step.__exit__(None, None, None)
            if self._done >= self._last:
                # The device works asynchronously: its last execution belongs to the trace.
                wait()
                self._stop()

    def close(self) -> None:
        """End the trace, after the training or after an error."""
        if self._is_active:
            self._stop()
        elif self._done and not self._begin:
            text = "nothing was profiled: %d batches were trained, and profiling (profile_steps) begins at batch %d"
            log.warning(text, self._done, self._first)

    def _stop(self) -> None:
        self._is_active = False
        backend.stop_profile()
        text = "profiled batches %d to %d: %s (tensorboard-plugin-profile shows them)"
        log.info(text, self._begin, self._done, self._directory / "plugins" / "profile")
