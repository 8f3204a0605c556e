"""What runs inside `keras.Model.fit` and `evaluate`, at the border of every execution of the compiled step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras

from tfaip.trainer.callbacks.progress import EpochProgress
from tfaip.trainer.profiling import Profiler
from tfaip.util.typing import Logs


def python_logs(logs: Mapping[str, Any] | None) -> Logs:
    """Values of the device as Python floats."""
    return {name: float(value) for name, value in (logs or {}).items()}


class StepHooks(keras.callbacks.CallbackList):
    """Takes the place of the callback list of Keras, which costs a device synchronisation per step.

    Args:
        total: batches of the whole epoch; None: not known, or not of interest.
        done: batches of it that an earlier process trained.
        progress: is told how far the epoch is.
        on_border: called with the number of trained batches; True ends the epoch here.
        on_begin: called after Keras has reset the metrics.
        user_callbacks: callbacks of the user, for their batch methods; None if they have none.
        profiler: traces executions of the training.
        shown_too: further values that the progress shows.
    """

    def __init__(
        self,
        model: keras.Model,
        total: int | None,
        done: int,
        progress: EpochProgress,
        on_border: Callable[[int], bool],
        on_begin: Callable[[], None] | None = None,
        user_callbacks: keras.callbacks.CallbackList | None = None,
        profiler: Profiler | None = None,
        shown_too: Callable[[], Logs] | None = None,
    ) -> None:
        # No super().__init__: it would start a thread and collect what `fit` adds on its own.
        self._training_model = model
        self._total = total
        self._done = done
        self._at_border = done
        self._progress = progress
        self._on_border = on_border
        self._on_begin = on_begin
        self._user_callbacks = user_callbacks
        self._profiler = profiler
        self._shown_too = shown_too
        self.user_stops = bool(model.stop_training)
        """Whether the user set `model.stop_training`, which ends the training after the epoch."""

    def on_train_begin(self, logs: Any = None) -> None:
        pass

    def on_train_end(self, logs: Any = None) -> None:
        pass

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self._on_begin is not None:
            self._on_begin()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        pass

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._user_callbacks is not None:
            self._user_callbacks.on_train_batch_begin(self._done + batch)
            self._keep_stop()
        if self._profiler is not None:
            self._profiler.before_execution()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        # With several steps per execution Keras passes the last step that a full execution would have had.
        done = self._done + batch + 1 if self._total is None else min(self._done + batch + 1, self._total)
        if self._profiler is not None:
            self._profiler.after_execution(done - self._at_border, lambda: python_logs(logs))
        self._at_border = done
        if self._user_callbacks is not None:
            self._user_callbacks.on_train_batch_end(done - 1, python_logs(logs))
            self._keep_stop()
        self._progress.advance(done, lambda: self._shown(logs))
        if self._on_border(done):
            self._training_model.stop_training = True

    def on_test_begin(self, logs: Any = None) -> None:
        pass

    def on_test_end(self, logs: Any = None) -> None:
        pass

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._user_callbacks is not None:
            self._user_callbacks.on_test_batch_begin(batch)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._user_callbacks is not None:
            self._user_callbacks.on_test_batch_end(batch, python_logs(logs))
        self._progress.advance(batch + 1, lambda: python_logs(logs))
        if self._on_border(batch + 1):
            self._training_model.stop_evaluating = True

    def _shown(self, logs: Mapping[str, Any] | None) -> Logs:
        more = {} if self._shown_too is None else self._shown_too()
        return {**python_logs(logs), **more}

    def _keep_stop(self) -> None:
        # Keras would end the epoch here.
        self.user_stops = self.user_stops or self._training_model.stop_training
        self._training_model.stop_training = False


def user_callback_list(
    callbacks: list[keras.callbacks.Callback], model: keras.Model, epochs: int, steps: int
) -> keras.callbacks.CallbackList:
    """The callbacks of the user in Keras' own list, without the progress bar and history that `fit` would add.

    Args:
        callbacks: of the user.
        model: what they find as `self.model`.
        epochs: of the training; with `steps` what they find in `self.params`.
        steps: batches per epoch.
    """
    return _UserCallbacks(
        callbacks, add_history=False, add_progbar=False, model=model, verbose=0, epochs=epochs, steps=steps
    )


class _UserCallbacks(keras.callbacks.CallbackList):
    def _configure_async_dispatch(self, callbacks: Any) -> None:
        """All calls come from this thread: those of Keras' pool overtake each other, and outlive an interruption."""


def has_batch_methods(callbacks: list[keras.callbacks.Callback]) -> bool:
    """Whether a callback overrides a method that is called per batch (under any of its names)."""
    base = keras.callbacks.Callback
    names = [f"on_{kind}batch_{edge}" for kind in ("", "train_", "test_") for edge in ("begin", "end")]
    return any(getattr(type(callback), name) is not getattr(base, name) for callback in callbacks for name in names)
