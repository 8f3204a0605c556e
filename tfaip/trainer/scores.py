"""Differences of scores, defined for every pair of numbers."""

from __future__ import annotations

import math


def absolute_difference(old: float, new: float, mode: str = "min") -> float:
    """Return by how much `new` is worse than `old`; below 0 if it is better.

    A score that is not finite is worse than all others: inf if `new` is not finite, else -inf if
    `old` is not.

    Args:
        old: the earlier score.
        new: the later score.
        mode: "min" if low scores are good, "max" if high ones are.
    """
    if not math.isfinite(new):
        return math.inf
    if not math.isfinite(old):
        return -math.inf
    return old - new if mode == "max" else new - old


def relative_difference(old: float, new: float, mode: str = "min", divide_by_old: bool = False) -> float:
    """Return `absolute_difference` divided by |new|, or by |old|; by 0: 0 if both are equal, else +-inf."""
    difference = absolute_difference(old, new, mode)
    if math.isinf(difference):
        return difference
    divisor = old if divide_by_old else new
    return quotient(difference, abs(divisor))


def quotient(number: float, divisor: float) -> float:
    """Return `number / divisor` for a divisor from 0: 0 stays 0, anything else by 0 is +-inf."""
    if divisor > 0:
        return number / divisor
    if number == 0:
        return 0.0
    return math.copysign(math.inf, number)


def mean_difference(differences: list[float]) -> float:
    """Return the mean; a single inf outweighs everything, then a single -inf does.

    Args:
        differences: at least one, none of them NaN.
    """
    if math.inf in differences:
        return math.inf
    return sum(differences) / len(differences)
