"""Pipelines of the training and of the validation data."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from tfaip.components.scenario import ScenarioComponents
from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.datagenerator import DataGenerator, size_of
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.errors import UsageError
from tfaip.params.fields import FieldAdvice, below
from tfaip.params.settings import differences
from tfaip.params.sources import Setting
from tfaip.trainer.params import TrainerPipelineParamsBase
from tfaip.trainer.reporting.progress import shows_bar
from tfaip.trainer.runparams import Params
from tfaip.util.logging import logger
from tfaip.util.text import shorten, shorten_text

# Characters of a message for options and their values.
OPTIONS_LIMIT = 120

log = logger(__name__)

Scenario = ScenarioComponents[Any, Any]


def create_training_pipeline(
    params: Params,
    scenario: Scenario,
    data: DataBase[Any] | None = None,
) -> DataPipeline:
    """Return the pipeline of the training data, with the seed of the run.

    Args:
        params: the trainer params, with a seed.
        scenario: creates the pipeline.
        data: in the place of that of the scenario; None: that.
    """
    pipeline = _with_seed(params.gen.train_data(data or scenario.data), params, PipelineMode.TRAINING)
    _check_length(pipeline, params)
    return _preloaded(pipeline, params)


def _check_length(pipeline: DataPipeline, params: Params) -> None:
    """Read what tells the length of the training data, so that an error names a flag of their generator."""
    is_option = pipeline.generator_params is getattr(params.gen, "train", None)
    if is_option and params.samples_per_epoch == -1:
        with below("gen.train"):
            known_size(pipeline.generator)


def known_size(generator: DataGenerator[Any]) -> int | None:
    """Return the number of samples of one pass; None: it is not known."""
    try:
        return size_of(generator)
    except (TypeError, NotImplementedError):
        return None


def create_validation_pipeline(params: Params, scenario: Scenario) -> DataPipeline | None:
    """Return the pipeline of the validation data; None: there is no validation."""
    # Without validation its data, files that the user has not named, need not exist.
    if params.val_every_n == 0:
        return None
    pipeline = params.gen.val_data(scenario.data)
    if pipeline is None:
        return None
    pipeline = _with_seed(pipeline, params, PipelineMode.EVALUATION)
    return _preloaded(pipeline, params) if has_validation_data(params.gen, pipeline) else None


def _with_seed(pipeline: DataPipeline, params: Params, mode: PipelineMode) -> DataPipeline:
    if pipeline.mode is not mode:
        pipeline = pipeline.to_mode(mode)
    assert params.random_seed is not None  # noqa: S101 (set by the trainer)
    return pipeline.with_seed(params.random_seed)


def _preloaded(pipeline: DataPipeline, params: Params) -> DataPipeline:
    if not params.preload_data:
        return pipeline
    started = time.monotonic()
    with below("gen.setup.train" if pipeline.mode is PipelineMode.TRAINING else "gen.setup.val"):
        preloaded = pipeline.as_preloaded(shows_bar(params.progress_bar_mode))
    log.info("%s data is in memory after %.1f s", pipeline.mode.value, time.monotonic() - started)
    return preloaded


def first_batch(pipeline: DataPipeline) -> Batch:
    """Return the first batch of a pipeline of the validation data, or without these of the training data.

    Raises:
        UsageError: if there is none.
    """
    with pipeline.generate_input_batches(auto_repeat=False) as batches:
        batch = next(batches, None)
    if batch is None:
        raise UsageError(
            "the validation data (or, without it, the training data) give no batch: use a smaller batch size, or keep "
            "the remainder (batch_drop_remainder)"
        )
    return batch


def has_validation_data(gen: TrainerPipelineParamsBase[Any, Any], pipeline: DataPipeline) -> bool:
    """Return True if there are samples to validate on.

    No validation data are given if `gen` has a field `val` whose options all have the defaults of
    their class, and its generator gives no sample. (`val_gen` may also return None.)

    Args:
        gen: params of the data.
        pipeline: of the validation data.

    Raises:
        UsageError: if data are given and have no sample, or cannot be read.
    """
    generator = pipeline.generator_params
    # Params that the code of `val_gen` creates are not given by an option, and yet on purpose.
    is_option = generator is getattr(gen, "val", None)
    options = _chosen_options(generator) if is_option else []
    try:
        with below("gen.val") if is_option else contextlib.nullcontext():
            size = known_size(pipeline.generator)
    except UsageError:
        if is_option and not options:
            return False  # e.g. no file is named
        raise
    if size is None or size > 0:
        return True
    if is_option and not options:
        return False
    given = ", ".join(f"{option.label} {shorten(option.value)}" for option in options)
    source = shorten_text(given, OPTIONS_LIMIT) or f"val_gen returns {type(generator).__name__}"
    raise FieldAdvice(
        f"the validation data have no sample ({source}): correct that, give no validation data at all, or switch the "
        "validation off with {val_every_n} 0",
        "val_every_n",
    )


def _chosen_options(generator: DataGeneratorParams) -> list[Setting]:
    """Return the options of a generator that differ from the defaults of its class."""
    try:
        return differences(type(generator)(), generator, "val")
    except TypeError:  # a field without a default was given
        return [Setting("val", generator)]
