"""Data of a training: pipelines, and the datasets that `fit` reads."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import numpy as np

from tfaip.backend.active import backend
from tfaip.backend.environment import compiles_each_shape
from tfaip.backend.kerastools import MARK
from tfaip.components.scenario import ScenarioComponents
from tfaip.data.data import DataBase
from tfaip.data.pipeline.batching import Batch, LengthPadding
from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, SampleSpecs
from tfaip.data.pipeline.sampler import Position
from tfaip.data.pipeline.workerpool import prefetched
from tfaip.data.specs import TensorSpec
from tfaip.device.devices import Devices
from tfaip.errors import UsageError
from tfaip.params.fields import FieldAdvice, below
from tfaip.params.tree import diff, flag_of
from tfaip.trainer.params import Params, TrainerPipelineParamsBase
from tfaip.trainer.reporting.progress import shows_bar
from tfaip.util.logging import logger
from tfaip.util.typing import Element

log = logger(__name__)

Scenario = ScenarioComponents[Any, Any]
OpenBatches = AbstractContextManager[Iterator[tuple[Batch, Position | None]]]


# Pipelines


def create_training_pipeline(params: Params, scenario: Scenario, data: DataBase[Any] | None = None) -> DataPipeline:
    """Return the pipeline of the training data, with the seed of the run."""
    pipeline = _with_seed(params.gen.train_data(data or scenario.data), params, PipelineMode.TRAINING)
    if pipeline.generator_params is getattr(params.gen, "train", None) and params.samples_per_epoch == -1:
        with below("gen.train"):  # what tells the length is read here, so that an error names a flag of the generator
            known_size(pipeline.generator)
    return _preloaded(pipeline, params)


def create_validation_pipeline(params: Params, scenario: Scenario) -> DataPipeline | None:
    """Return the pipeline of the validation data; None: there is no validation."""
    # Without validation its data, files that the user has not named, need not exist.
    pipeline = None if params.val_every_n == 0 else params.gen.val_data(scenario.data)
    if pipeline is None:
        return None
    pipeline = _with_seed(pipeline, params, PipelineMode.EVALUATION)
    return _preloaded(pipeline, params) if has_validation_data(params.gen, pipeline) else None


def create_lav_pipelines(params: Params, scenario: Scenario) -> list[DataPipeline]:
    """Return the pipelines of the data for LAV; none if it never runs."""
    if not params.lav_every_n:
        return []
    pipelines = [pipeline.to_mode(PipelineMode.EVALUATION) for pipeline in params.gen.lav_data(scenario.data)]
    sizes = [known_size(pipeline.create_data_generator()) for pipeline in pipelines]
    if not sizes or 0 in sizes:
        raise FieldAdvice(
            f"{{lav_every_n}} is {params.lav_every_n}, but there are no data for LAV (by default those of the "
            "validation): give some, or leave it out",
            "lav_every_n",
        )
    if params.lav_min_epoch > params.epochs:
        flag = flag_of(params, params.flag_root, "lav_min_epoch")
        log.warning("LAV never runs: %s is %d, after the last epoch", flag, params.lav_min_epoch)
    return pipelines


def known_size(generator: DataGenerator[Any]) -> int | None:
    """Return the number of samples of one pass; None: it is not known."""
    try:
        return len(generator)
    except (TypeError, NotImplementedError):
        return None


def first_batch(pipeline: DataPipeline) -> Batch:
    """Return the first batch of a pipeline of the validation data, or without these of the training data."""
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
    """
    generator = pipeline.generator_params
    # Params that the code of `val_gen` creates are not given by an option, and yet on purpose.
    is_option, is_default = generator is getattr(gen, "val", None), False
    with contextlib.suppress(TypeError):  # a field without a default was given
        is_default = is_option and not diff(type(generator)(), generator)
    try:
        with below("gen.val") if is_option else contextlib.nullcontext():
            size = known_size(pipeline.generator)
    except UsageError:
        if is_default:  # e.g. no file is named
            return False
        raise
    if size == 0 and not is_default:
        raise FieldAdvice(
            f"the validation data ({type(generator).__name__}) have no sample: correct their options, leave out all, "
            "or switch the validation off with {val_every_n} 0",
            "val_every_n",
        )
    return size != 0


def check_batch_sizes(params: Params, devices: Devices) -> None:
    """Raise unless all batches can be shared among the devices."""
    setup = params.gen.setup
    for name, pipeline in (("train", setup.train), ("val", setup.val)):
        with below(f"gen.setup.{name}"):
            devices.check_batch_size(pipeline.batch_size, "batch_size")
            for size in pipeline.bucket_batch_sizes or []:
                devices.check_batch_size(size, "bucket_batch_sizes")


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


class Feed:
    """Context of the batches of one call of `fit` or `evaluate`, which may read ahead of what it has trained.

    Args:
        data: gives the specs of inputs and targets.
        batches: opens the stream.
        lengths: that the variable dimensions are padded to, where each shape is compiled; none: as they are.
        devices: devices of this process, if several share the batches; 0: there is one.
    """

    def __init__(self, data: SampleSpecs, batches: OpenBatches, lengths: Sequence[int] = (), devices: int = 0) -> None:
        self._padding = LengthPadding(data, lengths) if compiles_each_shape() and lengths else None
        self._devices = devices
        marks = [{MARK: TensorSpec((), "bool")}] if devices else []
        self._positions: deque[Position | None] = deque()
        self._released = 0
        self._error: BaseException | None = None
        self._cause: BaseException | None = None
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._iterator: Iterator[tuple[Batch, Position | None]] | None = self._stack.enter_context(batches)
        elements = backend.prepared(self._elements(), bool(devices))
        if waiting := backend.num_waiting(bool(devices)):
            ahead = elements = prefetched(elements, waiting)
            self._stack.callback(ahead.close)
        specs = data.input_layer_specs(), data.target_layer_specs(), *marks
        self.dataset: Any = backend.dataset(specs, elements)

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any) -> None:
        """Close the stream; raise an error of the data pipeline as itself, not as the backend has reported it."""
        with self._lock:
            self._iterator = None
        self._stack.close()
        if self._error is not None:
            self._error.__cause__ = self._cause  # the traceback of a data worker, which Keras drops
            if error is not self._error:
                raise self._error from self._cause

    def position_after(self, batches: int) -> Position | None:
        """Return the position of the data after the first `batches` batches (at least 1); forget earlier ones."""
        while self._released < batches - 1:
            self._positions.popleft()
            self._released += 1
        return self._positions[0]

    def _elements(self) -> Iterator[Element]:
        while True:
            # The reader may be a thread of the backend; closing must wait for a batch that is being made.
            with self._lock:
                if self._iterator is None:
                    return
                try:
                    item = next(self._iterator, None)
                except BaseException as error:
                    self._error, self._cause = error, error.__cause__
                    raise
                if item is None:
                    return
                batch, position = item
                self._positions.append(position)
            element: Any = batch.inputs, batch.targets
            if self._padding is not None:
                element = self._padding(element)
            copies = self._devices if batch.is_whole else 1
            if copies > 1:
                element = [{key: np.concatenate([array] * copies) for key, array in part.items()} for part in element]
            if self._devices:
                element = (*element, {MARK: backend.mark(batch.size * copies, self._devices, batch.is_whole)})
            yield element
