"""The predictor: samples in, samples with outputs out, one after the other."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import keras
import numpy as np

from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.datagenerator import RawDataGeneratorParams
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.device.devices import precision_scope
from tfaip.errors import TfaipError, UsageError
from tfaip.model.predictionstep import PredictionStep
from tfaip.model.servedmodel import ServedModel, is_saved_model
from tfaip.predict.benchmark import BenchmarkResults
from tfaip.predict.params import PredictorParams
from tfaip.predict.unbatch import samples_of
from tfaip.scenario.exported import load_exported
from tfaip.util.backend import compiles_each_shape
from tfaip.util.logging import logger
from tfaip.util.progress import track
from tfaip.util.text import shorten
from tfaip.util.typing import TensorDict

log = logger(__name__)

T = TypeVar("T")
# From a batch of inputs to its outputs, arrays or tensors.
Step: TypeAlias = Callable[[TensorDict], TensorDict]
# A directory, a graph or another Keras model, or a function of batches.
Model: TypeAlias = str | Path | keras.layers.Layer | Step


class Predictor:
    """Applies a model to data. Build it with `ScenarioBase.create_predictor`.

    Samples come out lazily, one by one, in the order of the data, after the post-processing. Nothing is kept: endless
    data need no more memory than one batch.

    Args:
        params: how.
        data: makes the pipelines.
    """

    def __init__(self, params: PredictorParams, data: DataBase[Any]) -> None:
        self._params = params
        self._data = data
        self._step: Step | None = None
        self._benchmark = BenchmarkResults()

    @property
    def params(self) -> PredictorParams:
        """The params."""
        return self._params

    @property
    def data(self) -> DataBase[Any]:
        """The data."""
        return self._data

    @property
    def benchmark_results(self) -> BenchmarkResults:
        """How fast the last prediction was; it grows while samples come out."""
        return self._benchmark

    def set_model(self, model: Model) -> None:
        """Choose the model.

        Args:
            model: the directory of an exported model, that of a SavedModel (which is a program: load what you trust), a
                built graph or another Keras model, or a function from a batch of inputs to its outputs.

        Raises:
            UsageError: nothing of this kind, or a SavedModel that does not fit the data.
            TfaipError: it is damaged.
        """
        self._step = self._create_step(model)

    def predict(self, generator_params: DataGeneratorParams) -> Iterator[Sample]:
        """Predict the samples of a generator.

        Raises:
            TypeError: if it is given anything else than params of a generator, for example an array.
        """
        return self.predict_database(self._data, generator_params)

    def predict_raw(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Predict samples as a generator would give them, before the pre-processing; they may be endless.

        Raises:
            TypeError: if it is given anything else than samples.
        """
        if isinstance(samples, (Sample, Mapping, str)) or not isinstance(samples, Iterable):
            raise _no_samples(samples)
        if isinstance(samples, (Sequence, np.ndarray)) and len(samples) and not isinstance(samples[0], Sample):
            raise _no_samples(samples)
        return self.predict(RawDataGeneratorParams(samples=samples))

    def predict_database(self, database: DataBase[Any], generator_params: DataGeneratorParams) -> Iterator[Sample]:
        """Predict the samples of a generator with the processors of other data than the predictor's own."""
        if not isinstance(generator_params, DataGeneratorParams):
            raise TypeError(
                f"predict takes the params of a data generator, got {type(generator_params).__name__}: give samples in "
                "memory to predict_raw, as in predict_raw([Sample(inputs={'x': array})])"
            )
        return self.predict_pipeline(self._pipeline(database, generator_params))

    def predict_pipeline(self, pipeline: DataPipeline) -> Iterator[Sample]:
        """Predict one pass over a pipeline, in its own mode."""
        self._require_model()
        return self._run(pipeline, silent=self._params.silent)

    def raw(self) -> RawPredictor:
        """A function that predicts single samples, for services."""
        self._require_model()
        samples: list[Sample] = []
        pipeline = self._pipeline(self._data, RawDataGeneratorParams(samples=samples))
        pipeline.params = replace(pipeline.params, batch_size=1, num_processes=0)
        return RawPredictor(samples, lambda: self._run(pipeline, silent=True))

    def _create_step(self, model: Model) -> Step:
        if isinstance(model, keras.layers.Layer):
            return PredictionStep(model, self._params.run_eagerly)
        if not isinstance(model, (str, Path)):
            return model
        path = Path(model)
        if is_saved_model(path):
            served = ServedModel(path)
            served.require_inputs(self._data.input_layer_specs())
            return served
        with precision_scope(self._params.device.precision):
            return PredictionStep(load_exported(path).graph, self._params.run_eagerly)

    def _require_model(self) -> None:
        if self._step is None:
            raise UsageError("the predictor has no model: call set_model")

    def _pipeline(self, data: DataBase[Any], generator_params: DataGeneratorParams) -> DataPipeline:
        mode = PipelineMode.EVALUATION if self._params.include_targets else PipelineMode.PREDICTION
        pipeline = data.create_pipeline(self._params.pipeline, generator_params).to_mode(mode)
        pipeline.seed = self._params.random_seed
        return pipeline

    def _run(self, pipeline: DataPipeline, silent: bool) -> Iterator[Sample]:
        self._benchmark = BenchmarkResults()
        for sample in pipeline.process_output(self._predicted(pipeline, self._benchmark, silent)):
            yield self._finished(sample)
        if not silent:
            log.info("%s", self._benchmark)

    def _predicted(self, pipeline: DataPipeline, benchmark: BenchmarkResults, silent: bool) -> Iterator[Sample]:
        total = _num_batches(pipeline)
        shown = self._params.progress_bar and not silent and sys.stdout.isatty()
        # Data of known length are there: while the device is at work, the next batch is read. A stream may wait for the
        # answer to a sample before it gives another one.
        ahead = 0 if total is None else 1
        began = time.perf_counter()
        with pipeline.generate_input_batches(auto_repeat=False, few_shapes=compiles_each_shape()) as batches:
            running = (self._started(batch, benchmark) for batch in track(batches, "Prediction", total, shown))
            for batch, outputs in _behind(running, ahead):
                with benchmark.in_model():
                    samples = self._samples(batch, outputs)
                benchmark.count(batch.size, began)
                yield from samples

    def _started(self, batch: Batch, benchmark: BenchmarkResults) -> tuple[Batch, Any]:
        with benchmark.in_model():
            return batch, self._start(batch)

    def _start(self, batch: Batch) -> Any:
        """Start the model on a batch; returns its outputs, which need not be there yet."""
        assert self._step is not None  # noqa: S101 (asked before the first batch)
        return self._step(batch.inputs)

    def _samples(self, batch: Batch, outputs: Any) -> Iterable[Sample]:
        """The samples of a batch with their outputs, when they are there."""
        return samples_of(batch, outputs)

    def _finished(self, sample: Sample) -> Sample:
        """A sample behind the post-processing as the user gets it."""
        if not self._params.include_meta and sample.meta is not None:
            sample = sample.new_meta(None)
        if not self._params.include_targets and sample.targets is not None:
            sample = sample.new_targets(None)
        return sample


class RawPredictor:
    """Predicts one sample at a time. Build it with `Predictor.raw`; its processors are built once.

    Args:
        samples: the list that `run` reads.
        run: predicts what stands in `samples`.
    """

    def __init__(self, samples: list[Sample], run: Callable[[], Iterator[Sample]]) -> None:
        self._samples = samples
        self._run = run

    def __call__(self, sample: Sample) -> Sample:
        """Pre-process, predict and post-process a sample.

        Raises:
            TfaipError: the processors made no sample of it, or several.
        """
        if not isinstance(sample, Sample):
            raise TypeError(f"expected a Sample, as in Sample(inputs={{'x': array}}), got {type(sample).__name__}")
        self._samples[:] = [sample]
        predicted = list(self._run())
        if len(predicted) != 1:
            raise TfaipError(
                f"the processors made {len(predicted)} samples of one, expected 1: predict_raw gives them all"
            )
        return predicted[0]


def _no_samples(value: Any) -> TypeError:
    return TypeError(
        f"predict_raw takes samples, as in predict_raw([Sample(inputs={{'x': array}})]), got {shorten(value)}"
    )


def _behind(items: Iterable[T], distance: int) -> Iterator[T]:
    """Pass each item on when `distance` more have been read."""
    waiting: deque[T] = deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > distance:
            yield waiting.popleft()
    yield from waiting


def _num_batches(pipeline: DataPipeline) -> int | None:
    try:
        return pipeline.num_batches(pipeline.epoch_size())
    except UsageError:
        return None  # endless, or of unknown length
