"""Evaluation at the end of an epoch: validation and LAV."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import keras

from tfaip.backend.active import backend
from tfaip.data.pipeline.batching import Batch, Shard, shard_batch
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.errors import TfaipError, UsageError
from tfaip.evaluator.evaluator import plots, scalar_results
from tfaip.lav.evaluation import PredictionEvaluation, prints_samples
from tfaip.model.losses import INPUT_GRADIENT, REGULARIZATION, TOTAL_LOSS
from tfaip.predict.modelpass import EvaluationStopped
from tfaip.trainer.run.names import EPOCH_MEAN, VALIDATION, VALIDATION_PREFIX, lav_events
from tfaip.trainer.stepcallbacks import StepCallbacks, UserCallbacks, python_logs
from tfaip.trainer.training import Training, is_due
from tfaip.util.logging import logger
from tfaip.util.typing import Logs

log = logger(__name__)


def with_epoch_mean(logs: Logs) -> Logs:
    """Return values with the loss under both of its names."""
    return {**logs, EPOCH_MEAN: logs[TOTAL_LOSS]} if TOTAL_LOSS in logs else logs


@dataclass
class Measured:
    """Results of an evaluation.

    Args:
        values: values by name, with prefix.
        drawings: plots for TensorBoard: directory -> tag -> plot.
        has_lav: True if LAV has run.
    """

    values: Logs = field(default_factory=dict)
    drawings: dict[str, dict[str, Any]] = field(default_factory=dict)
    has_lav: bool = False


class EpochEvaluation:
    """Validation (on the training graph) and LAV (on the prediction graph), each in its epochs."""

    def __init__(self, training: Training) -> None:
        self._training, self._params, self._model = training, training.params, training.model

    def runs_lav_after(self, epoch: int, is_last: bool) -> bool:
        """Return True in every n-th epoch, the first and the last, but not before `lav_min_epoch`."""
        params = self._params
        due = epoch == 1 or is_last or is_due(epoch, params.lav_every_n, self._training.stage.last_epoch)
        return params.lav_every_n > 0 and due and epoch >= params.lav_min_epoch

    def run(self, epoch: int, callbacks: UserCallbacks, is_last: Callable[[Logs], bool]) -> Measured:
        """Evaluate an epoch."""
        training, measured = self._training, Measured()
        if training.val_data is not None and training.validates_after(epoch):
            callbacks.on_test_begin()
            values = self.validate(training.val_data, callbacks.for_batches)
            callbacks.on_test_end(dict(values))
            measured.values.update({f"{VALIDATION_PREFIX}{name}": value for name, value in values.items()})
            measured.drawings[VALIDATION] = training.events.draw()
            if not self._params.val_silent and prints_samples(training.scenario):
                self._prediction.print_samples(training.val_data)
        if self.runs_lav_after(epoch, is_last(measured.values)):
            measured.has_lav = True
            for i, pipeline in enumerate(training.lav_data):
                # A new one each time, so that no worker waits until the next evaluation.
                seeded = pipeline.with_seed(self._params.random_seed or 0)
                results = self._prediction.run_pipeline(seeded)
                values = with_epoch_mean(scalar_results(results))
                measured.values.update({f"{lav_events(i)}_{name}": value for name, value in values.items()})
                measured.drawings[lav_events(i)] = {**training.events.draw(), **plots(results)}
        return measured

    def validate(self, data: DataPipeline, user_callbacks: keras.callbacks.CallbackList | None = None) -> Logs:
        """Return the losses and metrics of the training graph on one pass over data, by name."""
        training, display, total = self._training, self._training.display, None
        with contextlib.suppress(UsageError):  # the size of the data is not known
            total = data.num_batches(data.epoch_size())
        display.start("Validation", total, 0)
        should_stop = self._is_asked_to_stop
        steps = StepCallbacks(self._model, display, total, user_callbacks=user_callbacks, should_stop=should_stop)
        try:
            lengths = data.params.bucket_lengths()
            with (
                data.drops_logged(),
                training.feed(_batches(data, self._training.devices.shard), lengths) as feed,
                self._model.failures_named(),
                warnings.catch_warnings(),
                backend.numerics_checked() if self._params.debug_nonfinite else contextlib.nullcontext(),
            ):
                # The number of batches is known when the data end. Keras warns about that every time, with a warning
                # that has no class of its own: only the text tells it from others.
                warnings.filterwarnings("ignore", message="Your input ran out of data")
                dataset = self._model.choose_evaluation(feed.dataset)
                values = self._model.evaluate(dataset, verbose=0, callbacks=steps, return_dict=True)
        except FloatingPointError as error:
            raise TfaipError(f"a value of the validation is not finite: {error}") from error
        finally:
            display.stop()
        if self._is_asked_to_stop():
            raise EvaluationStopped
        values.pop(INPUT_GRADIENT, None)  # computed in the training only
        if self._params.weight_penalties and not values.get(REGULARIZATION):  # that of layers is added to these
            values.pop(REGULARIZATION, None)
        return with_epoch_mean(python_logs(values))

    @cached_property
    def _prediction(self) -> PredictionEvaluation:
        params, setup = self._params, self._params.gen.setup.val
        flags = params.lav_silent, params.force_eager, self._is_asked_to_stop
        weights = self._model.loss_weights
        seed = params.random_seed or 0
        return PredictionEvaluation(
            self._training.scenario, setup, seed, *flags, devices=self._training.devices, loss_weights=weights
        )

    def _is_asked_to_stop(self) -> bool:
        """Return True in all processes if one of them has received a signal; all must ask after the same batches."""
        stop = self._training.run.stop
        stop.agree()
        return stop.received is not None


@contextlib.contextmanager
def _batches(pipeline: DataPipeline, shard: Shard) -> Iterator[Iterator[tuple[Batch, None]]]:
    """Open one pass over data of a validation, in which the position does not matter."""
    with pipeline.generate_input_batches(auto_repeat=False) as batches:
        yield ((shard_batch(batch, shard), None) for batch in batches)
