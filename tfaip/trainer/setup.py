"""The parts of the training of one stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.device.devices import Devices
from tfaip.model.losses import INPUT_GRADIENT
from tfaip.model.trainingmodel import TrainingModel
from tfaip.trainer.best import BestModel
from tfaip.trainer.datasetup import Params, Scenario
from tfaip.trainer.earlystopping import EARLY_STOPPING, EarlyStoppingStatus
from tfaip.trainer.epochschedules import EpochSchedules
from tfaip.trainer.feed import Feeder
from tfaip.trainer.reporting.profiling import Profiler
from tfaip.trainer.reporting.progress import EpochTable
from tfaip.trainer.reporting.tensorboard import TensorBoardEvents
from tfaip.trainer.run.names import LAV_NAME, LOG_FILE, VALIDATION_PREFIX
from tfaip.trainer.run.output import RunOutput
from tfaip.trainer.signals import StopRequest
from tfaip.trainer.stages.program import PlannedStage
from tfaip.trainer.state import TrainState
from tfaip.trainer.validation import EpochEvaluation
from tfaip.util.terminal import ProgressDisplay


@dataclass
class TrainingSetup:
    """The parts of the training of one stage.

    Args:
        stage: the stage; of a run without stages, the main one.
        params: its params.
        scenario: the scenario that is trained.
        devices: its devices and processes.
        stop: the stop request of a signal.
        train_data: pipeline of the training data of the running epoch.
        sample_data: pipeline of samples for pictures and checks, processed as in a validation.
        schedules: exchanges it for that of the next epoch, and sets rates of dropouts.
        feeder: gives batches to `fit` and `evaluate`.
        model: the `keras.Model` that `fit` runs, compiled and built.
        state: everything that a checkpoint stores, fresh or restored.
        evaluation: validation and LAV.
        best: decides which epoch is the best one.
        output: writes checkpoints, history and models; in other processes than the chief, nothing.
        events: writes TensorBoard events.
        display: shows the progress of an epoch.
        profiler: traces some batches; None: nothing is profiled.
        built_from: see `tfaip.trainer.modelsetup.built_from`.
    """

    stage: PlannedStage
    params: Params
    scenario: Scenario
    devices: Devices
    stop: StopRequest
    train_data: DataPipeline
    sample_data: DataPipeline
    schedules: EpochSchedules
    feeder: Feeder
    model: TrainingModel
    state: TrainState
    evaluation: EpochEvaluation
    best: BestModel
    output: RunOutput
    events: TensorBoardEvents
    display: ProgressDisplay
    profiler: Profiler | None
    built_from: Mapping[str, Any] = field(default_factory=dict)

    def begin_epoch(self, number: int) -> None:
        """Take data and numbers of an epoch (from 1); the position is known when nothing of it is trained yet."""
        progress = self.state.progress
        self.schedules.set_numbers(number, self.model)
        self.train_data = self.schedules.pipeline(number, self.train_data)
        if progress.step == 0:
            progress.position = self.schedules.position(number, progress.position)

    def epoch_samples(self) -> int:
        """Return the samples of an epoch."""
        return self.train_data.epoch_size(self.params.samples_per_epoch, self.params.scale_epoch_size)

    def epoch_steps(self) -> int:
        """Return the batches of the running epoch; those trained before a resume may have had another size."""
        progress = self.state.progress
        left = self.epoch_samples() - progress.samples
        return progress.step + (self.train_data.num_batches(left) if left > 0 else 0)

    def epoch_table(self) -> EpochTable:
        """Return the table of the epochs from here on; values of LAV are known if an epoch so far has some."""
        history, trained = self.state.progress.history, list(self.model.get_metrics_result())
        names = trained.copy()
        if self.evaluation.val is not None:
            names += (f"{VALIDATION_PREFIX}{name}" for name in trained if name != INPUT_GRADIENT)
        if self.params.lav_every_n > 0:
            for epoch in history.epochs:
                if epoch >= self.stage.first_epoch:
                    names += (name for name in history.values(epoch) if LAV_NAME.fullmatch(name))
        complete = "the history of the trainer" if self.params.output_dir is None else LOG_FILE
        return EpochTable(names, self.best.monitor, self.model.only_loss, complete, self.events.stage)

    def is_finished(self) -> bool:
        """Return True if the last epoch of the stage is done, or it has stopped early."""
        return self.state.progress.epoch >= self.stage.last_epoch or self.early_stopping().stops_after is not None

    def early_stopping(self, running: Mapping[int, float] | None = None) -> EarlyStoppingStatus:
        """Return the status of early stopping.

        Args:
            running: value of an epoch that is not recorded yet, by its number.
        """
        history = self.state.progress.history
        values = {**self.best.values(history), **(running or {})}
        return self.params.early_stopping.status(values, self.best.mode, history.epoch_after(EARLY_STOPPING))

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Keep data workers from epoch to epoch in the block, and close all files after it."""
        with ExitStack() as stack:
            stack.callback(self.events.close)
            stack.enter_context(self.train_data)
            stack.enter_context(self.schedules)
            if self.evaluation.val is not None:
                stack.enter_context(self.evaluation.val)
            yield
