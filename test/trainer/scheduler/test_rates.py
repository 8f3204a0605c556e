"""Rates epoch by epoch, worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tfaip.trainer.history import History
from tfaip.trainer.scheduler import (
    ConstantParams,
    CosineDecayParams,
    ExponentialDecayParams,
    LearningRateParams,
    ReduceOnPlateauParams,
)


def rates(params: LearningRateParams, epochs: int) -> list[float]:
    return [params.rate(epoch, History()) for epoch in range(1, epochs + 1)]


def test_constant() -> None:
    assert rates(ConstantParams(lr=0.3), 3) == [0.3, 0.3, 0.3]
    assert rates(ConstantParams(), 1) == [0.001]
    assert rates(ConstantParams(lr=0.0), 2) == [0.0, 0.0]


@pytest.mark.parametrize(
    ("rule", "is_held"),
    [
        (CosineDecayParams(epochs=4), True),
        (CosineDecayParams(epochs=4, step_function=False), False),
        (ExponentialDecayParams(epochs=9), False),  # constant between two decays
        (ConstantParams(epochs=4), False),
        (ReduceOnPlateauParams(epochs=4), False),
    ],
)
def test_rules_that_change_within_an_epoch_are_held(rule: LearningRateParams, is_held: bool) -> None:
    assert rule.is_held() is is_held


def test_exponential_decay_by_default_falls_one_percent_every_third_epoch() -> None:
    table = [0.001, 0.001, 0.001, 0.00099, 0.00099, 0.00099, 0.0009801]
    assert rates(ExponentialDecayParams(), 7) == pytest.approx(table, rel=1e-12)


def test_exponential_decay_in_every_epoch() -> None:
    params = ExponentialDecayParams(lr=0.8, decay=0.5, learning_circle=1)
    assert rates(params, 5) == [0.8, 0.4, 0.2, 0.1, 0.05]


def test_exponential_decay_in_circles() -> None:
    params = ExponentialDecayParams(lr=1.0, decay=0.5, learning_circle=2)
    assert rates(params, 7) == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.125]


def test_the_rate_does_not_fall_below_the_fraction() -> None:
    params = ExponentialDecayParams(lr=10.0, decay=0.5, learning_circle=1, decay_min_fraction=0.2)
    assert rates(params, 5) == [10.0, 5.0, 2.5, 2.0, 2.0]


def test_no_decay_and_full_fraction_are_constant() -> None:
    assert rates(ExponentialDecayParams(lr=1.0, decay=1.0), 9) == [1.0] * 9
    assert rates(ExponentialDecayParams(lr=1.0, decay_min_fraction=1.0), 9) == [1.0] * 9


def test_an_offset_lets_the_schedule_start_later() -> None:
    params = ExponentialDecayParams(lr=1.0, decay=0.5, learning_circle=1, offset_epochs=2)
    assert rates(params, 5) == [1.0, 1.0, 1.0, 0.5, 0.25]


def test_the_rate_of_a_late_epoch_needs_no_history() -> None:
    assert ExponentialDecayParams(lr=1.0, decay=0.5, learning_circle=1).rate(1001, History()) == 2.0**-1000


@pytest.mark.parametrize(
    ("cls", "fields", "message"),
    [
        (ConstantParams, {"lr": -0.1}, "lr is -0.1, expected at least 0$"),
        (ConstantParams, {"lr": math.nan}, "lr is nan"),
        (ExponentialDecayParams, {"decay": 0.0}, r"decay is 0.0, expected a number in \(0, 1\]$"),
        (ExponentialDecayParams, {"learning_circle": 0}, "learning_circle is 0, expected at least 1$"),
        (
            ExponentialDecayParams,
            {"decay_min_fraction": 1.5},
            "decay_min_fraction is 1.5, expected a number from 0 to 1",
        ),
    ],
)
def test_impossible_values_name_the_field(cls: type[LearningRateParams], fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cls(**fields)


def test_the_base_has_no_rate() -> None:
    with pytest.raises(NotImplementedError, match="LearningRateParams implements neither"):
        LearningRateParams().rate(1, History())
