"""Means over windows of updates within an epoch (`trainer.log_every_n_updates`)."""

from __future__ import annotations

import math

import keras

from tfaip.backend.active import backend
from tfaip.trainer.run.names import RATE
from tfaip.trainer.setup import TrainingSetup
from tfaip.trainer.stepcallbacks import UserCallbacks
from tfaip.util.typing import Logs


class UpdateWindows:
    """Means over every n updates of an epoch, and over those that remain at its end.

    They are differences of what the accumulators of the epoch hold at both ends of a window. So the step is the same
    with and without windows, and their open end is a few numbers in the checkpoint.

    Args:
        setup: the parts of the training.
        callbacks: callbacks of the user.
        last: batches of the epoch.
        before: batches of the training before the epoch.
    """

    def __init__(self, setup: TrainingSetup, callbacks: UserCallbacks, last: int, before: int) -> None:
        self._model, self._progress = setup.model, setup.state.progress
        self._accum_steps = setup.params.train_accum_steps
        self._batches = setup.params.log_every_n_updates * self._accum_steps
        self._events, self._callbacks, self._last, self._before = setup.events, callbacks, last, before
        # A resume may choose a smaller window than the open one, or the first: that one is left out.
        self._is_too_long = self._progress.step - self._progress.window_step >= self._batches
        variables = [id(variable) for variable in self._model.metrics_variables]
        mean = keras.metrics.Mean  # without classes whose result is another, such as RootMeanSquaredError
        means = [m for m in self._model.metrics if isinstance(m, mean) and type(m).result is mean.result]
        self._places = [(m.name, variables.index(id(m.total)), variables.index(id(m.count))) for m in means]

    def steps_per_execution(self, most: int) -> int:
        """Return the largest number of batches, at most `most`, of executions that end where the windows end."""
        left = self._batches - (self._progress.step - self._progress.window_step) % self._batches
        common = math.gcd(self._batches, left)
        return next(steps for steps in range(min(most, common), 0, -1) if common % steps == 0)

    def end_step(self, step: int, rate: float) -> None:
        """End the window if it ends after `step` batches of the epoch.

        Args:
            step: batches that are done.
            rate: of the epoch, which holds unless it varies.
        """
        progress = self._progress
        if step - progress.window_step < self._batches and step < self._last:
            return
        arrays = backend.metric_values(self._model)
        values: Logs = {}
        for name, total, count in self._places:
            ends = [float(arrays[total]), float(arrays[count])]
            sums, number = (end - begin for end, begin in zip(ends, progress.window.get(name, (0.0, 0.0)), strict=True))
            values[name] = sums / number if number else math.nan
            progress.window[name] = ends
        progress.window_step = step
        schedule, batches = self._model.optimizer.schedule, self._before + step
        if schedule.varies:
            backend.synchronize(self._model)
            rate = float(schedule(batches - 1))
        if not self._is_too_long:
            update, logs = batches // self._accum_steps, {**values, RATE: rate}
            self._events.write_updates(update, logs)
            self._callbacks.on_log(update, logs)
        self._is_too_long = False
