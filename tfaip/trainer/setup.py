"""From params to the parts of a training. Everything that can be wrong is reported here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.device.devices import Devices
from tfaip.export.formats import Advice
from tfaip.export.modelwriting import ModelDirectoryWriter
from tfaip.export.trainingdata import TRAINING_DATA_FILE, TrainingDataParams
from tfaip.model.lossnames import INPUT_GRADIENT
from tfaip.model.trainingmodel import TrainingModel
from tfaip.params.limits import FieldAdvice, below
from tfaip.params.tree.places import flag_of
from tfaip.trainer.best import BestModel
from tfaip.trainer.curriculum import Curriculum, check_batch_sizes
from tfaip.trainer.datasetup import Params, Scenario, create_training_pipeline, create_validation_pipeline, first_batch
from tfaip.trainer.earlystopping import EarlyStoppingStatus
from tfaip.trainer.feed import Feeder
from tfaip.trainer.modelsetup import build_training_model, built_from
from tfaip.trainer.reporting.bars import create_progress_display
from tfaip.trainer.reporting.epochcolumns import LoggedNames
from tfaip.trainer.reporting.epochtable import EpochTable
from tfaip.trainer.reporting.profiling import Profiler
from tfaip.trainer.reporting.progress import ProgressDisplay, TimedStart
from tfaip.trainer.reporting.tensorboard import TensorBoardEvents
from tfaip.trainer.run.names import EPOCH_MEAN, LAV_NAME, LOG_FILE, VALIDATION_PREFIX
from tfaip.trainer.run.output import RunOutput
from tfaip.trainer.runparts import RunParts
from tfaip.trainer.signals import StopRequest
from tfaip.trainer.stages.planned import PlannedStage
from tfaip.trainer.stages.records import place_of
from tfaip.trainer.state import TrainingProgress, TrainState
from tfaip.trainer.validation import EpochEvaluation, is_due
from tfaip.trainer.warmstart.warmstarter import WarmStarter
from tfaip.util.logging import logger, timed

# JAX counts in 32 bits.
LARGEST_COUNT = 2**31 - 1

log = logger(__name__)


class ExportCheck(Enum):
    """Time of the check of a new model's export: now, begun now, or with the first export of a finished training."""

    NOW = "now"
    BEGIN = "begin"
    WITH_WRITE = "with write"


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
        curriculum: exchanges it for that of the next epoch.
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
    curriculum: Curriculum
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
        """Take the data of an epoch (from 1); its position is known when nothing of it is trained yet."""
        progress = self.state.progress
        self.train_data = self.curriculum.pipeline(number, self.train_data)
        if progress.step == 0:
            progress.position = self.curriculum.position(number, progress.position)

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
        names, history = LoggedNames(self.model.only_loss), self.state.progress.history
        trained = list(self.model.get_metrics_result())
        names.add(trained)
        if self.evaluation.val is not None and self.params.val_every_n > 0:
            names.add(f"{VALIDATION_PREFIX}{name}" for name in trained if name != INPUT_GRADIENT)
        if self.params.lav_every_n > 0:
            for epoch in history.epochs:
                if epoch >= self.stage.first_epoch:
                    names.add(name for name in history.values(epoch) if LAV_NAME.fullmatch(name))
        complete = "the history of the trainer" if self.params.output_dir is None else LOG_FILE
        kept = self.display.table_rows
        return EpochTable(names, self.best.monitor, complete, self.events.stage, self.stage.last_epoch, kept)

    def is_finished(self) -> bool:
        """Return True if the last epoch of the stage is done, or it has stopped early."""
        return _is_finished(self.params, self.stage, self.best, self.state.progress)

    def early_stopping(self, running: Mapping[int, float] | None = None) -> EarlyStoppingStatus:
        """Return the status of early stopping.

        Args:
            running: value of an epoch that is not recorded yet, by its number.
        """
        values = {**self.best.values(self.state.progress.history), **(running or {})}
        return self.params.early_stopping.status(values, self.best.mode)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Keep data workers from epoch to epoch in the block, and close all files after it."""
        with ExitStack() as stack:
            stack.callback(self.events.close)
            stack.enter_context(self.train_data)
            stack.enter_context(self.curriculum)
            if self.evaluation.val is not None:
                stack.enter_context(self.evaluation.val)
            yield


def set_up_training(
    run: RunParts,
    stage: PlannedStage,
    scenario: Scenario,
    warmstarter: WarmStarter | None = None,
    before: TrainingSetup | None = None,
    progress: TrainingProgress | None = None,
) -> TrainingSetup:
    """Build pipelines, model, optimizer and outputs; export and load a new model once if models will be exported.

    Args:
        run: the parts that all stages share.
        stage: the stage to set up, with its params.
        scenario: the scenario to train, built from these.
        warmstarter: gives a fresh model its first weights; None: the training is resumed, or has trained before.
        before: the stage before; its model is kept if nothing differs that it was built from.
        progress: of the training so far; None: there is none.

    Raises:
        UsageError: if something cannot work. A `FieldError` has a path that begins at the params of the stage.
    """
    params: Params = stage.params
    devices = run.devices
    data = _set_up_data(params, scenario, devices)
    if params.lav_every_n > 0:
        scenario.new_evaluator()  # an error in it is reported before the first epoch instead of after it
    steps, losses = _epoch_steps(params, data.train), run.weighted_losses()
    facts = built_from(params, scenario, steps, devices, losses)
    if before is not None and (before.scenario.graph is not scenario.graph or before.built_from != facts):
        before = None
    if before is not None:
        model = before.model
        model.set_loss_weights(params.loss_weights)
    else:
        with timed(log, "building the model"):
            model = build_training_model(params, scenario, steps, devices, warmstarter, losses)
        model.execution.may_loop = run.may_loop
    validates = data.val is not None and params.val_every_n > 0
    best = _choose_best_model(params, scenario, model, validates, stage.first_epoch)
    display = ProgressDisplay()
    if devices.is_chief:
        display = TimedStart(create_progress_display(params.progress_bar_mode, params.progress_table))
    name = stage.name if run.has_stages else None
    events = TensorBoardEvents(run.directory, params, scenario, model, partial(first_batch, data.samples), name)
    if run.output.directory is not None:
        run.output.best, run.output.final = run.exports_best(stage), params.export_final
        check = _export_check(params, stage, best, validates, progress)
        if check is ExportCheck.BEGIN and not run.output.best:
            check = ExportCheck.NOW
        checked_before = None if before is None else run.output.models
        run.output.models = _create_model_writer(params, scenario, data.samples, check, checked_before)
    feeder = Feeder(scenario.data, devices.num_shares // devices.num_processes if devices.num_shares > 1 else 0)
    return TrainingSetup(
        stage=stage,
        params=params,
        scenario=scenario,
        devices=devices,
        stop=run.stop,
        train_data=data.train,
        curriculum=data.curriculum,
        feeder=feeder,
        model=model,
        state=TrainState(model, run.params, progress, place_of(run.plan, stage.name)),
        evaluation=EpochEvaluation(
            params, scenario, model, data.val, feeder, display, run.stop, events.draw, devices, stage.last_epoch
        ),
        best=best,
        output=run.output,
        events=events,
        display=display,
        profiler=run.profiler,
        built_from=facts,
    )


@dataclass(frozen=True)
class _Data:
    """Pipelines of the data of a stage.

    Args:
        train: of the training.
        val: of the validation; None: there is none.
        samples: of samples for pictures and checks, which are processed as in a validation.
        curriculum: exchanges `train` from epoch to epoch.
    """

    train: DataPipeline
    val: DataPipeline | None
    samples: DataPipeline
    curriculum: Curriculum


def _set_up_data(params: Params, scenario: Scenario, devices: Devices) -> _Data:
    check_batch_sizes(params, devices)
    curriculum = Curriculum(params, scenario, devices)
    train = create_training_pipeline(params, scenario)
    val = create_validation_pipeline(params, scenario)
    return _Data(train, val, train.to_mode(PipelineMode.EVALUATION) if val is None else val, curriculum)


def _epoch_steps(params: Params, train_data: DataPipeline) -> int:
    steps = train_data.num_batches(train_data.epoch_size(params.samples_per_epoch, params.scale_epoch_size))
    if steps > LARGEST_COUNT:
        raise FieldAdvice(
            f"an epoch has {steps} batches, expected at most {LARGEST_COUNT}: change {{samples_per_epoch}} or "
            "{scale_epoch_size}",
            "samples_per_epoch",
            "scale_epoch_size",
        )
    return steps


def _choose_best_model(
    params: Params, scenario: Scenario, model: TrainingModel, validates: bool, first_epoch: int
) -> BestModel:
    """Return the value that the best model follows, and check that the learning rate can follow its own."""
    names = [*model.get_metrics_result(), EPOCH_MEAN]
    best = BestModel.of(scenario.best_logging_settings(), validates, names, first_epoch)
    if best.follows_lav and params.lav_every_n == 0:
        raise FieldAdvice(f"the best model follows {best.monitor}, but LAV is off: set {{lav_every_n}}", "lav_every_n")
    logged = list(names)
    if validates:
        logged += [f"{VALIDATION_PREFIX}{name}" for name in names]
    with below("learning_rate"):
        params.learning_rate.check_run(best, logged, params.lav_every_n > 0)
    if not validates:
        data = "" if best.follows_lav else " of the training"
        log.info("no validation: the best model follows %s%s", best.monitor, data)
    return best


def _is_finished(params: Params, stage: PlannedStage, best: BestModel, progress: TrainingProgress) -> bool:
    """Return True if the last epoch of a stage is done, or it has stopped early."""
    if progress.epoch >= stage.last_epoch:
        return True
    return params.early_stopping.status(best.values(progress.history), best.mode).stops_after is not None


def _export_check(
    params: Params, stage: PlannedStage, best: BestModel, validates: bool, progress: TrainingProgress | None
) -> ExportCheck:
    """Return when the export is checked; it may only begin now if the next epoch will be the best one so far."""
    if progress is not None and _is_finished(params, stage, best, progress):
        return ExportCheck.WITH_WRITE
    number = 1 if progress is None else progress.epoch + 1
    is_measured = not validates or is_due(number, params.val_every_n, stage.last_epoch)
    has_best = progress is not None and best.epoch(progress.history) is not None
    is_best_next = is_measured and not best.follows_lav and not has_best
    return ExportCheck.BEGIN if is_best_next else ExportCheck.NOW


def export_advice(params: Params) -> Advice:
    """Return the flags that leave out what failed in an export."""
    export_flag, check_flag = (
        flag_of(params, params.flag_root, path) for path in ("scenario.export_{}", "skip_model_load_test")
    )
    return Advice(f"switch it off with {export_flag} False", f"skip this check with {check_flag} True")


def _create_model_writer(
    params: Params,
    scenario: Scenario,
    sample_data: DataPipeline,
    check: ExportCheck,
    before: ModelDirectoryWriter | None,
) -> ModelDirectoryWriter | None:
    """Return the writer of models; None: none will be exported.

    Args:
        params: the params of the stage.
        scenario: the scenario that is trained.
        sample_data: for the comparison of the exported model.
        check: time of the check of the export.
        before: writer of the same model in the stage before; None: there is none.
    """
    if not params.export_best and not params.export_final:
        return None
    training_data = TrainingDataParams(params.gen, params.random_seed or 0)
    models = ModelDirectoryWriter(scenario, {TRAINING_DATA_FILE: training_data}, export_advice(params))
    was_checked = before is not None and before.has_checked(models)
    if models.formats is not None and not was_checked and not params.skip_model_load_test:
        # What cannot be exported is known before the first epoch instead of after the last.
        inputs = first_batch(sample_data).inputs
        if check is ExportCheck.WITH_WRITE:
            models.formats.check_with_write(inputs)
            return models
        check_now = models.formats.begin_check if check is ExportCheck.BEGIN else models.formats.check
        with timed(log, "exporting and loading the model for a check"):
            check_now(inputs)
    return models
