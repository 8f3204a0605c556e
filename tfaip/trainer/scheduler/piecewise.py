"""Learning rates given at points in time."""

from __future__ import annotations

import math
from typing import Any

from tfaip.params import option
from tfaip.params.fields import FieldError
from tfaip.trainer.scheduler.interpolation import Interpolation, interpolate
from tfaip.trainer.scheduler.params import LearningRateParams
from tfaip.util.typing import Tensor


class PiecewiseParams(LearningRateParams):
    """Interpolation between the rates of `points`; after the last point its rate stays.

    Time is counted in completed epochs: point 5 belongs to the beginning of epoch 6. Without a point 0 the rate
    there is `lr`.
    """

    points: dict[float, float] = option({}, "Rates by number of completed epochs, e.g. 10=0.001 20=0.0001", low=0)
    interpolation: Interpolation = option(
        Interpolation.LINEAR, "Interpolation between two points (step: the rate of the earlier one)"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(0 <= x < math.inf for x in self.points):
            raise FieldError("points", self.points, "completed epochs=rate, with finite numbers of epochs from 0")
        if self.interpolation is Interpolation.EXPONENTIAL and 0 in self._all_points().values():
            expected = "rates above 0 for exponential interpolation (lr is the rate at 0 unless a point is)"
            raise FieldError("points", self.points, expected, others=["lr", "interpolation"])

    def value(self, x: Tensor, xp: Any) -> Tensor:
        return interpolate(self._all_points(), self.interpolation, x, xp)

    def scale(self) -> float:
        return 1.0

    def _all_points(self) -> dict[float, float]:
        return {0.0: self.lr, **self.points}
