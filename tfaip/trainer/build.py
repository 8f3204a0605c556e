"""From params to everything that the training loop works with. What can be wrong is reported here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras

from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.device.device_config import Precision
from tfaip.device.devices import Devices
from tfaip.errors import UsageError
from tfaip.lav.trainingdata import TRAINING_DATA_FILE, TrainingDataParams
from tfaip.model.inputgradients import InputGradientPenalty
from tfaip.model.tensorboardwriter import CollectedValue, collect_tensorboard_values
from tfaip.model.trainingmodel import TrainingModel
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import variable_arrays
from tfaip.scenario.modeldirectory import ModelDirectoryWriter
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.trainer.best import BestModel
from tfaip.trainer.callbacks.progress import create_progress, shows_bar
from tfaip.trainer.callbacks.tensorboard import TensorBoardEvents
from tfaip.trainer.checkpoint import CheckpointStore
from tfaip.trainer.compilation import compiles_with_xla
from tfaip.trainer.freezing import freeze_layers
from tfaip.trainer.lognames import EPOCH_MEAN, TRAIN, VALIDATION_PREFIX
from tfaip.trainer.loop import LoopParts
from tfaip.trainer.optimizer.averaging import AverageRate
from tfaip.trainer.optimizer.build import build_optimizer
from tfaip.trainer.output import RunOutput
from tfaip.trainer.params import ProgressBarMode, TrainerParams
from tfaip.trainer.profiling import Profiler
from tfaip.trainer.run_directory import RunDirectory
from tfaip.trainer.signals import StopRequest
from tfaip.trainer.state import TrainState
from tfaip.trainer.validation import EpochEvaluation
from tfaip.trainer.validationdata import has_validation_data
from tfaip.trainer.warmstart.warmstarter import WarmStarter
from tfaip.util.logging import logger

# On JAX several steps per execution are a Python loop: nothing gained, and signals are seen later.
AUTOMATIC_STEPS_PER_EXECUTION = {"tensorflow": 16, "jax": 1}

log = logger(__name__)

Params = TrainerParams[Any, Any]
Scenario = ScenarioBase[Any, Any]


def build_parts(
    params: Params,
    scenario: Scenario,
    directory: RunDirectory | None,
    stop: StopRequest,
    devices: Devices,
    warmstarter: WarmStarter | None = None,
) -> LoopParts:
    """Build pipelines, model, optimizer and outputs; export and load the model once if models will be exported.

    Args:
        params: the trainer params, with a seed that is set already.
        scenario: what to train.
        directory: the run's directory; None: nothing is written.
        stop: set by signals.
        devices: what the training runs on; the current scope is theirs.
        warmstarter: gives a fresh model its first weights; None: the training is resumed.

    Raises:
        UsageError: something cannot work; the message names the param.
    """
    setup = params.gen.setup
    for name, pipeline in (("train", setup.train), ("val", setup.val)):
        devices.check_batch_size(pipeline.batch_size, f"--{name}.batch_size")
        for size in pipeline.bucket_batch_sizes or []:
            devices.check_batch_size(size, f"--{name}.bucket_batch_sizes")
    train = data_pipeline(params, scenario, PipelineMode.TRAINING)
    val = _validation_pipeline(params, scenario)
    if devices.num_shares > 1:
        # A rest cannot be split equally; the next epoch begins with the samples that this one leaves out.
        train.params = replace(train.params, batch_drop_remainder=True)
    if params.lav_every_n > 0:
        scenario.new_evaluator()  # one that cannot be built is named before the first epoch instead of after it
    epoch_steps = train.num_batches(train.epoch_size(params.samples_per_epoch, params.scale_epoch_size))
    model = build_training_model(params, scenario, epoch_steps, devices, warmstarter)
    sample_data = val if val is not None else train.to_mode(PipelineMode.EVALUATION)
    validates = val is not None and params.val_every_n > 0
    names = [*model.get_metrics_result(), EPOCH_MEAN]
    best = BestModel.of(scenario.model._best_logging_settings(), validates, names)
    if best.follows_lav and params.lav_every_n == 0:
        raise UsageError(f"the best model follows {best.monitor}, but LAV is off: set --trainer.lav_every_n")
    logged = [*names, *(f"{VALIDATION_PREFIX}{name}" for name in names if validates)]
    params.learning_rate.check_run(best, logged, params.lav_every_n > 0)
    if not validates:
        where = "" if best.follows_lav else " of the training"
        log.info("no validation: the best model follows %s%s", best.monitor, where)
    progress = create_progress(params.progress_bar_mode if devices.is_chief else ProgressBarMode.PLAIN)
    events = TensorBoardEvents(
        directory,
        _collector(model, sample_data),
        scenario.model._tensorboard,
        params,
        lambda: variable_arrays(variables_by_path(scenario.graph)),
    )
    return LoopParts(
        params=params,
        model=model,
        state=TrainState(model, params),
        data=scenario.data,
        train=train,
        evaluation=EpochEvaluation(params, scenario, model, val, progress, stop, events.draw, devices),
        output=_output(params, scenario, directory, sample_data) if devices.is_chief else RunOutput(None),
        best=best,
        events=events,
        progress=progress,
        stop=stop,
        profiler=_profiler(params, directory),
        devices=devices,
    )


def build_training_model(
    params: Params,
    scenario: Scenario,
    epoch_steps: int,
    devices: Devices,
    warmstarter: WarmStarter | None = None,
) -> TrainingModel:
    """The model that `fit` runs, with all variables, compiled with its optimizer.

    Args:
        params: the trainer params.
        scenario: what to train.
        epoch_steps: batches of an epoch.
        devices: what the training runs on.
        warmstarter: gives the model its first weights; None: they stay as they were initialised.
    """
    data = scenario.data
    model = TrainingModel(scenario.model, scenario.graph, _input_gradient_penalty(scenario), params.loss_weights)
    model.build_symbolically(data.create_input_layers(), data.create_target_layers())
    unknown = sorted(set(params.loss_weights) - set(model.loss_names))
    if unknown:
        raise UsageError(
            f"--trainer.loss_weights names {', '.join(unknown)}; the losses are {', '.join(model.loss_names)}"
        )
    # Before the optimizer: it has slots for trained weights only, and averages start at the weights.
    if params.no_train_scope is not None:
        freeze_layers(scenario.graph, params.no_train_scope)
    if warmstarter is not None:
        warmstarter.apply(scenario.graph)
    optimizer = build_optimizer(
        params.optimizer,
        variables_by_path(scenario.graph),
        model.trainable_variables,
        accum_steps=params.train_accum_steps,
        average_rate=AverageRate.of(params.calc_ema, epoch_steps / params.train_accum_steps),
        rate=params.learning_rate,
        network=scenario.graph,
        seed=params.random_seed or 0,
        scales_loss=devices.precision is Precision.MIXED_FLOAT16,
    )
    backend = keras.backend.backend()
    model.compile(
        optimizer=optimizer,
        run_eagerly=params.force_eager,
        steps_per_execution=_steps_per_execution(params, backend, devices),
        # "auto" picks XLA on TensorFlow, which fails on graphs with CTC decoding, sparse or text operations.
        auto_scale_loss=False,  # the optimizer does
        jit_compile=compiles_with_xla(model, backend, params.force_eager, params.jit_compile),
    )
    return model


def _input_gradient_penalty(scenario: Scenario) -> InputGradientPenalty | None:
    params = scenario.params
    if not params.use_input_gradient_regularization:
        return None
    return InputGradientPenalty(params.input_gradient_regularization_h, params.input_gradient_regularization_lambda)


def _steps_per_execution(params: Params, backend: str, devices: Devices) -> int:
    shared = devices.strategy is not None and backend == "tensorflow"
    if params.steps_per_execution is not None:
        if shared and params.steps_per_execution > 1:
            raise UsageError(
                f"steps_per_execution {params.steps_per_execution} does not work on several devices of tensorflow: "
                "leave out --trainer.steps_per_execution"
            )
        return params.steps_per_execution
    return 1 if params.force_eager or shared else AUTOMATIC_STEPS_PER_EXECUTION[backend]


def data_pipeline(params: Params, scenario: Scenario, mode: PipelineMode) -> DataPipeline:
    """The pipeline of the training or of the validation data, with the seed of the run.

    Args:
        params: the trainer params, with a seed that is set already.
        scenario: gives the data.
        mode: TRAINING or EVALUATION.
    """
    return _preloaded(_read_pipeline(params, scenario, mode), params)


def _read_pipeline(params: Params, scenario: Scenario, mode: PipelineMode) -> DataPipeline:
    is_training = mode is PipelineMode.TRAINING
    setup = params.gen.setup.train if is_training else params.gen.setup.val
    generator = params.gen.train_gen() if is_training else params.gen.val_gen()
    pipeline = scenario.data.create_pipeline(setup, generator)
    if pipeline.mode is not mode:
        pipeline = pipeline.to_mode(mode)
    assert params.random_seed is not None  # noqa: S101 (set by the trainer)
    pipeline.seed = params.random_seed
    return pipeline


def _preloaded(pipeline: DataPipeline, params: Params) -> DataPipeline:
    if not params.preload_data:
        return pipeline
    started = time.monotonic()
    preloaded = pipeline.as_preloaded(shows_bar(params.progress_bar_mode))
    log.info("%s data is in memory after %.1f s", pipeline.mode.value, time.monotonic() - started)
    return preloaded


def _validation_pipeline(params: Params, scenario: Scenario) -> DataPipeline | None:
    # Without validation its data, files that nobody named, need not exist.
    if params.val_every_n == 0 or params.gen.val_gen() is None:
        return None
    pipeline = _read_pipeline(params, scenario, PipelineMode.EVALUATION)
    if not has_validation_data(params.gen, pipeline):
        return None
    return _preloaded(pipeline, params)


def _output(params: Params, scenario: Scenario, directory: RunDirectory | None, sample_data: DataPipeline) -> RunOutput:
    history_file = None if params.history_file is None else Path(params.history_file)
    if directory is None:
        return RunOutput(None, history_file=history_file)
    models = None
    if params.export_best or params.export_final:
        training_data = TrainingDataParams(params.gen, params.random_seed or 0)
        models = ModelDirectoryWriter(scenario, {TRAINING_DATA_FILE: training_data})
    if models is not None and models.formats is not None and not params.skip_model_load_test:
        models.formats.check(_first_batch(sample_data).inputs)
    store = None
    if params.write_checkpoints:
        store = CheckpointStore(directory.checkpoints, params.keep_checkpoints, directory.root)
    return RunOutput(directory, store, models, params.export_best, params.export_final, history_file)


def _profiler(params: Params, directory: RunDirectory | None) -> Profiler | None:
    if params.profile and params.output_dir is None:
        raise UsageError("profiling writes to the output directory: set --trainer.output_dir")
    if not params.profile or directory is None:
        return None
    return Profiler(directory.events(TRAIN), *params.profile_steps)


def _collector(model: TrainingModel, pipeline: DataPipeline) -> Callable[[], list[CollectedValue]]:
    """A function that runs the first batch eagerly and returns what layers pass to `add_tensorboard`."""
    used = True

    def collect() -> list[CollectedValue]:
        nonlocal used
        if not used:
            return []
        batch = _first_batch(pipeline)
        # What the graph draws or counts here must not be seen by the training, which a resumed run could not repeat.
        with keras.StatelessScope(), collect_tensorboard_values() as values:
            model((batch.inputs, batch.targets), training=False)
        used = bool(values)
        return values

    return collect


def _first_batch(pipeline: DataPipeline) -> Batch:
    with pipeline.generate_input_batches(auto_repeat=False) as batches:
        batch = next(batches, None)
    if batch is None:
        raise UsageError(
            "the validation data (or, without it, the training data) give no batch: use a smaller batch size, or keep "
            "the remainder (batch_drop_remainder)"
        )
    return batch
