"""Learning rates given at points in time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from tfaip.params import pai_dataclass, pai_meta
from tfaip.trainer.scheduler.interpolation import Interpolation, interpolate
from tfaip.trainer.scheduler.params import LearningRateParams
from tfaip.util.typing import Tensor


@pai_dataclass
@dataclass
class PiecewiseParams(LearningRateParams):
    """The rates of `points`, and something between them; the last rate goes on.

    Time is counted in completed epochs: point 5 belongs to the beginning of epoch 6. Without a point 0 the rate
    there is `lr`.
    """

    points: dict[float, float] = field(
        default_factory=dict, metadata=pai_meta(help="Completed epochs=rate, e.g. 10=0.001 20=0.0001")
    )
    interpolation: Interpolation = field(
        default=Interpolation.LINEAR, metadata=pai_meta(help="Between two points; step: the rate of the earlier one")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        valid = all(0 <= x < math.inf and 0 <= rate < math.inf for x, rate in self.points.items())
        self._check("points", valid, "finite numbers >= 0, completed epochs=rate")
        if self.interpolation is Interpolation.EXPONENTIAL and 0 in self._all_points().values():
            raise ValueError(
                "exponential interpolation needs rates above 0: change --learning_rate.points (and --learning_rate.lr, "
                "which is the rate at 0 unless a point is), or --learning_rate.interpolation"
            )

    def value(self, x: Tensor, xp: Any) -> Tensor:
        return interpolate(self._all_points(), self.interpolation, x, xp)

    def scale(self) -> float:
        return 1.0

    def _all_points(self) -> dict[float, float]:
        return {0.0: self.lr, **self.points}
