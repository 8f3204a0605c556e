"""What the numbers of an optimizer may be: one table, by the class that declares the field."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Range:
    """Finite numbers from `low` to `high`; NaN is in no range.

    Args:
        low: the lower end.
        high: the upper end.
        has_low: whether `low` itself belongs to it.
        has_high: whether `high` itself belongs to it.
    """

    low: float = -math.inf
    high: float = math.inf
    has_low: bool = True
    has_high: bool = True

    def __contains__(self, value: float) -> bool:
        above = value >= self.low if self.has_low else value > self.low
        below = value <= self.high if self.has_high else value < self.high
        return above and below and abs(value) < math.inf

    def __str__(self) -> str:
        if math.isinf(self.low):
            return f"a finite number up to {self.high:g}"
        if math.isinf(self.high):
            return f"a finite number {'from' if self.has_low else 'above'} {self.low:g}"
        return f"a number in {'[' if self.has_low else '('}{self.low:g}, {self.high:g}{']' if self.has_high else ')'}"


_DECAY = Range(0, 1, has_high=False)  # of a mean, which with 1 would never see a gradient
_MOMENTUM = Range(0, 1)
_FROM_0 = Range(0)
_UP_TO_0 = Range(high=0)
# For an epsilon: with 0 the first gradient that is 0, such as that of a dead unit, is divided by 0.
_ABOVE_0 = Range(0, has_low=False)
_ADAM = {"beta_1": _DECAY, "beta_2": _DECAY, "epsilon": _ABOVE_0}

RANGES = {
    "OptimizerParams": {
        "clip_value": _ABOVE_0,
        "clip_norm": _ABOVE_0,
        "clip_global_norm": _ABOVE_0,
        "skip_nonfinite": _FROM_0,
        "reset_every_n_epochs": _FROM_0,
        "weight_decay": _FROM_0,
    },
    "GradientNoiseParams": {"stddev": _FROM_0, "gamma": _FROM_0},
    "OptimizerGroupParams": {"lr_factor": _FROM_0},
    "AdamOptimizer": _ADAM,
    "AdamaxOptimizer": _ADAM,
    "AdaBeliefOptimizer": _ADAM,
    "NadamOptimizer": _ADAM,
    "LambOptimizer": _ADAM,
    "SGDOptimizer": {"momentum": _MOMENTUM},
    "RMSpropOptimizer": {"rho": _DECAY, "momentum": _MOMENTUM, "epsilon": _ABOVE_0},
    "AdagradOptimizer": {"initial_accumulator_value": _FROM_0, "epsilon": _ABOVE_0},
    "AdadeltaOptimizer": {"rho": _DECAY, "epsilon": _ABOVE_0},
    # Keras takes Lion with beta_1 = 0 for a mistake: it would be the sign of the gradient.
    "LionOptimizer": {"beta_1": Range(0, 1, has_low=False), "beta_2": _DECAY},
    "FtrlOptimizer": {
        "learning_rate_power": _UP_TO_0,
        "initial_accumulator_value": _ABOVE_0,  # its root is a denominator
        "l1_regularization_strength": _FROM_0,
        "l2_regularization_strength": _FROM_0,
    },
    "AdafactorOptimizer": {
        "beta_2_decay": _UP_TO_0,
        "epsilon_1": _ABOVE_0,
        "epsilon_2": _ABOVE_0,  # with 0, weights that begin at 0 never move
        "clip_threshold": _ABOVE_0,
    },
    "MuonOptimizer": {
        "adam_beta_1": _DECAY,
        "adam_beta_2": _DECAY,
        "epsilon": _ABOVE_0,
        "momentum": _MOMENTUM,
        "ns_steps": Range(1, 20),  # they are unrolled; 5 is usual
    },
}


def ranges_of(cls: type) -> dict[str, Range]:
    """The ranges of the fields of a params class, those that it inherits included."""
    found: dict[str, Range] = {}
    for base in reversed(cls.__mro__):
        found.update(RANGES.get(base.__name__, {}))
    return found


def check_ranges(params: Any, flag: str) -> None:
    """Whether the numbers of a params object are in their ranges.

    Args:
        params: a dataclass.
        flag: what the flags of its fields begin with, for the message.

    Raises:
        ValueError: one is not; names field, value, range and flag.
    """
    ranges = ranges_of(type(params))
    for field in fields(params):
        value, allowed = getattr(params, field.name), ranges.get(field.name)
        may_be_none = field.default is None
        if allowed is None or (value is None and may_be_none) or value in allowed:
            continue
        alternative = ", or None for none" if may_be_none else ""
        raise ValueError(f"{field.name} is {value}, expected {allowed}{alternative}: change {flag}.{field.name}")
