"""What is measured at the end of an epoch: the validation and LAV."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import keras

from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.data.pipeline.feed import Feed
from tfaip.data.pipeline.sharding import Shard, rows_of
from tfaip.device.devices import Devices
from tfaip.errors import UsageError
from tfaip.lav.evaluation import EvaluationStopped, PredictionEvaluation, drawings, numbers
from tfaip.model.trainingmodel import INPUT_GRADIENT, TOTAL_LOSS, TrainingModel
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.trainer.callbacks.progress import EpochProgress
from tfaip.trainer.hooks import StepHooks, python_logs
from tfaip.trainer.lognames import EPOCH_MEAN, VALIDATION, VALIDATION_PREFIX, lav_events, lav_prefix
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.restbatches import RestBatches
from tfaip.trainer.signals import StopRequest
from tfaip.util.typing import Logs


def with_epoch_mean(logs: Logs) -> Logs:
    """Values with the loss under both of its names."""
    return {**logs, EPOCH_MEAN: logs[TOTAL_LOSS]} if TOTAL_LOSS in logs else logs


@dataclass(frozen=True)
class Measured:
    """What was measured after an epoch.

    Args:
        values: by name, with prefix.
        drawings: for TensorBoard: directory -> tag -> what is drawn.
        has_lav: whether LAV is among it.
    """

    values: Logs = field(default_factory=dict)
    drawings: dict[str, dict[str, Any]] = field(default_factory=dict)
    has_lav: bool = False


class EpochEvaluation:
    """Validation (on the training graph) and LAV (on the prediction graph), each in its epochs.

    Args:
        params: the trainer params.
        scenario: what is trained.
        model: compiled and built.
        val: pipeline of the validation data; None if there is none.
        progress: shows progress.
        stop: tells whether a signal asked to stop.
        draw: what TensorBoard shows of the metrics as they are.
        devices: what the training runs on.
    """

    def __init__(
        self,
        params: TrainerParams[Any, Any],
        scenario: ScenarioBase[Any, Any],
        model: TrainingModel,
        val: DataPipeline | None,
        progress: EpochProgress,
        stop: StopRequest,
        draw: Callable[[], dict[str, Any]],
        devices: Devices,
    ) -> None:
        self._params = params
        self._scenario = scenario
        self._model = model
        self.val = val
        self._progress = progress
        self._stop = stop
        self._draw = draw
        self._devices = devices
        self._lav_generators = _lav_generators(params) if params.lav_every_n else []
        self._prediction: PredictionEvaluation | None = None

    def is_validated(self, epoch: int) -> bool:
        """Whether the epoch ends with a validation."""
        return self.val is not None and _is_due(epoch, self._params.val_every_n, self._params.epochs)

    def is_lav(self, epoch: int, is_last: bool) -> bool:
        """Whether the epoch ends with LAV: every n epochs, the first and the last, but not before `lav_min_epoch`."""
        params = self._params
        due = epoch == 1 or is_last or _is_due(epoch, params.lav_every_n, params.epochs)
        return params.lav_every_n > 0 and due and epoch >= params.lav_min_epoch

    def run(
        self,
        epoch: int,
        callbacks: keras.callbacks.CallbackList,
        batch_callbacks: keras.callbacks.CallbackList | None,
        is_last: Callable[[Logs], bool],
    ) -> Measured:
        """Measure an epoch.

        Args:
            epoch: from 1.
            callbacks: of the user.
            batch_callbacks: the same if they have methods per batch.
            is_last: whether the training stops early, told from the values of the validation (none: there was none).

        Raises:
            EvaluationStopped: a signal asked to stop.
        """
        measured = Measured()
        if self.is_validated(epoch):
            callbacks.on_test_begin()
            values = self._validate(batch_callbacks)
            callbacks.on_test_end(dict(values))
            measured.values.update({f"{VALIDATION_PREFIX}{name}": value for name, value in values.items()})
            measured.drawings[VALIDATION] = self._draw()
        if not self.is_lav(epoch, is_last(measured.values)):
            return measured
        self._lav(measured)
        return replace(measured, has_lav=True)

    def _validate(self, batch_callbacks: keras.callbacks.CallbackList | None) -> Logs:
        assert self.val is not None  # noqa: S101 (asked by the caller)
        self._progress.start("Validation", None, 0)
        hooks = StepHooks(
            self._model, None, 0, self._progress, lambda _: self._is_asked_to_stop(), user_callbacks=batch_callbacks
        )
        backend = keras.backend.backend()
        rest = RestBatches(self._devices.num_shares if backend == "jax" else 1)
        try:
            batches = _without_positions(self.val, rest, self._devices.shard)
            lengths = self.val.params.bucket_lengths()
            with (
                Feed(batches, self._scenario.data, backend, lengths) as feed,
                warnings.catch_warnings(),
            ):
                # The number of batches is known when the data ends, which Keras takes for an accident.
                warnings.filterwarnings("ignore", message="Your input ran out of data")
                values = self._model.evaluate(feed.dataset, verbose=0, callbacks=hooks, return_dict=True)
            if rest.batches:
                values = rest.evaluate(self._model)
        finally:
            self._progress.stop()
        if self._is_asked_to_stop():
            raise EvaluationStopped
        values.pop(INPUT_GRADIENT, None)  # computed in the training alone
        return with_epoch_mean(python_logs(values))

    def _lav(self, measured: Measured) -> None:
        if self._prediction is None:
            params = self._params
            self._prediction = PredictionEvaluation(
                self._scenario,
                params.gen.setup.val,
                params.random_seed or 0,
                params.lav_silent,
                params.force_eager,
                self._is_asked_to_stop,
                devices=self._devices,
            )
        for i, generator in enumerate(self._lav_generators):
            results = self._prediction.run(generator)
            values = with_epoch_mean(numbers(results))
            measured.values.update({f"{lav_prefix(i)}{name}": value for name, value in values.items()})
            measured.drawings[lav_events(i)] = {**self._draw(), **drawings(results)}

    def _is_asked_to_stop(self) -> bool:
        return self._stop.received is not None


def _lav_generators(params: TrainerParams[Any, Any]) -> Sequence[DataGeneratorParams]:
    generators = list(params.gen.lav_gen())
    if not generators or any(_is_empty(generator) for generator in generators):
        raise UsageError(
            f"lav_every_n is {params.lav_every_n}, but there are no data for LAV (by default those of the validation): "
            "give some, or leave out --trainer.lav_every_n"
        )
    return generators


def _is_empty(generator: DataGeneratorParams) -> bool:
    try:
        return len(generator.create(PipelineMode.EVALUATION)) == 0
    except TypeError:
        return False  # of unknown length


def _is_due(epoch: int, every_n: int, last: int) -> bool:
    return every_n > 0 and (epoch % every_n == 0 or epoch == last)


@contextlib.contextmanager
def _without_positions(
    pipeline: DataPipeline, rest: RestBatches, shard: Shard
) -> Iterator[Iterator[tuple[Batch, None]]]:
    with pipeline.generate_input_batches(auto_repeat=False) as batches:
        yield ((rows_of(batch, shard), None) for batch in batches if rest.is_split(batch))
