"""The predictor: samples in, samples with outputs out, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeAlias

import keras

from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.datagenerator import RawDataGeneratorParams
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.device.devices import precision_scope
from tfaip.errors import TfaipError, UsageError
from tfaip.export.modelloading import load_exported
from tfaip.export.savedmodelformat import ServedModel, is_saved_model
from tfaip.model.predictionstep import PredictionStep
from tfaip.predict.modelpass import BenchmarkResults, run_pass, samples_of
from tfaip.predict.params import PredictorParams
from tfaip.util.classes import refuse_uncalled
from tfaip.util.logging import logger
from tfaip.util.terminal import can_show_bar, track
from tfaip.util.text import shorten
from tfaip.util.typing import TensorDict

_UNCALLED = dict.fromkeys(
    ("_on_sample_end", "_on_step_end", "_on_predict_end", "_unwrap_batch", "_print_prediction", "_load_model"),
    "predict_pipeline",
)
log = logger(__name__)

# From a batch of inputs to its outputs, arrays or tensors.
Step: TypeAlias = Callable[[TensorDict], TensorDict]
# A directory, a graph or another Keras model, or a function of batches.
Model: TypeAlias = str | Path | keras.layers.Layer | Step


class Predictor:
    """Applies a model to data. Build it with `ScenarioBase.create_predictor`.

    Samples come out lazily, one by one, in the order of the data, after the post-processing.
    Nothing is kept, so data may be endless.

    Args:
        params: the predictor params.
        data: makes the pipelines.
    """

    def __init__(self, params: PredictorParams, data: DataBase[Any]) -> None:
        refuse_uncalled(type(self), Predictor, _UNCALLED)
        self._params = params
        self._data = data
        self._steps: list[Step] = []
        self._benchmark = BenchmarkResults()

    @property
    def params(self) -> PredictorParams:
        """The predictor params."""
        return self._params

    @property
    def data(self) -> DataBase[Any]:
        """The data, which makes the pipelines."""
        return self._data

    @property
    def benchmark_results(self) -> BenchmarkResults:
        """Counts and times of the last prediction; they grow while samples come out."""
        return self._benchmark

    def set_model(self, model: Model) -> None:
        """Choose the model.

        Args:
            model: the directory of an exported model or of a SavedModel (which is a program: load only what you trust),
                a built graph or another Keras model, or a function from a batch of inputs to its outputs.

        Raises:
            UsageError: if the directory holds no model, or a SavedModel that does not fit the data.
            TfaipError: if the model is damaged.
        """
        self._steps = [self._create_step(model)]

    def predict(self, generator_params: DataGeneratorParams) -> Iterator[Sample]:
        """Predict the samples of a generator.

        Raises:
            TypeError: if `generator_params` are no params of a generator, but for example an array.
        """
        return self.predict_database(self._data, generator_params)

    def predict_raw(self, samples: Iterable[Any]) -> Iterator[Sample]:
        """Predict samples as a generator would give them, before the pre-processing.

        Args:
            samples: samples, or only their inputs. There may be endlessly many of them. Without
                processors before the model, the only input of a model may be given as a bare array.

        Raises:
            TypeError: if `samples` is a single sample, or no iterable.
        """
        if isinstance(samples, (Sample, Mapping, str, bytes)) or not isinstance(samples, Iterable):
            raise TypeError(
                "predict_raw takes several samples or inputs, as in predict_raw([{'x': array}]), got "
                f"{shorten(samples)}"
            )
        converted: Iterable[Sample] = (_raw_sample(self._data, one) for one in samples)
        if isinstance(samples, Sequence):
            converted = list(converted)  # of known length
        return self.predict(RawDataGeneratorParams(samples=converted))

    def predict_database(self, database: DataBase[Any], generator_params: DataGeneratorParams) -> Iterator[Sample]:
        """Predict the samples of a generator with the processors of other data than the model's."""
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
        """Return a function that predicts single samples, for services.

        As a context manager it keeps the worker processes of the post-processing, if there are any.
        """
        self._require_model()
        return RawPredictor(self)

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
        if not self._steps:
            raise UsageError("the predictor has no model: call set_model or set_models")

    def _pipeline(self, data: DataBase[Any], generator_params: DataGeneratorParams) -> DataPipeline:
        mode = PipelineMode.EVALUATION if self._params.include_targets else PipelineMode.PREDICTION
        return (
            data.create_pipeline(self._params.pipeline, generator_params)
            .to_mode(mode)
            .with_seed(self._params.random_seed)
        )

    def _run(self, pipeline: DataPipeline, silent: bool) -> Iterator[Sample]:
        self._benchmark = BenchmarkResults()
        with nullcontext() if silent else pipeline.drops_logged():
            for sample in self._processed(self._predicted(pipeline, silent), pipeline):
                yield self._finished(sample)
        if not silent:
            log.info("%s", self._benchmark)

    def _processed(self, predicted: Iterable[Any], pipeline: DataPipeline) -> Iterator[Sample]:
        """Run the post-processing on what `_unbatch` has made."""
        return pipeline.process_output(predicted)

    def _predicted(self, pipeline: DataPipeline, silent: bool) -> Iterator[Any]:
        total = _num_batches(pipeline)
        bar = self._params.progress_bar and not silent and can_show_bar()
        # Data of known length are available: the next batch is read while the device computes. A
        # stream may wait for the answer to one sample before it gives the next.
        read_ahead = 0 if total is None else 1
        return run_pass(
            pipeline,
            self._start,
            self._unbatch,
            self._benchmark,
            read_ahead=read_ahead,
            progress=lambda batches: track(batches, "Prediction", total, bar, "batch"),
        )

    def _start(self, batch: Batch) -> list[TensorDict]:
        return [step(batch.inputs) for step in self._steps]

    def _unbatch(self, batch: Batch, outputs: list[TensorDict]) -> Iterable[Any]:
        """Return the samples of a batch, given the outputs of each model."""
        return samples_of(batch, outputs[0])

    def _finished(self, sample: Sample) -> Sample:
        """Return a post-processed sample as the user gets it."""
        if not self._params.include_meta and sample.meta is not None:
            sample = sample.new_meta(None)
        if not self._params.include_targets and sample.targets is not None:
            sample = sample.new_targets(None)
        return sample


class RawPredictor:
    """Function that predicts one sample at a time, and context manager. Build it with `Predictor.raw`.

    The processors are built once.

    Args:
        predictor: has the model.
    """

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self._samples: list[Sample] = []
        pipeline = predictor._pipeline(predictor.data, RawDataGeneratorParams(samples=self._samples))
        alone = replace(pipeline.params, batch_size=1, batch_drop_remainder=False, num_processes=0)
        self._pipeline = pipeline.with_params(alone)

    def __enter__(self) -> Self:
        self._pipeline.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._pipeline.__exit__(*error)

    def __call__(self, sample: Any) -> Sample:
        """Pre-process, predict and post-process a sample."""
        self._samples[:] = [_raw_sample(self._predictor.data, sample)]
        predicted = list(self._predictor._run(self._pipeline, silent=True))
        if len(predicted) != 1:
            raise TfaipError(
                f"the processors made {len(predicted)} samples of one, expected 1: predict_raw gives them all"
            )
        return predicted[0]


def _raw_sample(data: DataBase[Any], value: Any) -> Sample:
    """Return a sample, or the sample with these inputs; without processors an array is the only input of the model."""
    if isinstance(value, Sample):
        return value
    if isinstance(value, Mapping) or not hasattr(value, "shape") or data.params.pre_proc.flatten_processors():
        return Sample(inputs=value)
    specs = data.input_layer_specs()
    if len(specs) > 1:
        raise TypeError(f"the model reads a dict of {', '.join(specs)}, got an array of shape {list(value.shape)}")
    return Sample(inputs=dict.fromkeys(specs, value))


def _num_batches(pipeline: DataPipeline) -> int | None:
    try:
        return pipeline.num_batches(pipeline.epoch_size())
    except UsageError:
        return None  # endless, or of unknown length
