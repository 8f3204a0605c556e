"""Rates of layers: numbers, or variables that a training changes."""

from __future__ import annotations

import math
from typing import TypeAlias

import keras
from keras import ops

from tfaip.util.typing import Tensor

Rate: TypeAlias = float | keras.Variable


def require_rate(name: str, rate: Rate, high: float = math.inf) -> Rate:
    """Return the rate of a layer; the value of a variable is not known yet and not checked.

    Raises:
        ValueError: if it is a number that is not from 0 to `high`.
    """
    if not isinstance(rate, keras.Variable) and not 0 <= rate <= high:
        limits = "at least 0" if math.isinf(high) else f"from 0 to {high:g}"
        raise ValueError(f"{name} is {rate}, expected a number {limits}")
    return rate


def require_count(name: str, count: int) -> int:
    """Return a count that shapes a layer.

    Raises:
        ValueError: if it is no whole number, or negative.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise ValueError(f"{name} is {count!r}, expected a whole number that is not negative")
    return count


def read_rate(rate: Rate, high: float = math.inf) -> Tensor:
    """Return the rate as a float32 scalar.

    It is read in each call and never in a Python condition, so that a compiled step follows a variable. A value of a
    variable that is not within the limits, from 0 to `high`, counts as the next one that is.
    """
    return ops.clip(ops.cast(ops.convert_to_tensor(rate), "float32"), 0.0, high)


def rate_number(rate: Rate) -> float:
    """Return the rate as a number, for the config of a layer."""
    if isinstance(rate, keras.Variable):
        return float(ops.convert_to_numpy(rate.value))
    return rate
