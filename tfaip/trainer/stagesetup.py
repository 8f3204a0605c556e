"""From params to the parts of the training of a stage. Everything that can be wrong is reported here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.model.trainingmodel import TrainingModel
from tfaip.params.fields import FieldAdvice, below
from tfaip.trainer.best import BestModel
from tfaip.trainer.datasetup import Params, Scenario, create_training_pipeline, create_validation_pipeline, first_batch
from tfaip.trainer.epochschedules import EpochSchedules, check_batch_sizes
from tfaip.trainer.feed import Feeder
from tfaip.trainer.modelsetup import build_training_model, built_from
from tfaip.trainer.params import ProgressBarMode
from tfaip.trainer.reporting.progress import create_progress_display
from tfaip.trainer.reporting.tensorboard import TensorBoardEvents
from tfaip.trainer.run.names import EPOCH_MEAN, VALIDATION_PREFIX, check_logged, measured_name
from tfaip.trainer.runparts import RunParts
from tfaip.trainer.schedules.targets import given_loss_weights
from tfaip.trainer.setup import TrainingSetup
from tfaip.trainer.stages.program import PlannedStage
from tfaip.trainer.state import TrainState
from tfaip.trainer.trainingprogress import TrainingProgress
from tfaip.trainer.validation import EpochEvaluation
from tfaip.trainer.warmstart.warmstarter import WarmStarter
from tfaip.util.logging import logger, timed

# JAX counts in 32 bits.
LARGEST_COUNT = 2**31 - 1

log = logger(__name__)


def set_up_training(
    run: RunParts,
    stage: PlannedStage,
    scenario: Scenario,
    place: Mapping[str, Any],
    warmstarter: WarmStarter | None = None,
    before: TrainingSetup | None = None,
    progress: TrainingProgress | None = None,
) -> TrainingSetup:
    """Build pipelines, model, optimizer and outputs.

    Args:
        run: the parts that all stages share.
        stage: the stage to set up, with its params.
        scenario: the scenario to train, built from these.
        place: the stage, in the form that a checkpoint stores.
        warmstarter: gives a fresh model its first weights; None: the training is resumed, or has trained before.
        before: the stage before; its model is kept if nothing differs that it was built from.
        progress: of the training so far; None: there is none.

    Raises:
        UsageError: if something cannot work. A `FieldError` has a path that begins at the params of the stage.
    """
    params: Params = stage.params
    devices = run.devices
    check_batch_sizes(params, devices)
    schedules = EpochSchedules(params, scenario, devices)
    train_data = create_training_pipeline(params, scenario)
    val_data = create_validation_pipeline(params, scenario)
    sample_data = train_data.to_mode(PipelineMode.EVALUATION) if val_data is None else val_data
    if params.lav_every_n > 0:
        scenario.new_evaluator()  # an error in it is reported before the first epoch instead of after it
    epoch_steps = _epoch_steps(params, train_data)
    # What follows in a program is not known: its losses get their weights when it is reached.
    weighted_losses = sorted({*run.weighted_losses(), *given_loss_weights(params)})
    facts = built_from(params, scenario, epoch_steps, devices, weighted_losses)
    with devices.building():  # the graph is built when it is first used
        if before is None or before.scenario.graph is not scenario.graph or before.built_from != facts:
            with timed(log, "building the model"):
                model = build_training_model(params, scenario, epoch_steps, devices, warmstarter, weighted_losses)
        else:
            model = before.model
            model.set_loss_weights(given_loss_weights(params))
    best = _choose_best_model(params, scenario, model, val_data is not None, stage.first_epoch)
    mode = params.progress_bar_mode if devices.is_chief else ProgressBarMode.PLAIN
    display = create_progress_display(mode, best.monitor, model.only_loss)
    name = stage.name if run.has_stages else None
    events = TensorBoardEvents(run.directory, params, scenario, model, partial(first_batch, sample_data), name)
    devices_here = devices.num_shares // devices.num_processes if devices.num_shares > 1 else 0
    feeder = Feeder(scenario.data, devices_here)
    return TrainingSetup(
        stage=stage,
        params=params,
        scenario=scenario,
        devices=devices,
        stop=run.stop,
        train_data=train_data,
        sample_data=sample_data,
        schedules=schedules,
        feeder=feeder,
        model=model,
        state=TrainState(model, run.params, progress, place),
        evaluation=EpochEvaluation(
            params, scenario, model, val_data, feeder, display, run.stop, events.draw, devices, stage.last_epoch
        ),
        best=best,
        output=run.output,
        events=events,
        display=display,
        profiler=run.profiler,
        built_from=facts,
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


def _choose_best_model(
    params: Params, scenario: Scenario, model: TrainingModel, validates: bool, first_epoch: int
) -> BestModel:
    """Return the value that the best model follows, and check that the learning rate can follow its own."""
    values = model.get_metrics_result()
    check_logged(values)
    names = [*values, EPOCH_MEAN]
    logged = list(names)
    if validates:
        logged += [f"{VALIDATION_PREFIX}{name}" for name in names]
    has_lav = params.lav_every_n > 0
    mode, name = scenario.best_logging_settings()
    best = BestModel.of((mode, measured_name(name, logged, has_lav)), validates, names, first_epoch)
    if best.follows_lav and params.lav_every_n == 0:
        raise FieldAdvice(f"the best model follows {best.monitor}, but LAV is off: set {{lav_every_n}}", "lav_every_n")
    with below("learning_rate"):
        params.learning_rate.check_run(best, logged, has_lav)
    if params.early_stopping.n_to_go == 1:
        log.warning("n_to_go 1 stops after the first epoch, also a best one; 2 after the first without a new best")
    if not validates:
        data = "" if best.follows_lav else " of the training"
        log.info("no validation: the best model follows %s%s", best.monitor, data)
    return best
