"""The epochs of a training, and the order of what happens at the end of each."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras

from tfaip import __version__
from tfaip.data.data import DataBase
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.failures import DropCounts
from tfaip.data.pipeline.feed import Feed
from tfaip.device.devices import Devices
from tfaip.lav.evaluation import EvaluationStopped
from tfaip.model.trainingmodel import TrainingModel
from tfaip.trainer.best import BestModel
from tfaip.trainer.callbacks.logger import result_line
from tfaip.trainer.callbacks.progress import EpochProgress
from tfaip.trainer.callbacks.tensorboard import TensorBoardEvents
from tfaip.trainer.divergence import DivergenceCheck
from tfaip.trainer.earlystopping.params import Standing
from tfaip.trainer.history import EpochRecord
from tfaip.trainer.hooks import StepHooks, has_batch_methods, python_logs, user_callback_list
from tfaip.trainer.lognames import TRAIN
from tfaip.trainer.output import RunOutput
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.profiling import Profiler
from tfaip.trainer.signals import StopRequest, TrainingInterrupted
from tfaip.trainer.state import TrainState, Volatile
from tfaip.trainer.validation import EpochEvaluation, Measured, with_epoch_mean
from tfaip.util.logging import logger
from tfaip.util.typing import Logs

# Batches after which several processes ask each other whether one was told to stop.
AGREE_EVERY = 8

log = logger(__name__)


@dataclass
class LoopParts:
    """What the loop works with; built by the trainer.

    Args:
        params: the trainer params.
        model: compiled and built.
        state: fresh or restored.
        data: the data of the scenario.
        train: pipeline of the training data.
        evaluation: validation and LAV.
        output: writes checkpoints, history and models, or nothing.
        best: tells the best epoch.
        events: writes TensorBoard events.
        progress: shows progress.
        stop: tells whether a signal asked to stop.
        profiler: traces a part of the training; None: nothing is profiled.
        devices: what the training runs on.
    """

    params: TrainerParams[Any, Any]
    model: TrainingModel
    state: TrainState
    data: DataBase[Any]
    train: DataPipeline
    evaluation: EpochEvaluation
    output: RunOutput
    best: BestModel
    events: TensorBoardEvents
    progress: EpochProgress
    stop: StopRequest
    profiler: Profiler | None
    devices: Devices


class TrainingLoop:
    """Trains epoch after epoch until the last one, or until somebody asks to stop.

    Args:
        parts: what the loop works with.
        callbacks: callbacks of the user.
    """

    def __init__(self, parts: LoopParts, callbacks: list[keras.callbacks.Callback]) -> None:
        self._parts = parts
        self._state = parts.state
        self._model = parts.model
        self._epoch_samples = parts.train.epoch_size(parts.params.samples_per_epoch, parts.params.scale_epoch_size)
        self._steps = self._steps_of_epoch()
        self._user = user_callback_list(callbacks, parts.model, parts.params.epochs, self._steps)
        self._batch_user = self._user if has_batch_methods(callbacks) else None
        updates = parts.params.checkpoint_every_n_updates()
        self._save_every = None if updates is None else updates * parts.params.train_accum_steps
        self._rate = 0.0
        self._started = time.monotonic()
        self._divergence = DivergenceCheck(parts.model, parts.params.train_accum_steps)
        # A run that stopped within an epoch continues with the means that it had reached.
        self._resumed_metrics = self._state.metric_arrays() if self._state.progress.step else None

    def _steps_of_epoch(self) -> int:
        """Batches of the running epoch; those that are trained may have had another size, before a resume."""
        progress = self._state.progress
        left = self._epoch_samples - progress.samples
        return progress.step + (self._parts.train.num_batches(left) if left > 0 else 0)

    def run(self) -> Logs:
        """Train the remaining epochs; returns the values of the last one.

        Raises:
            TrainingInterrupted: a signal asked to stop; the state was checkpointed.
        """
        progress = self._state.progress
        logs: Logs = dict(progress.history[progress.epoch].values) if progress.epoch in progress.history.epochs else {}
        self._show_standing()
        self._user.on_train_begin()
        self._model.stop_training = False
        while not self.is_finished() and not self._model.stop_training:
            logs = self._run_epoch(progress.epoch + 1)
            self._stop_if_asked()
        self._user.on_train_end(logs)
        return logs

    def is_finished(self) -> bool:
        """Whether the last epoch is done, or training stopped early."""
        return self._state.progress.epoch >= self._parts.params.epochs or self.stopped_early_after() is not None

    def stopped_early_after(self) -> int | None:
        """The epoch after which the training stops early; None: it goes on."""
        return self._standing().stops_after

    def _standing(self, running: Mapping[int, float] | None = None) -> Standing:
        """How far it is from being stopped; `running`: the value of an epoch that is not recorded yet."""
        best = self._parts.best
        values = {**best.values(self._state.progress.history), **(running or {})}
        return self._parts.params.early_stopping.standing(values, best.mode)

    def _show_standing(self) -> None:
        """Set the fields of the params from which callbacks read how far the training is from being stopped."""
        shown, standing = self._parts.params.early_stopping, self._standing()
        shown.mode, shown.monitor = self._parts.best.mode, self._parts.best.monitor
        shown.current, shown.n = standing.current, standing.n

    def _run_epoch(self, epoch: int) -> Logs:
        self._started = time.monotonic() - self._state.progress.seconds
        self._steps = self._steps_of_epoch()
        self._rate = rate = self._begin_rate(epoch)
        self._divergence.begin_epoch(epoch, self._state.progress.step)
        self._user.on_epoch_begin(epoch - 1)
        values = self._train(epoch)
        drawings = {TRAIN: self._parts.events.draw()}
        measured = self._evaluate(epoch, values)
        measured = Measured({**values, **measured.values}, {**drawings, **measured.drawings})
        return self._end_of_epoch(epoch, rate, measured)

    def _begin_rate(self, epoch: int) -> float:
        """Set the rate of an epoch, which is the one in the history if somebody has chosen it there."""
        progress, rule = self._state.progress, self._parts.params.learning_rate
        history = progress.history
        chosen = history[epoch].lr if epoch in history.epochs else None
        if progress.step == 0 and chosen is None and rule.restores_best(epoch, history):
            best = self._state.restore_best()
            log.info(
                "the rate decays: %s", f"back to the weights of epoch {best}" if best else "no best weights are kept"
            )
        rate, base = rule.rate(epoch, history), rule.base(epoch, history)
        is_listed = chosen is not None or epoch in rule.listed()
        base = base if chosen is None else chosen
        self._model.optimizer.begin_epoch(base, epoch - 1, self._steps, progress.step, is_listed)
        return rate if chosen is None else chosen

    def _end_of_epoch(self, epoch: int, rate: float, measured: Measured) -> Logs:
        """The one order at the end of an epoch.

        The history comes first, since all decisions read it. The best model is exported before the checkpoint that
        knows of it: a run that is killed in between exports it again, one that is killed after it has both. Callbacks
        of the user come before the checkpoint too, so that what they change is in it, and so does the forward pass
        for TensorBoard, which may draw random numbers. Files for readers come last.
        """
        progress, values = self._state.progress, measured.values
        dropped = DropCounts(*progress.position.dropped)
        optimizer = self._model.optimizer
        meta = {
            "updates": int(optimizer.updates),
            "seconds": round(self._seconds(), 3),
            "dropped": dropped.total,
            "position": progress.position.to_dict(),
            "versions": {"tfaip": __version__, "keras": keras.__version__},
        }
        effective = optimizer.schedule.effective_rate(rate)
        progress.history.record(epoch, EpochRecord(rate, values, meta, effective))
        with_rate = {**values, "lr": optimizer.next_rate() if effective is None else effective}
        if self._parts.params.learning_rate.keeps_best(epoch, progress.history):
            self._state.keep_best(epoch)
        progress.epoch, progress.step, progress.samples, progress.seconds = epoch, 0, 0, 0.0
        self._show_standing()
        with self._model.optimizer.with_averages():
            if self._parts.best.is_best(progress.history, epoch):
                self._parts.output.export_best()
            shown = self._parts.events.collect()
        self._user.on_epoch_end(epoch - 1, dict(values))
        self._parts.output.save_checkpoint(self._state.capture, epoch)
        self._parts.output.save_history(progress.history)
        self._parts.events.write_epoch(epoch, with_rate, measured.drawings, shown)
        log.info("%s", result_line(epoch, with_rate))
        if meta["dropped"]:
            log.info("dropped training samples so far: %s", dropped)
        return values

    def _train(self, epoch: int) -> Logs:
        """Train what is left of the epoch; returns the means over the whole epoch."""
        progress = self._state.progress
        done = progress.step
        if done < self._steps:
            left = self._epoch_samples - progress.samples
            batches = self._parts.train.training_batches(progress.position, left, self._parts.devices.shard)
            self._parts.progress.start(f"Epoch {epoch}/{self._parts.params.epochs}", self._steps, done)
            try:
                lengths = self._parts.train.params.bucket_lengths()
                with Feed(batches, self._parts.data, keras.backend.backend(), lengths) as feed:
                    self._fit(feed, epoch, done)
                self._divergence.look()
            finally:
                self._parts.progress.stop()
        elif self._resumed_metrics is not None:
            self._state.assign_metrics(self._resumed_metrics)
        self._resumed_metrics = None
        if progress.step < self._steps:
            self._stop_if_asked()
            raise RuntimeError(f"epoch {epoch} ended after {progress.step} of {self._steps} batches")
        return with_epoch_mean(python_logs(self._model.get_metrics_result()))

    def _fit(self, feed: Feed, epoch: int, done: int) -> None:
        progress = self._state.progress
        samples_before = progress.samples

        def on_border(step: int) -> bool:
            self._divergence.look_now_and_then()
            every = self._save_every
            save_due = every is not None and step // every > progress.step // every
            if step // AGREE_EVERY > progress.step // AGREE_EVERY:
                self._parts.stop.agree()
            progress.step = step
            trained = samples_before + (step - done) * self._parts.train.samples_per_batch
            progress.samples = min(trained, self._epoch_samples)
            position = feed.position_after(step - done)
            assert position is not None  # noqa: S101 (training batches always have one)
            progress.position = position
            if save_due and step < self._steps:
                self._save_within_epoch()
            # A stop is decided between epochs if this was the last batch.
            return self._parts.stop.received is not None and step < self._steps

        hooks = StepHooks(
            self._model,
            self._steps,
            done,
            self._parts.progress,
            on_border,
            self._restore_metrics,
            self._batch_user,
            self._parts.profiler,
            self._rate_so_far,
        )
        self._model.fit(
            feed.dataset,
            initial_epoch=epoch - 1,
            epochs=epoch,
            steps_per_epoch=self._steps - done,
            shuffle=False,
            verbose=0,
            callbacks=hooks,
        )
        self._model.stop_training = hooks.user_stops

    def _rate_so_far(self) -> Logs:
        """The effective rate of the running epoch, within `fit`; nothing before the first update."""
        if keras.backend.backend() == "jax":
            # Within fit the values live in the compiled loop, not in the variables.
            self._model.jax_state_sync()
        schedule = self._model.optimizer.schedule
        rate = schedule.effective_rate(self._rate)
        return {} if rate is None else {"lr": rate}

    def _restore_metrics(self) -> None:
        if self._resumed_metrics is not None:
            self._state.assign_metrics(self._resumed_metrics)

    def _evaluate(self, epoch: int, trained: Logs) -> Measured:
        """Validation and LAV, with the averaged weights if there are any; `trained`: values of the training."""
        before, best = self._state.volatile(), self._parts.best

        def stops_early(validated: Logs) -> bool:
            value = {**trained, **validated}.get(best.monitor)
            return value is not None and self._standing({epoch: value}).stops_after is not None

        try:
            with self._model.optimizer.with_averages():
                measured = self._parts.evaluation.run(epoch, self._user, self._batch_user, stops_early)
        except EvaluationStopped:
            self._save_within_epoch(before)
            self._stop_if_asked(saved=True)
            raise
        if measured.has_lav:
            if best.follows_lav:
                best.check(list(measured.values))
            self._parts.params.learning_rate.check_lav(list(measured.values))
        return measured

    def _save_within_epoch(self, before: Volatile | None = None) -> None:
        self._divergence.look()
        if keras.backend.backend() == "jax":
            # Within fit the values live in the compiled loop, not in the variables.
            self._model.jax_state_sync()
        progress = self._state.progress
        progress.seconds = self._seconds()
        self._parts.output.save_checkpoint(lambda: self._state.capture(before), progress.epoch, progress.step)

    def _seconds(self) -> float:
        """Since the beginning of the running epoch, without the time between a stop and the resume."""
        return time.monotonic() - self._started

    def _stop_if_asked(self, saved: bool = False) -> None:
        self._parts.stop.agree()
        received = self._parts.stop.received
        if received is None:
            return
        progress = self._state.progress
        if progress.step and not saved:
            self._save_within_epoch()
        where = (
            f"after batch {progress.step} of epoch {progress.epoch + 1}"
            if progress.step
            else f"after epoch {progress.epoch}"
        )
        log.info("%s: stopped %s%s", received.name, where, self._parts.output.how_to_resume())
        raise TrainingInterrupted(received)
