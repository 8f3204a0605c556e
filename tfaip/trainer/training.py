"""The training of one stage, its decisions, and what the next stage takes over from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, Protocol

import numpy as np

from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.device.devices import Devices
from tfaip.errors import UsageError
from tfaip.export.formats import NO_ADVICE, Advice
from tfaip.export.modelwriting import ModelDirectoryWriter
from tfaip.export.trainingdata import TRAINING_DATA_FILE, TrainingDataParams
from tfaip.model.losses import INPUT_GRADIENT
from tfaip.model.trainingmodel import TrainingModel
from tfaip.model.transfer import Source, log_transfer, plan_transfer, slot_arrays
from tfaip.model.weightrules import TransferMode
from tfaip.model.weights import assign_arrays, variable_arrays
from tfaip.params.fields import FieldAdvice, below
from tfaip.params.tree import flag_of
from tfaip.trainer import datasets
from tfaip.trainer.best import EARLY_STOPPING, BestModel, EarlyStoppingStatus
from tfaip.trainer.datasets import Feed, OpenBatches, Scenario, first_batch
from tfaip.trainer.modelbuilding import build_training_model, built_from, weight_structure
from tfaip.trainer.optimizer.optimizers import OptimizerParams
from tfaip.trainer.params import Params, ProgressBarMode
from tfaip.trainer.reporting.progress import EpochTable, create_progress_display
from tfaip.trainer.reporting.tensorboard import Profiler, TensorBoardEvents
from tfaip.trainer.run import names
from tfaip.trainer.run.output import RunOutput
from tfaip.trainer.scheduledvalues import EpochSchedules, given_loss_weights
from tfaip.trainer.signals import StopRequest
from tfaip.trainer.stages.program import PlannedStage, Preview
from tfaip.trainer.state import TrainingProgress, TrainState
from tfaip.trainer.transferparams import TransferParams
from tfaip.trainer.warmstart.warmstarter import WarmStarter
from tfaip.util.logging import logger, timed

log = logger(__name__)


class StopReason(StrEnum):
    """Reason for which the training of a stage ends."""

    LAST_EPOCH = "last epoch"
    EARLY_STOPPING = "early stopping"
    NOT_FINITE = "not finite"
    CALLBACK = "callback"
    SIGNAL = "signal"


class SharedParts(Protocol):
    """Parts of a run that its trainings share, see `tfaip.trainer.stagedrun.Run`."""

    params: Params
    preview: Preview
    devices: Devices
    stop: StopRequest
    output: RunOutput
    profiler: Profiler | None
    progress: TrainingProgress


class Training:
    """The training of one stage: data, model, optimizer, state and outputs, which the constructor builds.

    Everything that can be wrong is reported there, before the first batch.

    Args:
        run: what it shares with other stages.
        stage: the stage; of a run without stages, the main one.
        scenario: the scenario that is trained.
        record: the stage as a checkpoint stores it.
        warmstarter: the source of the first weights; None: the model gets them later.
        before: the training whose model is kept if nothing differs that it was built from; None: there is none.
    """

    def __init__(
        self,
        run: SharedParts,
        stage: PlannedStage,
        scenario: Scenario,
        record: Mapping[str, Any],
        warmstarter: WarmStarter | None,
        before: Training | None,
    ) -> None:
        params: Params = stage.params
        self.run, self.stage, self.params, self.scenario = run, stage, params, scenario
        self.devices = devices = replace(run.devices, precision=params.device.precision)
        # Data: of the running epoch, which `schedules` exchanges for that of the next one; for validation and LAV.
        datasets.check_batch_sizes(params, devices)
        self.schedules = EpochSchedules(params)
        for changed in self.schedules.params_of_epochs():
            datasets.check_batch_sizes(changed, devices)
        self.train_data = train_data = datasets.create_training_pipeline(params, scenario)
        self.val_data = datasets.create_validation_pipeline(params, scenario)
        self.lav_data = datasets.create_lav_pipelines(params, scenario)
        sample_data = train_data.to_mode(PipelineMode.EVALUATION) if self.val_data is None else self.val_data
        epoch_steps = train_data.num_batches(self.epoch_samples())
        if params.lav_every_n > 0:
            scenario.new_evaluator()  # an error in it is reported before the first epoch instead of after it
        # Model and optimizer. A loss to which any stage gives a weight has one that can change; what follows in a
        # program is not known: its losses get their weights when it is reached.
        known = [params, *(other.params for other in run.preview.stages)]
        losses = sorted({name for others in known for name in given_loss_weights(others)})
        self._built_from = facts = built_from(params, scenario, epoch_steps, devices, losses)
        checked = None
        with devices.building():  # the graph is built when it is first used
            if before is not None and before.scenario.graph is scenario.graph and before._built_from == facts:
                self.model: TrainingModel = before.model
                self.model.set_loss_weights(given_loss_weights(params))
                checked = run.output.models
            else:
                with timed(log, "building the model"):
                    self.model = build_training_model(params, scenario, epoch_steps, devices, warmstarter, losses)
        self.state = TrainState(self.model, run.params, run.progress, record)
        # Decisions and outputs
        self.best = self._choose_best_model()
        mode = params.progress_bar_mode if devices.is_chief else ProgressBarMode.PLAIN
        self.display = create_progress_display(mode, self.best.monitor, self.model.only_loss)
        batch = partial(first_batch, sample_data)
        self.events = TensorBoardEvents(run.output.directory, params, scenario, self.model, batch)
        self._prepare_export(batch, checked)

    @property
    def shown_stage(self) -> str | None:
        """Name of the stage for the progress; None: the run has no stages."""
        return self.stage.name if self.run.preview.has_stages else None

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Keep data workers from epoch to epoch in the block, and close all files after it."""
        with ExitStack() as stack:
            stack.callback(self.events.close)
            stack.enter_context(self.train_data)
            stack.callback(self.schedules.close)
            if self.val_data is not None:
                stack.enter_context(self.val_data)
            yield

    def feed(self, batches: OpenBatches, lengths: Sequence[int]) -> Feed:
        """Return a feed of the model, a context; the one before has ended."""
        devices = self.devices
        own = 0 if devices.strategy is None else devices.num_shares // devices.num_processes
        return Feed(self.scenario.data, batches, lengths, own)

    def validates_after(self, epoch: int) -> bool:
        """Return True if the epoch ends with a validation."""
        return self.val_data is not None and is_due(epoch, self.params.val_every_n, self.stage.last_epoch)

    def begin_epoch(self, number: int) -> None:
        """Take data and numbers of an epoch (from 1); the position is known when nothing of it is trained yet."""
        progress = self.state.progress
        self.schedules.set_numbers(number, self.model)
        create = datasets.create_training_pipeline
        self.train_data = self.schedules.pipeline(number, self.train_data, self.scenario, create)
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
        history, shown = self.state.progress.history, list(self.model.get_metrics_result())
        if self.val_data is not None:
            shown += [f"{names.VALIDATION_PREFIX}{name}" for name in shown if name != INPUT_GRADIENT]
        if self.params.lav_every_n > 0:
            for epoch in history.of_epochs(self.stage.first_epoch, self.stage.last_epoch).epochs:
                shown += [name for name in history.values(epoch) if names.LAV_NAME.fullmatch(name)]
        complete = "the history of the trainer" if self.params.output_dir is None else names.LOG_FILE
        return EpochTable(shown, self.best.monitor, self.model.only_loss, complete, self.shown_stage)

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the training of the stage ends after the epochs so far; None: it continues."""
        if self.state.progress.epoch >= self.stage.last_epoch:
            return StopReason.LAST_EPOCH
        if self.early_stopping().stops_after is not None:
            return StopReason.EARLY_STOPPING
        if self.model.optimizer.stopped_at() is not None:
            return StopReason.NOT_FINITE
        if self.model.stop_training:
            return StopReason.CALLBACK
        return None if self.run.stop.received is None else StopReason.SIGNAL

    def is_finished(self) -> bool:
        """Return True if the last epoch of the stage is done, or it has stopped early."""
        return self.stop_reason in (StopReason.LAST_EPOCH, StopReason.EARLY_STOPPING)

    def early_stopping(self, running: Mapping[int, float] | None = None) -> EarlyStoppingStatus:
        """Return the status of early stopping."""
        history = self.state.progress.history
        values = {**self.best.values(history), **(running or {})}
        return self.params.early_stopping.status(values, self.best.mode, history.epoch_after(EARLY_STOPPING))

    def _choose_best_model(self) -> BestModel:
        """Return the value that the best model follows, and check that the learning rate can follow its own."""
        params, validates, values = self.params, self.val_data is not None, self.model.get_metrics_result()
        names.check_logged(values)
        trained, has_lav = [*values, names.EPOCH_MEAN], params.lav_every_n > 0
        logged = [*trained, *(f"{names.VALIDATION_PREFIX}{name}" for name in trained if validates)]
        mode, name = self.scenario.best_logging_settings()
        monitored = mode, names.measured_name(name, logged, has_lav)
        best = BestModel.of(monitored, validates, trained, self.stage.first_epoch)
        if best.follows_lav and not has_lav:
            advice = "but LAV is off: set {lav_every_n}"
            raise FieldAdvice(f"the best model follows {best.monitor}, {advice}", "lav_every_n")
        with below("learning_rate"):
            params.learning_rate.check_run(best, logged, has_lav)
        if params.early_stopping.n_to_go == 1:
            log.warning("n_to_go 1 stops after the first epoch, also a best one; 2 after the first without a new best")
        if not validates:
            data = "" if best.follows_lav else " of the training"
            log.info("no validation: the best model follows %s%s", best.monitor, data)
        return best

    def _prepare_export(self, sample_batch: Callable[[], Batch], checked: ModelDirectoryWriter | None) -> None:
        """Let the output of the run write the models of the stage, and check that they can be exported.

        What cannot be exported is known before the first epoch instead of after the last. The check may only begin if
        the next epoch exports its model in any case; of a training that is finished it belongs to the first export.
        """
        params, output, best = self.params, self.run.output, self.best
        if output.directory is None:
            return
        output.best, output.final, output.models = params.export_best, params.export_final, None
        if not params.export_best and not params.export_final:
            return
        data = {TRAINING_DATA_FILE: TrainingDataParams(params.gen, params.random_seed or 0)}
        output.models = models = ModelDirectoryWriter(self.scenario, data, export_advice(params))
        is_checked = checked is not None and checked.has_checked(models)
        if models.formats is None or params.skip_model_load_test or is_checked:
            return
        inputs = sample_batch().inputs
        if self.is_finished():
            models.formats.check_with_write(inputs)
            return
        # True if the next epoch will be the first one with a value that tells the best model.
        progress = self.state.progress
        is_measured = self.val_data is None or self.validates_after(progress.epoch + 1)
        is_best_next = is_measured and not best.follows_lav and best.epoch(progress.history) is None
        check = models.formats.begin_check if params.export_best and is_best_next else models.formats.check
        with timed(log, "exporting and loading the model for a check"):
            check(inputs)


def is_due(epoch: int, every_n: int, last: int) -> bool:
    """Return True in every n-th epoch and the last one; with 0 in none."""
    return every_n > 0 and (epoch % every_n == 0 or epoch == last)


def export_advice(params: Params) -> Advice:
    """Return the flags that leave out what failed in an export."""
    export_flag = flag_of(params, params.flag_root, "scenario.export_{}")
    check_flag = flag_of(params, params.flag_root, "skip_model_load_test")
    reason = NO_ADVICE.on_difference
    return Advice(f"switch it off with {export_flag} False", f"{reason}; skip this check with {check_flag} True")


# From one stage to the next


@dataclass(frozen=True)
class StageEnd:
    """Copies of what a training had at its end: the memory of its model may be needed for the next one."""

    params: Params
    weights: Source
    slots: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, training: Training, has_structure: bool) -> StageEnd:
        structure = weight_structure(training.model, training.scenario) if has_structure else {}
        arrays = variable_arrays(training.state.weights_by_path())
        source = Source(f"stage {training.stage.name}", arrays, structure=structure)
        return cls(training.params, source, variable_arrays(training.state.optimizer_variables()))


def hand_over(end: StageEnd, training: Training, transfer: TransferParams) -> None:
    """Give a new model the weights, and its optimizer the state, that the stage before had at its end."""
    targets, optimizer, source = training.state.weights_by_path(), training.model.optimizer, end.weights
    name = source.description
    structure = weight_structure(training.model, training.scenario) if source.structure else {}
    shapes = {path: tuple(variable.shape) for path, variable in targets.items()}
    planned = plan_transfer(shapes, [source], transfer, transfer.mode, structure)
    if transfer.mode is not TransferMode.NONE and not any(row.is_loaded for row in planned.rows):
        raise UsageError(
            f"stage {training.stage.name} takes over no weight of {name}: their paths differ, or transfer "
            "excludes all; correct transfer.rename, or set transfer.mode none"
        )
    initial = variable_arrays(targets)
    weights = {**initial, **planned.arrays(initial)}
    assign_arrays(targets, weights, name)
    # The variables of the optimizer, as far as they mean the same.
    same_rule = _rules_of(end.params.optimizer) == _rules_of(training.params.optimizer)
    variables = training.state.optimizer_variables()
    slots = slot_arrays(planned, end.slots, variable_arrays(variables), weights, same_rule)
    assign_arrays(variables, slots, name)
    optimizer.continue_after(end.params.train_accum_steps)
    if not same_rule:
        optimizer.reset_moments()
    log_transfer(planned, f"weights of {name}", only_if_changed=True)


def _rules_of(params: OptimizerParams) -> list[Any]:
    """Return the update rules of an optimizer, without their constants."""
    return [type(params), *[(group.match, type(group.optimizer)) for group in params.groups]]
