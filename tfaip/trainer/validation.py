"""Evaluation at the end of an epoch: validation and LAV."""

from __future__ import annotations

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
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.device.devices import Devices
from tfaip.errors import TfaipError, UsageError
from tfaip.evaluator.evaluator import plots, scalar_results
from tfaip.lav.evaluation import PredictionEvaluation, prints_samples
from tfaip.model.losses import INPUT_GRADIENT, REGULARIZATION, TOTAL_LOSS
from tfaip.model.trainingmodel import TrainingModel
from tfaip.params.fields import FieldAdvice
from tfaip.params.tree import flag_of
from tfaip.predict.modelpass import EvaluationStopped
from tfaip.trainer.datasets import Feeder, Scenario, known_size
from tfaip.trainer.params import Params
from tfaip.trainer.run.names import EPOCH_MEAN, VALIDATION, VALIDATION_PREFIX, lav_events
from tfaip.trainer.signals import StopRequest
from tfaip.trainer.stepcallbacks import StepCallbacks, UserCallbacks, python_logs
from tfaip.util.logging import logger
from tfaip.util.terminal import ProgressDisplay
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


@dataclass
class EpochEvaluation:
    """Validation (on the training graph) and LAV (on the prediction graph), each in its epochs.

    Args:
        params: the trainer params.
        scenario: the scenario that is trained.
        model: compiled and built.
        val: pipeline of the validation data; None: there is none.
        feeder: gives its batches to the model.
        display: shows the progress.
        stop: the stop request of a signal.
        draw: returns plots of the metrics with their current values.
        devices: devices of the training.
        last_epoch: last epoch of the stage, which is always validated.
    """

    params: Params
    scenario: Scenario
    model: TrainingModel
    val: DataPipeline | None
    feeder: Feeder
    display: ProgressDisplay
    stop: StopRequest
    draw: Callable[[], dict[str, Any]]
    devices: Devices
    last_epoch: int

    def __post_init__(self) -> None:
        self._lav_data: list[DataPipeline] = []
        params = self.params
        if not params.lav_every_n:
            return
        given = params.gen.lav_data(self.scenario.data)
        self._lav_data = [pipeline.to_mode(PipelineMode.EVALUATION) for pipeline in given]
        sizes = [known_size(pipeline.create_data_generator()) for pipeline in self._lav_data]
        if not sizes or 0 in sizes:
            raise FieldAdvice(
                f"{{lav_every_n}} is {params.lav_every_n}, but there are no data for LAV (by default those of the "
                "validation): give some, or leave it out",
                "lav_every_n",
            )
        if params.lav_min_epoch > params.epochs:
            flag = flag_of(params, params.flag_root, "lav_min_epoch")
            log.warning("LAV never runs: %s is %d, after the last epoch", flag, params.lav_min_epoch)

    def validates_after(self, epoch: int) -> bool:
        """Return True if the epoch ends with a validation."""
        return self.val is not None and is_due(epoch, self.params.val_every_n, self.last_epoch)

    def runs_lav_after(self, epoch: int, is_last: bool) -> bool:
        """Return True in every n-th epoch, the first and the last, but not before `lav_min_epoch`."""
        params = self.params
        due = epoch == 1 or is_last or is_due(epoch, params.lav_every_n, self.last_epoch)
        return params.lav_every_n > 0 and due and epoch >= params.lav_min_epoch

    def run(self, epoch: int, callbacks: UserCallbacks, is_last: Callable[[Logs], bool]) -> Measured:
        """Evaluate an epoch."""
        measured = Measured()
        if self.val is not None and self.validates_after(epoch):
            callbacks.on_test_begin()
            values = self.validate(self.val, callbacks.for_batches)
            callbacks.on_test_end(dict(values))
            measured.values.update({f"{VALIDATION_PREFIX}{name}": value for name, value in values.items()})
            measured.drawings[VALIDATION] = self.draw()
            if not self.params.val_silent and prints_samples(self.scenario):
                self._prediction.print_samples(self.val)
        if self.runs_lav_after(epoch, is_last(measured.values)):
            measured.has_lav = True
            for i, pipeline in enumerate(self._lav_data):
                # A new one each time, so that no worker waits until the next evaluation.
                seeded = pipeline.with_seed(self.params.random_seed or 0)
                results = self._prediction.run_pipeline(seeded)
                values = with_epoch_mean(scalar_results(results))
                measured.values.update({f"{lav_events(i)}_{name}": value for name, value in values.items()})
                measured.drawings[lav_events(i)] = {**self.draw(), **plots(results)}
        return measured

    def validate(self, data: DataPipeline, user_callbacks: keras.callbacks.CallbackList | None = None) -> Logs:
        """Return the losses and metrics of the training graph on one pass over data, by name."""
        total: int | None = None
        with contextlib.suppress(UsageError):  # the size of the data is not known
            total = data.num_batches(data.epoch_size())
        self.display.start("Validation", total, 0)
        should_stop = self._is_asked_to_stop
        steps = StepCallbacks(self.model, self.display, total, user_callbacks=user_callbacks, should_stop=should_stop)
        try:
            lengths = data.params.bucket_lengths()
            with (
                data.drops_logged(),
                self.feeder.feed(_batches(data, self.devices.shard), lengths) as feed,
                self.model.failures_named(),
                warnings.catch_warnings(),
                backend.numerics_checked() if self.params.debug_nonfinite else contextlib.nullcontext(),
            ):
                # The number of batches is known when the data end. Keras warns about that every time, with a warning
                # that has no class of its own: only the text tells it from others.
                warnings.filterwarnings("ignore", message="Your input ran out of data")
                dataset = self.model.choose_evaluation(feed.dataset)
                values = self.model.evaluate(dataset, verbose=0, callbacks=steps, return_dict=True)
        except FloatingPointError as error:
            raise TfaipError(f"a value of the validation is not finite: {error}") from error
        finally:
            self.display.stop()
        if self._is_asked_to_stop():
            raise EvaluationStopped
        values.pop(INPUT_GRADIENT, None)  # computed in the training only
        if self.params.weight_penalties and not values.get(REGULARIZATION):  # that of layers is added to these
            values.pop(REGULARIZATION, None)
        return with_epoch_mean(python_logs(values))

    @cached_property
    def _prediction(self) -> PredictionEvaluation:
        params, setup = self.params, self.params.gen.setup.val
        flags = params.lav_silent, params.force_eager, self._is_asked_to_stop
        weights = self.model.loss_weights
        seed = params.random_seed or 0
        return PredictionEvaluation(self.scenario, setup, seed, *flags, devices=self.devices, loss_weights=weights)

    def _is_asked_to_stop(self) -> bool:
        return self.stop.received is not None


def is_due(epoch: int, every_n: int, last: int) -> bool:
    """Return True in every n-th epoch and the last one; with 0 in none."""
    return every_n > 0 and (epoch % every_n == 0 or epoch == last)


@contextlib.contextmanager
def _batches(pipeline: DataPipeline, shard: Shard) -> Iterator[Iterator[tuple[Batch, None]]]:
    """Open one pass over data of a validation, in which the position does not matter."""
    with pipeline.generate_input_batches(auto_repeat=False) as batches:
        yield ((shard_batch(batch, shard), None) for batch in batches)
