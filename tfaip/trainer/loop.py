"""The epochs of a training, and the order of the work at the end of each."""

from __future__ import annotations

import math

import keras

from tfaip.data.pipeline.failures import DropCounts
from tfaip.params.settings import flags_of
from tfaip.predict.modelpass import EvaluationStopped
from tfaip.trainer.build import StopReason, Training
from tfaip.trainer.epoch import TrainingEpoch
from tfaip.trainer.history import EpochRecord, History
from tfaip.trainer.reporting.progress import result_line
from tfaip.trainer.run.names import EPOCH_MEAN, TRAIN
from tfaip.trainer.schedules.instep import scheduled_values
from tfaip.trainer.stepcallbacks import UserCallbacks
from tfaip.trainer.validation import Measured
from tfaip.util.logging import CONSOLE_TEXT, logger
from tfaip.util.text import number_text
from tfaip.util.typing import Logs
from tfaip.version import __version__

log = logger(__name__)


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
        self._table = training.epoch_table()
        self._not_finite: set[str] = set()  # names of values that were not, each of which is warned of once
        self._callbacks = UserCallbacks(callbacks, training.model, training.params.epochs, training.epoch_steps())

    def run(self) -> Logs:
        """Train the remaining epochs; return the values of the last one.

        Raises:
            TrainingInterrupted: if a signal asked to stop; the state was checkpointed.
        """
        progress, model = self._progress, self._training.model
        logs = progress.history.values(progress.epoch)
        self._publish_early_stopping()
        if not self._training.is_finished():
            if self._params.learning_rate.is_held():
                log.info("one learning rate per epoch; --learning_rate.step_function False: per update")
            # Those of a graph are stored with its weights: they may come from a checkpoint or another model.
            for value in scheduled_values(model).values():
                value.assign(value.declared)
        model.stop_training = False
        self._callbacks.on_train_begin()
        # A signal that comes here stops the epoch after an execution, with a checkpoint.
        while self._training.stop_reason in (None, StopReason.SIGNAL):
            self._training.begin_epoch(progress.epoch + 1)
            epoch = TrainingEpoch(self._training, progress.epoch + 1, self._callbacks)
            logs = self._run_epoch(epoch)
            if self._training.stop_reason is not None:
                self._output.wait()  # a signal that comes meanwhile still stops the run
            epoch.stop_if_asked()
        self._callbacks.on_train_end(logs)
        return logs

    def release_model(self) -> None:
        """Let the callbacks of the user forget the model; the next stage gives them its own."""
        self._callbacks.release_model()

    def warn_without_updates(self) -> None:
        """Warn if the batches that remain are fewer than an update needs."""
        training, optimizer = self._training, self._training.model.optimizer
        epochs, steps = training.stage.last_epoch - self._progress.epoch, optimizer.accum_steps
        batches = epochs * training.epoch_steps() - self._progress.step
        if optimizer.batches % steps + batches < steps:
            log.warning("no weight will change: train_accum_steps is %d, but only %d batches remain", steps, batches)

    def _publish_early_stopping(self) -> None:
        """Store the status in the fields of the run's params that callbacks may read."""
        best, status, view = self._training.best, self._training.early_stopping(), self._params.early_stopping
        view.mode, view.monitor = best.mode, best.monitor
        view.current, view.n = status.current, status.n

    def _run_epoch(self, epoch: TrainingEpoch) -> Logs:
        self._begin_rate(epoch)
        self._callbacks.on_epoch_begin(epoch.number - 1)
        training = self._training
        trained = {**epoch.train(), **training.model.end_epoch(), **training.schedules.logged(epoch.number)}
        plots = {TRAIN: training.events.draw()}
        measured = self._evaluate(epoch, trained)
        measured.values = {**trained, **measured.values}
        measured.drawings = {**plots, **measured.drawings}
        return self._end_epoch(epoch, measured)

    def _begin_rate(self, epoch: TrainingEpoch) -> None:
        """Set the rate of an epoch: the one in the history, if the user has chosen it there."""
        progress, rule = self._progress, self._params.learning_rate
        controlled = progress.history.controlled()
        chosen = controlled[epoch.number].lr if epoch.number in controlled else None
        history, number = self._own_numbers(controlled), self._own_number(epoch.number)
        is_controlled = chosen is None and self._training.stage.settings.rate_control
        if progress.step == 0 and is_controlled and rule.restores_best(number, history):
            best = self._training.state.restore_best()
            weights = f"back to the weights of epoch {best}" if best else "no best weights are kept"
            log.info("the rate decays: %s", weights)
        epoch.rate, base = rule.rate(number, history), rule.base(number, history)
        if not is_controlled:
            epoch.rate = base = rule.held_rate(number) if chosen is None else chosen
        is_listed = not is_controlled or number in rule.listed()
        self._training.model.optimizer.begin_epoch(base, number - 1, epoch.steps, progress.step, is_listed)

    def _own_number(self, number: int) -> int:
        """Return the number of an epoch of the run for the rate control and for the params."""
        return number - self._training.stage.epoch_offset

    def _own_numbers(self, history: History) -> History:
        """Return a history of the run in the numbers of the rate control."""
        return history.after(self._training.stage.epoch_offset)

    def _warn_if_not_finite(self, epoch: int, values: Logs) -> None:
        names = [name for name in values if not math.isfinite(values[name]) and not name.endswith(EPOCH_MEAN)]
        new = [name for name in names if name not in self._not_finite]
        self._not_finite.update(new)
        if new:
            shown = ", ".join(f"{name} is {number_text(values[name])}" for name in new)
            rule = "an epoch whose monitored value is not finite is never the best, and counts as worse"
            log.warning("epoch %d: %s; %s", epoch, shown, rule)

    def _evaluate(self, epoch: TrainingEpoch, trained: Logs) -> Measured:
        """Validate and run LAV, with the averaged weights if there are any.

        Args:
            epoch: the trained epoch.
            trained: values of the training.
        """
        training, best = self._training, self._training.best
        # Captured before the evaluation: a stop within it and a restart must change no number.
        before = training.state.before_evaluation()

        def stops_early(validated: Logs) -> bool:
            value = {**trained, **validated}.get(best.monitor)
            return value is not None and training.early_stopping({epoch.number: value}).stops_after is not None

        try:
            with training.model.optimizer.with_averages():
                measured = training.evaluation.run(epoch.number, self._callbacks, stops_early)
                self._warn_if_not_finite(epoch.number, {**trained, **measured.values})
        except EvaluationStopped:
            epoch.save_checkpoint(before)
            epoch.stop_if_asked(saved=True)
            raise
        if measured.has_lav:
            if best.follows_lav:
                best.check(list(measured.values))
            with flags_of(self._params, "trainer", "learning_rate"):
                self._params.learning_rate.check_lav(list(measured.values))
        return measured

    def _end_epoch(self, epoch: TrainingEpoch, measured: Measured) -> Logs:
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
        logs = self._record(epoch, measured)
        # The best epoch of the stage: weights of an earlier one may have other shapes, and another loss.
        of_stage = progress.history.controlled().of_epochs(training.stage.first_epoch, number)
        if self._params.learning_rate.keeps_best(self._own_number(number), self._own_numbers(of_stage)):
            training.state.keep_best(number)
        counts = zip(progress.position.dropped, progress.dropped, strict=True)
        dropped = DropCounts(*(now - before for now, before in counts))
        progress.begin_epoch_after(number)
        self._params.current_epoch = self._own_number(number)
        self._publish_early_stopping()
        is_best = training.best.is_best(progress.history, number)
        self._output.wait()
        with training.model.optimizer.with_averages():
            if is_best:
                self._output.export_best(training.state.hold_weights)
            layer_values = training.events.collect()
        self._callbacks.on_epoch_end(number - 1, dict(measured.values))
        self._output.save_checkpoint(training.state.capture, number)
        self._output.save_history(progress.history)
        self._output.require_own_directory()
        training.events.write_epoch(number, logs, measured.drawings, layer_values)
        seconds = progress.history[number].meta["seconds"]
        row = self._table.add(number, logs, seconds, is_best)
        log.info("%s", result_line(number, logs), extra={CONSOLE_TEXT: row})
        if dropped.total:
            log.info("dropped training samples: %s", dropped)
        return measured.values

    def _record(self, epoch: TrainingEpoch, measured: Measured) -> Logs:
        """Record an epoch in the history; return its values with the effective rate."""
        progress, optimizer = self._progress, self._training.model.optimizer
        meta = {
            "updates": int(optimizer.updates),
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
