"""The epochs of a training, and the order of the work at the end of each."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

import keras
import numpy as np

from tfaip.backend.active import backend
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.sampler import DropCounts, Position
from tfaip.device.collectives import broadcast
from tfaip.device.device_config import Precision
from tfaip.errors import TfaipError
from tfaip.params.settings import flags_of
from tfaip.params.tree import flag_of
from tfaip.predict.modelpass import EvaluationStopped
from tfaip.trainer.datasets import Feed, OpenBatches
from tfaip.trainer.history import EpochRecord
from tfaip.trainer.modelbuilding import most_steps_per_execution
from tfaip.trainer.params import Params
from tfaip.trainer.reporting.progress import result_line
from tfaip.trainer.run.names import EPOCH_MEAN, RATE, TRAIN
from tfaip.trainer.scheduledvalues import scheduled_values
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.trainer.stepcallbacks import StepCallbacks, UserCallbacks, python_logs
from tfaip.trainer.training import StopReason, Training
from tfaip.trainer.validation import EpochEvaluation, Measured, with_epoch_mean
from tfaip.util.logging import CONSOLE_TEXT, logger
from tfaip.util.text import number_text, shorten
from tfaip.util.typing import Logs
from tfaip.version import __version__

log = logger(__name__)

# Batches after which several processes exchange stop requests. Everything else they decide alike, from equal histories.
AGREE_EVERY = 8
# Reading the optimizer's stop flag synchronises with the device, so it is not done after every
# step. Nothing is lost: the optimizer decides within the step, and changes nothing from then on.
POLL_EVERY_S = 1.0
_SAMPLES_NAMED = 10


class TrainingLoop:
    """Training of epoch after epoch until the last one of the stage, or until a signal asks to stop.

    `fit` is called once per epoch: that costs about 15 ms, and buys an end of the epoch that can be
    read, with validation, export and checkpoint outside of Keras' callbacks.

    Args:
        training: its parts.
        callbacks: callbacks of the user.
    """

    def __init__(self, training: Training, callbacks: list[keras.callbacks.Callback]) -> None:
        self._training, self._output = training, training.run.output
        self._params = training.params
        self._progress = training.state.progress
        self._table, self._evaluation = training.epoch_table(), EpochEvaluation(training)
        self._not_finite: set[str] = set()  # names of values that were not, each of which is warned of once
        self.callbacks = UserCallbacks(callbacks, training.model, training.params.epochs, training.epoch_steps())

    def run(self) -> None:
        """Train the remaining epochs."""
        progress, model = self._progress, self._training.model
        self._publish_early_stopping()
        if not self._training.is_finished():
            # Those of a graph are stored with its weights: they may come from a checkpoint or another model.
            for value in scheduled_values(model).values():
                value.assign(value.declared)
        model.stop_training = False
        self.callbacks.on_train_begin()
        # A signal that comes here stops the epoch after an execution, with a checkpoint.
        while self._training.stop_reason in (None, StopReason.SIGNAL):
            self._training.begin_epoch(progress.epoch + 1)
            epoch = TrainingEpoch(self._training, progress.epoch + 1, self.callbacks)
            self._run_epoch(epoch)
            if self._training.stop_reason is not None:
                self._output.wait()  # a signal that comes meanwhile still stops the run
            epoch.stop_if_asked()
        self.callbacks.on_train_end(progress.history.values(progress.epoch))

    def warn_without_updates(self) -> None:
        """Warn if the batches that remain are fewer than an update needs."""
        training, optimizer = self._training, self._training.model.optimizer
        epochs, steps = training.stage.last_epoch - self._progress.epoch, optimizer.accum_steps
        batches = epochs * training.epoch_steps() - self._progress.step
        if optimizer.batches % steps + batches < steps:
            log.warning("no weight will change: train_accum_steps is %d, but only %d batches remain", steps, batches)

    def _publish_early_stopping(self) -> None:
        """Store the status in the fields of the run's params that callbacks may read."""
        training = self._training
        best, status, view = training.best, training.early_stopping(), training.run.params.early_stopping
        view.mode, view.monitor = best.mode, best.monitor
        view.current, view.n = status.current, status.n

    def _run_epoch(self, epoch: TrainingEpoch) -> None:
        self._begin_rate(epoch)
        self.callbacks.on_epoch_begin(epoch.number - 1)
        training = self._training
        trained = {**epoch.train(), **training.model.end_epoch(), **training.schedules.logged(epoch.number)}
        plots = {TRAIN: training.events.draw()}
        measured = self._evaluate(epoch, trained)
        measured.values = {**trained, **measured.values}
        measured.drawings = {**plots, **measured.drawings}
        self._end_epoch(epoch, measured)

    def _begin_rate(self, epoch: TrainingEpoch) -> None:
        """Set the rate of an epoch: the one in the history, if the user has chosen it there."""
        progress, rule = self._progress, self._params.learning_rate
        stage = self._training.stage
        history, number = progress.history.controlled().after(stage.epoch_offset), epoch.number - stage.epoch_offset
        is_controlled = stage.settings.rate_control
        is_chosen = number in history and history[number].lr is not None
        if progress.step == 0 and is_controlled and not is_chosen and rule.restores_best(number, history):
            best = self._training.state.restore_best()
            weights = f"back to the weights of epoch {best}" if best else "no best weights are kept"
            log.info("the rate decays: %s", weights)
        epoch.rate, base, is_listed = rule.of_epoch(number, history, is_held=not is_controlled)
        self._training.model.optimizer.begin_epoch(base, number - 1, epoch.steps, progress.step, is_listed)

    def _warn_if_not_finite(self, epoch: int, values: Logs) -> None:
        odd = {name for name in values if not math.isfinite(values[name]) and not name.endswith(EPOCH_MEAN)}
        if new := sorted(odd - self._not_finite):
            shown = ", ".join(f"{name} is {number_text(values[name])}" for name in new)
            rule = "an epoch whose monitored value is not finite is never the best, and counts as worse"
            log.warning("epoch %d: %s; %s", epoch, shown, rule)
        self._not_finite |= odd

    def _evaluate(self, epoch: TrainingEpoch, trained: Logs) -> Measured:
        """Validate and run LAV, with the averaged weights if there are any."""
        training, best = self._training, self._training.best
        # Captured before the evaluation: a stop within it and a restart must change no number.
        before = training.state.before_evaluation()

        def stops_early(validated: Logs) -> bool:
            value = {**trained, **validated}.get(best.monitor)
            return value is not None and training.early_stopping({epoch.number: value}).stops_after is not None

        try:
            with training.model.optimizer.with_averages():
                measured = self._evaluation.run(epoch.number, self.callbacks, stops_early)
                self._warn_if_not_finite(epoch.number, {**trained, **measured.values})
        except EvaluationStopped:
            training.state.set_back(before)
            epoch.stop_if_asked()
            raise
        if measured.has_lav:
            if best.follows_lav:
                best.check(list(measured.values))
            with flags_of(self._params, "trainer", "learning_rate"):
                self._params.learning_rate.check_lav(list(measured.values))
        return measured

    def _end_epoch(self, epoch: TrainingEpoch, measured: Measured) -> None:
        """Do everything that follows an epoch, in the one order that survives a kill at any point.

        1. The history is recorded first, since all decisions read it.
        2. The best model is exported before the checkpoint that knows of it: a run that is killed
           in between exports it again, one that is killed after it has both.
        3. Callbacks of the user, and the forward pass for TensorBoard, which may draw random
           numbers, come before the checkpoint: it contains what they change.
        4. Files for readers come last.

        Best model, checkpoint and history are written in the background, one after the other. So callbacks find all
        that was saved before the end of this epoch.
        """
        training, progress, number = self._training, self._progress, epoch.number
        offset = training.stage.epoch_offset  # the rate control counts its own epochs
        logs = self._record(epoch, measured)
        # The best epoch of the stage: weights of an earlier one may have other shapes, and another loss.
        of_stage = progress.history.controlled().of_epochs(training.stage.first_epoch, number)
        if self._params.learning_rate.keeps_best(number - offset, of_stage.after(offset)):
            training.state.keep_best(number)
        counts = zip(progress.position.dropped, progress.dropped, strict=True)
        dropped = DropCounts(*(now - before for now, before in counts))
        progress.begin_epoch_after(number)
        training.run.params.current_epoch = number - offset
        self._publish_early_stopping()
        is_best = training.best.epoch(progress.history) == number
        self._output.wait()
        with training.model.optimizer.with_averages():
            if is_best:
                self._output.export_best(training.state.hold_weights)
            layer_values = training.events.collect()
        self.callbacks.on_epoch_end(number - 1, dict(measured.values))
        self._output.save_checkpoint(training.state.capture, number)
        self._output.save_history(progress.history)
        self._output.require_own_directory()
        training.events.write_epoch(number, logs, measured.drawings, layer_values)
        seconds = progress.history[number].meta["seconds"]
        row = self._table.add(number, logs, seconds, is_best)
        log.info("%s", result_line(number, logs), extra={CONSOLE_TEXT: row})
        if dropped.total:
            log.info("dropped training samples: %s", dropped)

    def _record(self, epoch: TrainingEpoch, measured: Measured) -> Logs:
        """Record an epoch in the history; return its values with the effective rate."""
        progress, optimizer = self._progress, self._training.model.optimizer
        meta = {
            "updates": int(optimizer.update_number),
            "seconds": round(epoch.seconds(), 3),
            "dropped": DropCounts(*progress.position.dropped).total,
            "position": progress.position.to_dict(),
            "versions": {"tfaip": __version__, "keras": keras.__version__},
            "stage": self._training.stage.name,
            "best": {"monitor": self._training.best.monitor, "mode": self._training.best.mode},
        }
        if not self._training.stage.settings.rate_control:
            meta["rate_control"] = False
        effective = optimizer.schedule.effective_rate(epoch.rate)
        progress.history.record(epoch.number, EpochRecord(epoch.rate, measured.values, meta, effective))
        return {**measured.values, "lr": optimizer.next_rate() if effective is None else effective}


class TrainingEpoch(StepCallbacks):
    """Training of one epoch, or of what is left of it after a resume.

    Args:
        training: its state says how much of the epoch is done.
        number: of the epoch, from 1.
        callbacks: callbacks of the user.
    """

    def __init__(self, training: Training, number: int, callbacks: UserCallbacks) -> None:
        self.number = number
        self.steps = training.epoch_steps()
        self.rate = 0.0
        """Learning rate of the epoch, set before `train`."""
        self._training, self._output, self._stop = training, training.run.output, training.run.stop
        self._progress = progress = training.state.progress
        # A run that was stopped within an epoch continues with the means that it had reached.
        self._metrics = training.state.metric_arrays() if progress.step else None
        self._samples, self._samples_before = training.epoch_samples(), progress.samples
        self._batches_before_epoch = training.model.optimizer.batches - progress.step
        updates = training.params.checkpoint_every_n_updates()
        self._save_every = None if updates is None else updates * training.params.train_accum_steps
        self._windows: UpdateWindows | None = None
        if training.params.log_every_n_updates:
            self._windows = UpdateWindows(training, callbacks, self.steps, self._batches_before_epoch)
        self._started = time.monotonic() - progress.seconds
        self._polled = time.monotonic()
        self._feed: Feed | None = None
        self._began = self._checked = self._place()
        profiler = training.run.profiler
        super().__init__(training.model, training.display, self.steps, progress.step, callbacks.for_batches, profiler)

    def train(self) -> Logs:
        """Train what is left of the epoch; return the means over the whole epoch."""
        if self._progress.step < self.steps:
            optimizer = self._training.model.optimizer
            uncounted = optimizer.uncounted
            try:
                self._train_rest()
            except TrainingDiverged as error:
                # Read again from the last place before the update at which the optimizer was polled.
                step, samples, position = self._checked if error.first > self._checked[0] else self._began
                error.samples = samples_text(self._batches(position, samples), step + 1, error.first, error.last)
                raise
            skipped = optimizer.uncounted - uncounted
            if skipped:
                half = self._training.devices.precision is Precision.MIXED_FLOAT16
                reason = ", or too large for mixed_float16, whose scale is lowered then" if half else ""
                text = "epoch %d: updates skipped since loss or gradients were not finite%s: %d"
                log.log(logging.INFO if half else logging.WARNING, text, self.number, reason, skipped)
        elif self._metrics is not None:
            self._training.state.assign_metrics(self._metrics)
        if self._progress.step < self.steps:
            self.stop_if_asked()
            raise RuntimeError(f"epoch {self.number} ended after {self._progress.step} of {self.steps} batches")
        values = python_logs(self._training.model.get_metrics_result())
        if self._training.model.was_every_batch_forgotten():
            values = dict.fromkeys(values, math.nan)
        return with_epoch_mean(values)

    def _place(self) -> tuple[int, int, Position]:
        return self._progress.step, self._progress.samples, self._progress.position

    def _batches(self, position: Position, samples: int) -> OpenBatches:
        left = self._samples - samples
        return self._training.train_data.training_batches(position, left, self._training.devices.shard)

    def _train_rest(self) -> None:
        training, model, params = self._training, self._training.model, self._training.params
        batches = self._batches(self._progress.position, self._samples_before)
        lengths = training.train_data.params.bucket_lengths()
        stage = "" if training.shown_stage is None else f" ({training.shown_stage})"
        training.display.start(f"Epoch {self.number}/{params.epochs}{stage}", self.steps, self._done_before)
        self.user_stops = bool(model.stop_training)
        try:
            with (
                training.feed(batches, lengths) as self._feed,
                model.failures_named(),
                backend.numerics_checked() if params.debug_nonfinite else contextlib.nullcontext(),
            ):
                dataset = model.choose_execution(self._feed.dataset)
                if self._windows is not None:
                    most = most_steps_per_execution(params, training.devices, model.execution)
                    model.execute_together(self._windows.steps_per_execution(most))
                model.fit(
                    dataset,
                    initial_epoch=self.number - 1,
                    epochs=self.number,
                    # Always given, since `fit` miscounts datasets of unknown length.
                    steps_per_epoch=self.steps - self._done_before,
                    shuffle=False,
                    verbose=0,
                    callbacks=self,
                )
            model.stop_training = self.user_stops
            self._check_divergence()
        except FloatingPointError as error:
            batch = self._progress.step + 1
            raise TrainingDiverged(params, self.number, batch, batch, 1, str(error)) from error
        finally:
            self._feed = None
            training.display.stop()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        # Keras has just reset the metrics.
        if self._metrics is not None:
            self._training.state.assign_metrics(self._metrics)

    def on_step_end(self, step: int) -> bool:
        if time.monotonic() - self._polled >= POLL_EVERY_S:
            self._check_divergence()
        self._output.check()
        is_time_to_agree = step // AGREE_EVERY > self._progress.step // AGREE_EVERY
        is_save_due = self._is_save_due(step, is_time_to_agree)
        if is_time_to_agree:
            self._stop.agree()
        # Count the batches that `fit` consumed, never what it has prefetched.
        assert self._feed is not None  # noqa: S101 (set while `fit` runs)
        done, progress = step - self._done_before, self._progress
        position = self._feed.position_after(done)
        assert position is not None  # noqa: S101 (training batches always have one)
        samples = self._samples_before + done * self._training.train_data.samples_per_batch
        progress.step, progress.samples, progress.position = step, min(samples, self._samples), position
        if self._windows is not None:
            self._windows.end_step(step, self.rate)
        if is_save_due and step < self.steps:
            self.save_checkpoint()
        # A stop is decided after the epoch if this was its last batch.
        return self._stop.received is not None and step < self.steps

    def shown_values(self, logs: Mapping[str, Any] | None) -> Logs:
        backend.synchronize(self._training.model)
        rate = self._training.model.optimizer.schedule.effective_rate(self.rate)
        values = python_logs(logs)
        return values if rate is None else {**values, "lr": rate}

    def _check_divergence(self) -> None:
        """Raise if the optimizer has stopped since updates were not finite; all weights are those from before."""
        if self._windows is not None:
            self._windows.log_ended()
        backend.synchronize(self._training.model)
        stopped = self._training.model.optimizer.stopped_at()
        self._polled = time.monotonic()
        if stopped is not None:
            params = self._training.params
            last_batch, updates = stopped
            last = last_batch - self._batches_before_epoch + 1
            raise TrainingDiverged(params, self.number, last - params.train_accum_steps + 1, last, updates)
        self._checked = self._place()

    def _is_save_due(self, step: int, is_time_to_agree: bool) -> bool:
        every, every_s = self._save_every, self._training.params.checkpoint_every_s
        if every is not None and step // every > self._progress.step // every:
            return True
        if not every_s:
            return False
        is_old = self._output.seconds_since_checkpoint() >= every_s
        if self._training.devices.num_processes == 1:
            return is_old
        # All processes save the same batch: when the chief says so.
        return is_time_to_agree and bool(broadcast(self._training.devices, is_old))

    def save_checkpoint(self) -> None:
        """Save a checkpoint within the epoch."""
        self._check_divergence()  # before anything is written
        self._progress.seconds = self.seconds()
        self._output.save_checkpoint(self._training.state.capture, self._progress.epoch, self._progress.step)

    def seconds(self) -> float:
        """Return how long the epoch has trained and validated, without the time between a stop and the resume."""
        return time.monotonic() - self._started

    def stop_if_asked(self) -> None:
        """Raise `TrainingInterrupted` if a signal asked to stop, after a checkpoint within the epoch."""
        self._stop.agree()
        received = self._stop.received
        if received is None:
            return
        progress = self._progress
        place = f"after epoch {progress.epoch}"
        if progress.step:
            place = f"after batch {progress.step} of epoch {progress.epoch + 1}"
            self.save_checkpoint()
        self._output.wait()
        log.info("%s: stopped %s%s", received.name, place, self._output.how_to_resume())
        raise TrainingInterrupted(received)


class UpdateWindows:
    """Means over every n updates of an epoch (`log_every_n_updates`), and over those that remain at its end.

    They are differences of what the accumulators of the epoch hold at both ends of a window. So the step is the same
    with and without windows, and their open end is a few numbers in the checkpoint.

    Args:
        training: the parts of the training.
        callbacks: callbacks of the user.
        last: batches of the epoch.
        before: batches of the training before the epoch.
    """

    def __init__(self, training: Training, callbacks: UserCallbacks, last: int, before: int) -> None:
        self._model, self._progress = training.model, training.state.progress
        self._accum_steps = training.params.train_accum_steps
        self._batches = training.params.log_every_n_updates * self._accum_steps
        self._events, self._callbacks, self._last, self._before = training.events, callbacks, last, before
        variables = [id(variable) for variable in self._model.metrics_variables]
        mean = keras.metrics.Mean  # without classes whose result is another, such as RootMeanSquaredError
        means = [m for m in self._model.metrics if isinstance(m, mean) and type(m).result is mean.result]
        self._places = [(m.name, variables.index(id(m.total)), variables.index(id(m.count))) for m in means]
        self._ended: tuple[int, float, Sequence[Any]] | None = None

    def steps_per_execution(self, most: int) -> int:
        """Return the largest number of batches, at most `most`, of executions that end where the windows end."""
        left = self._batches - (self._progress.step - self._progress.window_step) % self._batches
        common = math.gcd(self._batches, left)
        return next(steps for steps in range(min(most, common), 0, -1) if common % steps == 0)

    def end_step(self, step: int, rate: float) -> None:
        """Log the window that ended before; end this one if it ends after `step` batches of the epoch."""
        self.log_ended()
        if step - self._progress.window_step >= self._batches or step == self._last:
            # It is read while the next execution runs: a wait for this one would leave the device idle.
            self._ended = step, rate, backend.metric_values(self._model)
            self._progress.window_step = step

    def log_ended(self) -> None:
        """Log the window that has ended if it is not logged yet."""
        if self._ended is None:
            return
        (step, rate, arrays), self._ended = self._ended, None
        window, values = self._progress.window, dict[str, float]()
        for name, total, count in self._places:
            ends = [float(arrays[total]), float(arrays[count])]
            sums, number = (end - begin for end, begin in zip(ends, window.get(name, (0.0, 0.0)), strict=True))
            values[name] = sums / number if number else math.nan
            window[name] = ends
        schedule, batches = self._model.optimizer.schedule, self._before + step
        if schedule.varies:
            backend.synchronize(self._model)
            rate = float(schedule(batches - 1))
        update, logs = batches // self._accum_steps, {**values, RATE: rate}
        self._events.write_updates(update, logs)
        self._callbacks.on_log(update, logs)


class TrainingDiverged(TfaipError):
    """The loss or its gradients are not finite.

    Args:
        epoch: number of the epoch, from 1.
        first: first batch of the first update that was not finite, from 1; below that, it is of the epoch before.
        last: its last batch.
        updates: number of such updates in a row.
        operation: the operation of the backend whose result is not finite; "": not known.
    """

    def __init__(self, params: Params, epoch: int, first: int, last: int, updates: int, operation: str = "") -> None:
        super().__init__(params, epoch, first, last, updates, operation)
        self.first, self.last = first, last
        self.samples = ""
        """Samples of these batches, in words; "": not known."""

    def __str__(self) -> str:
        params, epoch, first, last, updates, operation = self.args
        batches = f"batch {last}" if first == last else f"batches {first} to {last}"
        place = f"{batches} of epoch {epoch}" if first > 0 else f"the last batches of epoch {epoch - 1}"
        if updates > 1:
            place = f"{updates} updates in a row, from {place}"
        names = ("learning_rate.lr", "optimizer.clip_global_norm", "optimizer.skip_nonfinite", "debug_nonfinite")
        rate, clip, skip, debug = (flag_of(params, params.flag_root, name) for name in names)
        advice = "" if params.debug_nonfinite else f"; {debug} True names the operation"
        known = "; ".join(text for text in (operation, self.samples) if text)
        return (
            f"the loss or its gradients were not finite in {place}{known and f' ({known})'}; no weight has changed "
            f"since. Lower {rate}, clip with {clip}, check the data, or skip such updates with {skip}{advice}"
        )


def samples_text(
    batches: AbstractContextManager[Iterable[tuple[Batch, Any]]], begin: int, first: int, last: int
) -> str:
    """Name the samples of some batches whose data are not finite, else all of them, by their `meta`."""
    bad: list[str] = []
    everything: list[str] = []
    try:
        with batches as opened:
            for batch, _ in islice(opened, max(first - begin, 0), last + 1 - begin):
                everything += [shorten(meta) for meta in batch.meta if meta is not None]
                arrays = [*batch.inputs.values(), *batch.targets.values()]
                arrays = [a for a in arrays if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
                for row, meta in enumerate(batch.meta):
                    if not all(np.isfinite(array[row]).all() for array in arrays):
                        bad.append(f"number {row + 1}" if meta is None else shorten(meta))
    except Exception:  # noqa: BLE001 (the search must not hide what it was started for)
        log.debug("the batches could not be read again", exc_info=True)
        return ""
    named = bad or everything
    if not named:
        return ""
    shown = ", ".join(named[:_SAMPLES_NAMED]) + (" ..." if named[_SAMPLES_NAMED:] else "")
    return f"{'not finite in the data of' if bad else 'its samples are'} {shown}"
