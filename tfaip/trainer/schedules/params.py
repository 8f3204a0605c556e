"""Params of the schedules; need no backend."""

from __future__ import annotations

from typing import Any

from tfaip.params import ParamsBase, option
from tfaip.params.fields import FieldError
from tfaip.trainer.scheduler.rules import Interpolation, interpolate


class ScheduleParams(ParamsBase):
    """Values of one number of the training at points in time.

    Time is counted in completed epochs, with fractions: point 5 belongs to the beginning of epoch 6. Before the first
    point the value is that of the first point, after the last one that of the last.
    """

    target: str = option(
        "",
        "What is scheduled: a flag without dashes or a dotted path, e.g. optimizer.clip_global_norm, loss_weights.ctc, "
        "graph.dropout.rate, setup.train.max_element_length (docs/schedules.md lists what can be)",
    )
    points: dict[float, float] = option({}, "Values by number of completed epochs, e.g. 0=1 2.5=0.1", finite=True)
    interpolation: Interpolation = option(
        Interpolation.LINEAR, "Interpolation between two points (step: the value of the earlier one)"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.points or min(self.points) < 0:
            raise FieldError("points", self.points, "numbers of completed epochs, at least 0, with values")
        if self.interpolation is Interpolation.EXPONENTIAL and min(self.points.values()) <= 0:
            expected = "values above 0 for exponential interpolation"
            raise FieldError("points", self.points, expected, others=["interpolation"])

    def value(self, epochs: Any, xp: Any = None) -> Any:
        """Return the value after a (fractional) number of completed epochs.

        Args:
            epochs: a number, or a float32 scalar of the step.
            xp: `keras.ops` in the step; None: NumPy.
        """
        if xp is None:
            import numpy as np

            return float(interpolate(self.points, self.interpolation, np.float64(epochs), np))
        return interpolate(self.points, self.interpolation, epochs, xp)
