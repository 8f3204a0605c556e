"""Values between given points in time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from itertools import pairwise
from typing import Any

from tfaip.util.typing import Tensor


class Interpolation(StrEnum):
    """Form of the curve between two points."""

    LINEAR = "linear"
    STEP = "step"
    EXPONENTIAL = "exponential"
    COSINE = "cosine"


def interpolate(points: Mapping[float, float], kind: Interpolation, x: Tensor, xp: Any) -> Tensor:
    """Compute the value at time x; constant before the first point and after the last one.

    Args:
        points: time -> value, at least one; values above 0 for exponential interpolation.
        kind: step keeps the value of a point until the next one, cosine is half a period of the cosine.
        x: the time.
        xp: `numpy` or `keras.ops`, to compute with.
    """
    ordered = sorted(points.items())
    result = ordered[0][1] * xp.ones_like(x)
    for (start, first), (end, last) in pairwise(ordered):
        between = _between(first, last, kind, xp.clip((x - start) / (end - start), 0.0, 1.0), xp)
        result = xp.where(x >= start, between, result)
    # From the last point on, exactly its value: the formula would round it.
    return xp.where(x >= ordered[-1][0], ordered[-1][1], result)


def _between(first: float, last: float, kind: Interpolation, share: Tensor, xp: Any) -> Tensor:
    if kind is Interpolation.STEP:
        return first
    if kind is Interpolation.EXPONENTIAL:
        return first * xp.power(last / first, share)
    if kind is Interpolation.COSINE:
        share = (1.0 - xp.cos(math.pi * share)) / 2.0
    return first + (last - first) * share
