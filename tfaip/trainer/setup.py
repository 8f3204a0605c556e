"""From params to the parts of a training. Everything that can be wrong is reported here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.device.devices import Devices
from tfaip.export.formats import Advice
from tfaip.export.modelwriting import ModelDirectoryWriter
from tfaip.export.trainingdata import TRAINING_DATA_FILE, TrainingDataParams
from tfaip.model.trainingmodel import TrainingModel
from tfaip.params.limits import FieldAdvice, below
from tfaip.trainer.best import BestModel
from tfaip.trainer.curriculum import Curriculum, check_batch_sizes
from tfaip.trainer.datasetup import Params, Scenario, create_pipeline, create_validation_pipeline, first_batch
from tfaip.trainer.modelsetup import build_training_model
from tfaip.trainer.reporting.profiling import Profiler
from tfaip.trainer.reporting.progress import ProgressDisplay, create_progress_display
from tfaip.trainer.reporting.tensorboard import TensorBoardEvents
from tfaip.trainer.run.checkpoint import CheckpointStore
from tfaip.trainer.run.directory import RunDirectory
from tfaip.trainer.run.names import EPOCH_MEAN, TRAIN, VALIDATION_PREFIX
from tfaip.trainer.run.output import RunOutput
from tfaip.trainer.signals import StopRequest
from tfaip.trainer.state import TrainState
from tfaip.trainer.validation import EpochEvaluation
from tfaip.trainer.warmstart.warmstarter import WarmStarter
from tfaip.util.logging import logger

# JAX counts in 32 bits.
LARGEST_COUNT = 2**31 - 1

log = logger(__name__)

EXPORT_ADVICE = Advice(
    "switch it off with --scenario.export_{} False", "skip this check with --trainer.skip_model_load_test True"
)


@dataclass
class TrainingSetup:
    """The parts of a training.

    Args:
        params: the params of this run.
        scenario: the scenario that is trained.
        devices: its devices and processes.
        stop: the stop request of a signal.
        train_data: pipeline of the training data of the running epoch.
        curriculum: exchanges it for that of the next epoch.
        model: the `keras.Model` that `fit` runs, compiled and built.
        state: everything that a checkpoint stores, fresh or restored.
        evaluation: validation and LAV.
        best: decides which epoch is the best one.
        output: writes checkpoints, history and models; in other processes than the chief, nothing.
        events: writes TensorBoard events.
        display: shows the progress of an epoch.
        profiler: traces some batches; None: nothing is profiled.
    """

    params: Params
    scenario: Scenario
    devices: Devices
    stop: StopRequest
    train_data: DataPipeline
    curriculum: Curriculum
    model: TrainingModel
    state: TrainState
    evaluation: EpochEvaluation
    best: BestModel
    output: RunOutput
    events: TensorBoardEvents
    display: ProgressDisplay
    profiler: Profiler | None

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

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Keep data workers from epoch to epoch in the block, and close all files after it."""
        with ExitStack() as stack:
            stack.callback(self.events.close)
            stack.enter_context(self.train_data)
            stack.enter_context(self.curriculum)
            if self.evaluation.val is not None:
                stack.enter_context(self.evaluation.val)
            if self.profiler is not None:
                stack.callback(self.profiler.close)
            yield


def set_up_training(
    params: Params,
    scenario: Scenario,
    directory: RunDirectory | None,
    stop: StopRequest,
    devices: Devices,
    warmstarter: WarmStarter | None = None,
) -> TrainingSetup:
    """Build pipelines, model, optimizer and outputs; export and load the model once if models will be exported.

    Args:
        params: the trainer params, with a seed.
        scenario: the scenario to train.
        directory: the directory of the run; None: nothing is written.
        stop: set by signals.
        devices: devices of the training, whose scope is active.
        warmstarter: gives a fresh model its first weights; None: the training is resumed.

    Raises:
        UsageError: if something cannot work. A `FieldError` has a path that begins at `params`.
    """
    check_batch_sizes(params, devices)
    # A rest cannot be split equally; the next epoch begins with the samples that this one leaves out.
    drops_rest = devices.num_shares > 1
    curriculum = Curriculum(params, scenario, devices, drops_rest)
    train_data = create_pipeline(params, scenario, PipelineMode.TRAINING, drops_rest)
    val_data = create_validation_pipeline(params, scenario)
    if params.lav_every_n > 0:
        scenario.new_evaluator()  # an error in it is reported before the first epoch instead of after it
    model = build_training_model(params, scenario, _epoch_steps(params, train_data), devices, warmstarter)
    best = _choose_best_model(params, scenario, model, validates=val_data is not None and params.val_every_n > 0)
    sample_data = train_data.to_mode(PipelineMode.EVALUATION) if val_data is None else val_data
    display = create_progress_display(params.progress_bar_mode) if devices.is_chief else ProgressDisplay()
    events = TensorBoardEvents(directory, params, scenario, model, partial(first_batch, sample_data))
    # The chief alone writes. Decisions are functions of a history that all processes have.
    output = _create_output(params, scenario, directory, sample_data) if devices.is_chief else RunOutput(None)
    return TrainingSetup(
        params=params,
        scenario=scenario,
        devices=devices,
        stop=stop,
        train_data=train_data,
        curriculum=curriculum,
        model=model,
        state=TrainState(model, params),
        evaluation=EpochEvaluation(params, scenario, model, val_data, display, stop, events.draw, devices),
        best=best,
        output=output,
        events=events,
        display=display,
        profiler=_create_profiler(params, directory),
    )


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


def _choose_best_model(params: Params, scenario: Scenario, model: TrainingModel, validates: bool) -> BestModel:
    """Return the value that the best model follows, and check that the learning rate can follow its own."""
    names = [*model.get_metrics_result(), EPOCH_MEAN]
    best = BestModel.of(scenario.best_logging_settings(), validates, names)
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


def _create_output(
    params: Params, scenario: Scenario, directory: RunDirectory | None, sample_data: DataPipeline
) -> RunOutput:
    history_file = None if params.history_file is None else Path(params.history_file)
    if directory is None:
        return RunOutput(None, history_file=history_file)
    models = None
    if params.export_best or params.export_final:
        training_data = TrainingDataParams(params.gen, params.random_seed or 0)
        models = ModelDirectoryWriter(scenario, {TRAINING_DATA_FILE: training_data}, EXPORT_ADVICE)
        if models.formats is not None and not params.skip_model_load_test:
            # What cannot be exported is known before the first epoch instead of after the last.
            models.formats.check(first_batch(sample_data).inputs)
    store = None
    if params.write_checkpoints:
        store = CheckpointStore(directory.checkpoints, params.keep_checkpoints, directory.root)
    return RunOutput(directory, store, models, params.export_best, params.export_final, history_file)


def _create_profiler(params: Params, directory: RunDirectory | None) -> Profiler | None:
    if params.profile and params.output_dir is None:
        raise FieldAdvice("profiling writes to the output directory: set {output_dir}", "output_dir")
    if not params.profile or directory is None:
        return None
    return Profiler(directory.events(TRAIN), *params.profile_steps)
