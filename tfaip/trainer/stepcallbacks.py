"""Callback lists that run inside `keras.Model.fit` and `evaluate`, and the callbacks that params name."""

from collections.abc import Callable, Mapping
from typing import Any

import keras

from tfaip.backend.keras_private import stop_evaluation
from tfaip.errors import UsageError
from tfaip.params.fields import FieldError
from tfaip.params.types import FunctionByName
from tfaip.trainer.datasets import Scenario
from tfaip.trainer.params import Params
from tfaip.trainer.reporting.tensorboard import Profiler
from tfaip.util.terminal import ProgressDisplay
from tfaip.util.typing import Logs

# Callbacks that set the rate, and the rules that do it here.
_RULES = {keras.callbacks.LearningRateScheduler: "Function", keras.callbacks.ReduceLROnPlateau: "ReduceOnPlateau"}


def python_logs(logs: Mapping[str, Any] | None) -> Logs:
    """Return values of the device as Python floats, which waits for the device."""
    return {name: float(value) for name, value in (logs or {}).items()}


class StepCallbacks(keras.callbacks.CallbackList):
    """Callback list that calls `on_step_end` after every execution of the compiled step.

    It replaces the list of Keras, which synchronises with the device after each step: on a tiny
    model a callback per batch costs 25 us of a step of 84 us, touching `self.model` in it 45 us.

    Args:
        display: shows the progress.
        total: batches of the whole epoch; None: not known, or not of interest.
        done: batches of it that an earlier process trained.
        user_callbacks: callbacks of the user with methods per batch; None: they have none.
        profiler: traces executions of the training.
        should_stop: asked by the default `on_step_end`.
    """

    def __init__(
        self,
        model: keras.Model,
        display: ProgressDisplay,
        total: int | None = None,
        done: int = 0,
        user_callbacks: keras.callbacks.CallbackList | None = None,
        profiler: Profiler | None = None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        # No super().__init__: it would start a thread and collect what `fit` adds on its own.
        self._training_model = model
        self._display = display
        self._total = total
        self._done_before = self._done = done
        self._user_callbacks = user_callbacks
        self._profiler, self._should_stop = profiler, should_stop
        self.user_stops = bool(model.stop_training)
        """True if the user set `model.stop_training`, which ends the training after the epoch."""

    def on_step_end(self, step: int) -> bool:
        """Return True to end the epoch or the evaluation here; called when `step` batches are done."""
        return self._should_stop()

    def shown_values(self, logs: Mapping[str, Any] | None) -> Logs:
        """Return the values that the progress display shows."""
        return python_logs(logs)

    def ignore(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing in the other methods that Keras calls."""

    on_train_begin = on_train_end = on_epoch_begin = on_epoch_end = on_test_begin = on_test_end = ignore

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._user_callbacks is not None:
            self._user_callbacks.on_train_batch_begin(self._done_before + batch)
            self._defer_user_stop()
        if self._profiler is not None:
            self._profiler.before_execution()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        done = self._done_before + batch + 1
        if self._total is not None:
            # With several steps per execution Keras passes the last step of a full execution.
            done = min(done, self._total)
        if self._profiler is not None:
            self._profiler.after_execution(done - self._done, lambda: python_logs(logs))
        self._done = done
        if self._user_callbacks is not None:
            self._user_callbacks.on_train_batch_end(done - 1, python_logs(logs))
        self._display.advance(done, lambda: self.shown_values(logs))
        ends_here = self.on_step_end(done)
        self._defer_user_stop()  # also that of an `on_log`
        if ends_here:
            self._training_model.stop_training = True

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._user_callbacks is not None:
            self._user_callbacks.on_test_batch_begin(batch)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._user_callbacks is not None:
            self._user_callbacks.on_test_batch_end(batch, python_logs(logs))
        done = batch + 1 if self._total is None else min(batch + 1, self._total)
        self._display.advance(done, lambda: self.shown_values(logs))
        if self.on_step_end(done):
            stop_evaluation(self._training_model)

    def _defer_user_stop(self) -> None:
        # Keras would end the epoch here; the user means the end of the training after this epoch.
        if self._training_model.stop_training:
            self.user_stops, self._training_model.stop_training = True, False


class _AfterBatches(keras.callbacks.Callback):
    """Lets the thread of the training call all callbacks: Keras has a pool of threads if none has such a method."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        pass

    on_test_batch_end = on_predict_batch_end = on_train_batch_end


class UserCallbacks(keras.callbacks.CallbackList):
    """Callbacks of the user, without the progress bar and the history that `fit` would add.

    Args:
        model: their `self.model`.
        epochs: of the training; with `steps` the content of their `self.params`.
        steps: batches per epoch.
    """

    def __init__(self, callbacks: list[keras.callbacks.Callback], model: keras.Model, epochs: int, steps: int) -> None:
        for kind, rule in _RULES.items():
            if any(isinstance(callback, kind) for callback in callbacks):
                raise UsageError(f"{kind.__name__} cannot set the rate of this training: choose --learning_rate {rule}")
        more: dict[str, Any] = {"add_history": False, "add_progbar": False, "verbose": 0}
        super().__init__([*callbacks, _AfterBatches()], model=model, epochs=epochs, steps=steps, **more)
        self._of_windows = [callback for callback in callbacks if hasattr(callback, "on_log")]
        base = keras.callbacks.Callback
        names = [f"on_{kind}batch_{edge}" for kind in ("", "train_", "test_") for edge in ("begin", "end")]
        # A `LambdaCallback` has functions as attributes, and the methods of the base class.
        own = [n for n in names for c in callbacks if getattr(getattr(c, n), "__func__", None) is not getattr(base, n)]
        self.for_batches = self if own else None
        """These callbacks if they have methods per batch, else None: then no step waits for the device."""

    def release_model(self) -> None:
        """Let the callbacks forget their model, which would live as long as they do."""
        for callback in self.callbacks:
            # Not their own method: callbacks of users must not expect None.
            keras.callbacks.Callback.set_model(callback, None)

    def on_log(self, update: int, logs: Logs) -> None:
        """Call `on_log` of the callbacks that have it, after each window of `log_every_n_updates`."""
        for callback in self._of_windows:
            callback.on_log(update, dict(logs))


def named_callbacks(params: Params, scenario: Scenario) -> list[keras.callbacks.Callback]:
    """Build the callbacks of `trainer.callbacks`."""
    callbacks = []
    for name in params.callbacks:
        callbacks.append(FunctionByName(name, ("params", "scenario"), "callbacks")(params=params, scenario=scenario))
        if not isinstance(callbacks[-1], keras.callbacks.Callback):
            raise FieldError("callbacks", name, f"a Keras callback; it gives {type(callbacks[-1]).__name__}")
    return callbacks
