"""The values of all schedules at a time, computed together inside the compiled step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from keras import ops

from tfaip.trainer.scheduler.interpolation import Interpolation
from tfaip.trainer.schedules.params import ScheduleParams
from tfaip.util.typing import Tensor

# Time between two points, in epochs, below which a value jumps: shorter than an update.
_SHORTEST = 1e-12


class ScheduleTable:
    """Points of several schedules as arrays.

    A dozen operations serve all schedules: one for each of them would take as long as the rest of a small step.

    Args:
        schedules: at least one.
    """

    def __init__(self, schedules: Sequence[ScheduleParams]) -> None:
        width = max(len(schedule.points) for schedule in schedules)
        # Of each schedule a row for the time before the first point, and one for each point and the time after it.
        self._times = np.full((len(schedules), width), np.inf, np.float32)
        self._parts = np.zeros((len(schedules), width + 1, 4), np.float32)
        for times, parts, schedule in zip(self._times, self._parts, schedules, strict=True):
            points = sorted(schedule.points.items())
            times[: len(points)] = [time for time, _ in points]
            parts[:, 2] = parts[:, 3] = points[0][1]
            for i, (time, value) in enumerate(points, start=1):
                following, last = points[min(i, len(points) - 1)]
                length = following - time
                moves = length > _SHORTEST and schedule.interpolation is not Interpolation.STEP
                parts[i] = (time, 1.0 / length if moves else 0.0, value, last if moves else value)
        self._first_rows = np.arange(len(schedules), dtype=np.int32) * (width + 1)
        kinds = [schedule.interpolation for schedule in schedules]
        self._is_cosine = np.array([kind is Interpolation.COSINE for kind in kinds])
        self._is_exponential = np.array([kind is Interpolation.EXPONENTIAL for kind in kinds])

    def values(self, epochs: Tensor) -> Tensor:
        """Return the value of each schedule, shape `[schedules]`, float32; at a point exactly the value given there.

        Args:
            epochs: completed epochs with a fraction, a float32 scalar.
        """
        passed = ops.sum(ops.cast(ops.greater_equal(epochs, self._times), "int32"), axis=1)
        rows = ops.take(self._parts.reshape(-1, 4), passed + self._first_rows, axis=0)
        start, factor, first, last = (rows[:, i] for i in range(4))
        share = ops.clip((epochs - start) * factor, 0.0, 1.0)
        if self._is_cosine.any():
            share = ops.where(self._is_cosine, (1.0 - ops.cos(np.float32(np.pi) * share)) / 2.0, share)
        values = first + (last - first) * share
        if self._is_exponential.any():
            # Where it does not apply, the base is 1: it may be 0 / 0 there.
            base = ops.where(self._is_exponential, last / ops.where(self._is_exponential, first, 1.0), 1.0)
            values = ops.where(self._is_exponential, first * ops.power(base, share), values)
        return values
