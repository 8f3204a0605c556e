"""What is measured at the end of an epoch: the validation and LAV."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import keras

from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.feed import Feed
from tfaip.lav.evaluation import EvaluationStopped, PredictionEvaluation, numbers
from tfaip.model.trainingmodel import INPUT_GRADIENT, TOTAL_LOSS, TrainingModel
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.trainer.callbacks.progress import EpochProgress
from tfaip.trainer.hooks import StepHooks, python_logs
from tfaip.trainer.lognames import EPOCH_MEAN, VALIDATION_PREFIX, lav_prefix
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.signals import StopRequest
from tfaip.util.typing import Logs


def with_epoch_mean(logs: Logs) -> Logs:
    """Values with the loss under both of its names."""
    return {**logs, EPOCH_MEAN: logs[TOTAL_LOSS]} if TOTAL_LOSS in logs else logs


class EpochEvaluation:
    """Validation (on the training graph) and LAV (on the prediction graph), each in its epochs.

    Args:
        params: the trainer params.
        scenario: what is trained.
        model: compiled and built.
        val: pipeline of the validation data; None if there is none.
        progress: shows progress.
        stop: tells whether a signal asked to stop.
    """

    def __init__(
        self,
        params: TrainerParams[Any, Any],
        scenario: ScenarioBase[Any, Any],
        model: TrainingModel,
        val: DataPipeline | None,
        progress: EpochProgress,
        stop: StopRequest,
    ) -> None:
        self._params = params
        self._scenario = scenario
        self._model = model
        self._val = val
        self._progress = progress
        self._stop = stop
        self._lav_generators: Sequence[DataGeneratorParams] = list(params.gen.lav_gen()) if params.lav_every_n else []
        self._prediction: PredictionEvaluation | None = None

    def is_validated(self, epoch: int) -> bool:
        """Whether the epoch ends with a validation."""
        return self._val is not None and _is_due(epoch, self._params.val_every_n, self._params.epochs)

    def is_lav(self, epoch: int) -> bool:
        """Whether the epoch ends with LAV: every n epochs, the first and the last, but not before `lav_min_epoch`."""
        params = self._params
        due = epoch == 1 or _is_due(epoch, params.lav_every_n, params.epochs)
        return params.lav_every_n > 0 and due and epoch >= params.lav_min_epoch

    def run(self, epoch: int, batch_callbacks: keras.callbacks.CallbackList | None) -> Logs:
        """Measure an epoch.

        Args:
            epoch: from 1.
            batch_callbacks: callbacks of the user with methods per batch.

        Returns:
            values by name, with prefix.

        Raises:
            EvaluationStopped: a signal asked to stop.
        """
        values: Logs = {}
        if self.is_validated(epoch):
            values.update({f"{VALIDATION_PREFIX}{n}": v for n, v in self._validate(batch_callbacks).items()})
        if self.is_lav(epoch):
            values.update(self._lav())
        return values

    def _validate(self, batch_callbacks: keras.callbacks.CallbackList | None) -> Logs:
        assert self._val is not None  # noqa: S101 (asked by the caller)
        self._progress.start("Validation", None, 0)
        hooks = StepHooks(
            self._model, None, 0, self._progress, lambda _: self._is_asked_to_stop(), user_callbacks=batch_callbacks
        )
        try:
            batches = _without_positions(self._val)
            lengths = self._val.params.bucket_lengths()
            with (
                Feed(batches, self._scenario.data, keras.backend.backend(), lengths) as feed,
                warnings.catch_warnings(),
            ):
                # The number of batches is known when the data ends, which Keras takes for an accident.
                warnings.filterwarnings("ignore", message="Your input ran out of data")
                values = self._model.evaluate(feed.dataset, verbose=0, callbacks=hooks, return_dict=True)
        finally:
            self._progress.stop()
        if self._is_asked_to_stop():
            raise EvaluationStopped
        values.pop(INPUT_GRADIENT, None)  # computed in the training alone
        return with_epoch_mean(python_logs(values))

    def _lav(self) -> Logs:
        if self._prediction is None:
            params = self._params
            self._prediction = PredictionEvaluation(
                self._scenario,
                params.gen.setup.val,
                params.random_seed or 0,
                params.lav_silent,
                params.force_eager,
                self._is_asked_to_stop,
            )
        values: Logs = {}
        for i, generator in enumerate(self._lav_generators):
            results = with_epoch_mean(numbers(self._prediction.run(generator)))
            values.update({f"{lav_prefix(i)}{name}": value for name, value in results.items()})
        return values

    def _is_asked_to_stop(self) -> bool:
        return self._stop.received is not None


def _is_due(epoch: int, every_n: int, last: int) -> bool:
    return every_n > 0 and (epoch % every_n == 0 or epoch == last)


@contextlib.contextmanager
def _without_positions(pipeline: DataPipeline) -> Iterator[Iterator[tuple[Batch, None]]]:
    with pipeline.generate_input_batches(auto_repeat=False) as batches:
        yield ((batch, None) for batch in batches)
