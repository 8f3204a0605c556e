"""Training of one epoch: `fit`, and the work between two executions of the compiled step."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from tfaip.backend.active import backend
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.sampler import Position
from tfaip.device.collectives import broadcast
from tfaip.device.device_config import Precision
from tfaip.trainer.feed import Feed
from tfaip.trainer.modelsetup import most_steps_per_execution
from tfaip.trainer.nonfinite import TrainingDiverged, samples_text
from tfaip.trainer.setup import TrainingSetup
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.trainer.state import EvaluationState
from tfaip.trainer.stepcallbacks import StepCallbacks, UserCallbacks, python_logs
from tfaip.trainer.validation import with_epoch_mean
from tfaip.trainer.windows import UpdateWindows
from tfaip.util.logging import logger
from tfaip.util.typing import Logs

# Batches after which several processes exchange stop requests. Everything else they decide alike,
# from equal histories.
AGREE_EVERY = 8
# Reading the optimizer's stop flag synchronises with the device, so it is not done after every
# step. Nothing is lost: the optimizer decides within the step, and changes nothing from then on.
POLL_EVERY_S = 1.0

log = logger(__name__)


class TrainingEpoch(StepCallbacks):
    """Training of one epoch, or of what is left of it after a resume.

    Args:
        setup: the parts of the training; `setup.state.progress` says how much of the epoch is done.
        number: of the epoch, from 1.
        callbacks: callbacks of the user.
        metrics: accumulators of the metrics of the earlier process; None: the epoch is new.
    """

    def __init__(
        self,
        setup: TrainingSetup,
        number: int,
        callbacks: UserCallbacks,
        metrics: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self.number = number
        self.steps = setup.epoch_steps()
        self.rate = 0.0
        """Learning rate of the epoch, set before `train`."""
        self._setup = setup
        self._progress = progress = setup.state.progress
        self._metrics = metrics
        self._samples, self._samples_before = setup.epoch_samples(), progress.samples
        self._batches_before_epoch = setup.model.optimizer.batches - progress.step
        updates = setup.params.checkpoint_every_n_updates()
        self._save_every = None if updates is None else updates * setup.params.train_accum_steps
        self._windows: UpdateWindows | None = None
        if setup.params.log_every_n_updates:
            self._windows = UpdateWindows(setup, callbacks, self.steps, self._batches_before_epoch)
        self._started = time.monotonic() - progress.seconds
        self._polled = time.monotonic()
        self._feed: Feed | None = None
        self._began = self._checked = self._place()
        super().__init__(setup.model, setup.display, self.steps, progress.step, callbacks.for_batches, setup.profiler)

    def train(self) -> Logs:
        """Train what is left of the epoch; return the means over the whole epoch.

        Raises:
            TrainingDiverged: if the optimizer has stopped.
            TrainingInterrupted: if a signal asked to stop; the state was checkpointed.
        """
        if self._progress.step < self.steps:
            position, optimizer = self._progress.position, self._setup.model.optimizer
            uncounted = optimizer.uncounted
            self._began = self._checked = self._place()
            try:
                self._train_rest(position)
                self._tell_skipped(optimizer.uncounted - uncounted)
            except TrainingDiverged as error:
                raise error.with_samples(self._samples_of(error)) from None
        elif self._metrics is not None:
            self._setup.state.assign_metrics(self._metrics)
        if self._progress.step < self.steps:
            self.stop_if_asked()
            raise RuntimeError(f"epoch {self.number} ended after {self._progress.step} of {self.steps} batches")
        values = python_logs(self._setup.model.get_metrics_result())
        if self._setup.model.was_every_batch_forgotten():
            values = dict.fromkeys(values, math.nan)
        return with_epoch_mean(values)

    def _tell_skipped(self, updates: int) -> None:
        if not updates:
            return
        half = self._setup.devices.precision is Precision.MIXED_FLOAT16
        reason = ", or too large for mixed_float16, whose scale is lowered then" if half else ""
        log.log(
            logging.INFO if half else logging.WARNING,
            "epoch %d: %s skipped: %s loss or gradients were not finite%s",
            self.number,
            "1 update was" if updates == 1 else f"{updates} updates were",
            "its" if updates == 1 else "their",
            reason,
        )

    def _place(self) -> tuple[int, int, Position]:
        return self._progress.step, self._progress.samples, self._progress.position

    def _batches(self, position: Position, samples: int) -> AbstractContextManager[Iterator[tuple[Batch, Position]]]:
        left = self._samples - samples
        return self._setup.train_data.training_batches(position, left, self._setup.devices.shard)

    def _samples_of(self, error: TrainingDiverged) -> str:
        """Read the batches of an update again, from the last place before it at which the optimizer was looked at."""
        step, samples, position = self._checked if error.first > self._checked[0] else self._began
        return samples_text(self._batches(position, samples), step + 1, error.first, error.last)

    def _train_rest(self, position: Position) -> None:
        setup = self._setup
        batches = self._batches(position, self._samples_before)
        lengths = setup.train_data.params.bucket_lengths()
        stage = "" if setup.events.stage is None else f" ({setup.events.stage})"
        setup.display.start(f"Epoch {self.number}/{setup.params.epochs}{stage}", self.steps, self._done_before)
        self.user_stops = bool(setup.model.stop_training)
        try:
            with (
                setup.feeder.feed(batches, lengths) as self._feed,
                setup.model.failures_named(),
                backend.numerics_checked() if setup.params.debug_nonfinite else contextlib.nullcontext(),
            ):
                dataset = setup.model.choose_execution(self._feed.dataset)
                if self._windows is not None:
                    most = most_steps_per_execution(setup.params, setup.devices, setup.model.execution)
                    setup.model.execute_together(self._windows.steps_per_execution(most))
                setup.model.fit(
                    dataset,
                    initial_epoch=self.number - 1,
                    epochs=self.number,
                    # Always given, since `fit` miscounts datasets of unknown length.
                    steps_per_epoch=self.steps - self._done_before,
                    shuffle=False,
                    verbose=0,
                    callbacks=self,
                )
            setup.model.stop_training = self.user_stops
            self._check_divergence()
        except FloatingPointError as error:
            batch = self._progress.step + 1
            raise TrainingDiverged(setup.params, self.number, batch, batch, 1, str(error)) from error
        finally:
            self._feed = None
            setup.display.stop()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        # Keras has just reset the metrics.
        if self._metrics is not None:
            self._setup.state.assign_metrics(self._metrics)

    def on_step_end(self, step: int) -> bool:
        if time.monotonic() - self._polled >= POLL_EVERY_S:
            self._check_divergence()
        self._setup.output.check()
        is_save_due = self._is_save_due(step)
        self._agree_on_stop(step)
        self._count_batches(step)
        if self._windows is not None:
            self._windows.end_step(step, self.rate)
        if is_save_due and step < self.steps:
            self.save_checkpoint()
        # A stop is decided after the epoch if this was its last batch.
        return self._setup.stop.received is not None and step < self.steps

    def shown_values(self, logs: Mapping[str, Any] | None) -> Logs:
        backend.synchronize(self._setup.model)
        rate = self._setup.model.optimizer.schedule.effective_rate(self.rate)
        values = python_logs(logs)
        return values if rate is None else {**values, "lr": rate}

    def _check_divergence(self) -> None:
        """Raise if the optimizer has stopped since updates were not finite; all weights are those from before."""
        backend.synchronize(self._setup.model)
        stopped = self._setup.model.optimizer.stopped_at()
        self._polled = time.monotonic()
        if stopped is not None:
            params = self._setup.params
            last_batch, updates = stopped
            last = last_batch - self._batches_before_epoch + 1
            raise TrainingDiverged(params, self.number, last - params.train_accum_steps + 1, last, updates)
        self._checked = self._place()

    def _is_save_due(self, step: int) -> bool:
        every = self._save_every
        if every is not None and step // every > self._progress.step // every:
            return True
        if not self._setup.params.checkpoint_every_s:
            return False
        is_old = self._setup.output.seconds_since_checkpoint() >= self._setup.params.checkpoint_every_s
        if self._setup.devices.num_processes == 1:
            return is_old
        # All processes save the same batch: when the chief says so.
        return self._is_time_to_agree(step) and bool(broadcast(self._setup.devices, is_old))

    def _is_time_to_agree(self, step: int) -> bool:
        return step // AGREE_EVERY > self._progress.step // AGREE_EVERY

    def _agree_on_stop(self, step: int) -> None:
        if self._is_time_to_agree(step):
            self._setup.stop.agree()

    def _count_batches(self, step: int) -> None:
        """Advance the progress to `step` batches: those that `fit` consumed, never what it has prefetched."""
        assert self._feed is not None  # noqa: S101 (set while `fit` runs)
        done = step - self._done_before
        samples = self._samples_before + done * self._setup.train_data.samples_per_batch
        position = self._feed.position_after(done)
        assert position is not None  # noqa: S101 (training batches always have one)
        self._progress.step = step
        self._progress.samples = min(samples, self._samples)
        self._progress.position = position

    def save_checkpoint(self, before: EvaluationState | None = None) -> None:
        """Save a checkpoint within the epoch.

        Args:
            before: values from before an evaluation that was interrupted.
        """
        self._check_divergence()  # before anything is written
        progress, state = self._progress, self._setup.state
        progress.seconds = self.seconds()
        self._setup.output.save_checkpoint(lambda buffer: state.capture(buffer, before), progress.epoch, progress.step)

    def seconds(self) -> float:
        """Return the duration of the epoch, without the time between a stop and the resume."""
        return time.monotonic() - self._started

    def stop_if_asked(self, saved: bool = False) -> None:
        """Raise `TrainingInterrupted` if a signal asked to stop, after a checkpoint unless one was `saved`."""
        self._setup.stop.agree()
        received = self._setup.stop.received
        if received is None:
            return
        progress = self._progress
        place = f"after epoch {progress.epoch}"
        if progress.step:
            place = f"after batch {progress.step} of epoch {progress.epoch + 1}"
            if not saved:
                self.save_checkpoint()
        self._setup.output.wait()
        log.info("%s: stopped %s%s", received.name, place, self._setup.output.how_to_resume())
        raise TrainingInterrupted(received)
