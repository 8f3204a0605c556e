"""Rates over thirty epochs, worked out by hand, and impossible params."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from test.trainer.line import LineTrainerParams
from tfaip.params import post_init
from tfaip.trainer.history import History
from tfaip.trainer.scheduler import (
    FEEDBACK,
    SCHEDULES,
    CosineDecayParams,
    ExponentialDecayParams,
    FunctionParams,
    Interpolation,
    InverseSqrtDecayParams,
    LearningRateParams,
    PiecewiseParams,
    PolynomialDecayParams,
    Warmup,
    WarmupConstantParams,
    WarmupCosineDecayParams,
    WarmupExponentialDecayParams,
)

# Cosines of 0, 6, 12 ... 84 degrees.
COSINES = [1, 0.994521895368, 0.978147600734, 0.951056516295, 0.913545457643, 0.866025403784, 0.809016994375]
COSINES += [0.743144825477, 0.669130606359, 0.587785252292, 0.5, 0.406736643076, 0.309016994375, 0.207911690818]
COSINES += [0.104528463268]
HALF_TURN = [*COSINES, 0.0, *[-c for c in reversed(COSINES[1:])]]
# Powers 0, 0.1 ... 0.9 of 10.
TENTHS = [1, 1.258925411794, 1.584893192461, 1.995262314969, 2.511886431510]
TENTHS += [3.162277660168, 3.981071705535, 5.011872336273, 6.309573444802, 7.943282347243]


def assert_rates(params: LearningRateParams, table: list[float]) -> None:
    params.epochs = len(table)
    rates = [params.rate(epoch, History()) for epoch in range(1, len(table) + 1)]
    assert rates == pytest.approx(table, rel=1e-9, abs=1e-12)


def test_cosine_decay() -> None:
    table = [0.55 + 0.45 * c for c in HALF_TURN]
    assert len(table) == 30
    assert_rates(CosineDecayParams(lr=1.0, alpha=0.1), table)


def test_cosine_decay_goes_to_zero_by_default() -> None:
    assert_rates(CosineDecayParams(lr=0.01), [0.005 * (1 + c) for c in HALF_TURN])


def test_an_offset_shortens_the_decay() -> None:
    # Ten epochs with the first rate, then twenty from 1 to 0, 9 degrees each.
    table = [1.0] * 10 + [(1 + math.cos(math.radians(9 * x))) / 2 for x in range(20)]
    assert_rates(CosineDecayParams(lr=1.0, offset_epochs=10), table)


def test_linear_decay() -> None:
    assert_rates(PolynomialDecayParams(lr=3.0), [left / 10 for left in range(30, 0, -1)])


def test_quadratic_decay_to_a_fraction() -> None:
    assert_rates(PolynomialDecayParams(lr=900.0, power=2.0), [float(left**2) for left in range(30, 0, -1)])
    # A tenth of lr never falls: 90 + 0.9 * left^2.
    table = [90 + 0.9 * left**2 for left in range(30, 0, -1)]
    assert_rates(PolynomialDecayParams(lr=900.0, power=2.0, alpha=0.1), table)


def test_inverse_square_root_decay() -> None:
    params = InverseSqrtDecayParams(lr=6.0)
    assert [params.rate(epoch, History()) for epoch in (1, 4, 9, 16, 25)] == pytest.approx([6.0, 3.0, 2.0, 1.5, 1.2])
    assert [(6.0 / params.rate(epoch, History())) ** 2 for epoch in range(1, 31)] == pytest.approx(list(range(1, 31)))
    slow = InverseSqrtDecayParams(lr=6.0, timescale_epochs=5)
    assert [slow.rate(epoch, History()) for epoch in (1, 16)] == [6.0, 3.0]


def test_warmup_constant() -> None:
    table = [0.1, 0.19, 0.28, 0.37, 0.46, 0.55, 0.64, 0.73, 0.82, 0.91] + [1.0] * 20
    assert_rates(WarmupConstantParams(lr=1.0), table)
    assert_rates(WarmupConstantParams(lr=1.0, final_epochs=7), table)


def test_exponential_warmup() -> None:
    table = [0.1 * power for power in TENTHS] + [1.0] * 20
    assert_rates(WarmupConstantParams(lr=1.0, warmup=Warmup.EXPONENTIAL), table)


def test_warmup_and_exponential_decay() -> None:
    params = WarmupExponentialDecayParams(
        lr=1.0, warmup_epochs=4, warmup_factor=4, constant_epochs=2, final_epochs=6, decay=0.5, learning_circle=3
    )
    table = [0.25, 0.4375, 0.625, 0.8125, 1.0, 1.0]
    table += [1.0] * 3 + [0.5] * 3 + [0.25] * 3 + [0.125] * 3 + [0.0625] * 3 + [0.03125] * 3
    table += [0.015625] * 6
    assert len(table) == 30
    assert_rates(params, table)


def test_exponential_decay_after_warmup_goes_on_without_final_epochs() -> None:
    params = WarmupExponentialDecayParams(lr=1.0, warmup_epochs=0, decay=0.5, learning_circle=10)
    assert_rates(params, [1.0] * 10 + [0.5] * 10 + [0.25] * 10)
    params.decay_min_fraction = 0.4
    assert_rates(params, [1.0] * 10 + [0.5] * 10 + [0.4] * 10)


def test_warmup_and_cosine_decay() -> None:
    params = WarmupCosineDecayParams(
        lr=1.0, warmup_epochs=5, warmup_factor=5, constant_epochs=5, final_epochs=5, alpha=0.1
    )
    table = [0.2, 0.36, 0.52, 0.68, 0.84] + [1.0] * 5
    table += [0.55 + 0.45 * c for c in HALF_TURN[::2]]  # fifteen epochs, 12 degrees each
    table += [0.1] * 5
    assert len(table) == 30
    assert_rates(params, table)


def test_an_offset_comes_before_the_warmup() -> None:
    params = WarmupCosineDecayParams(lr=1.0, warmup_epochs=2, warmup_factor=2, offset_epochs=3)
    table = [0.5] * 3 + [0.5, 0.75] + [(1 + math.cos(math.pi * x / 25)) / 2 for x in range(25)]
    assert_rates(params, table)


@pytest.mark.parametrize("epochs", [0, 1, 5, 10])
def test_a_training_may_end_within_the_warmup(epochs: int) -> None:
    params = WarmupCosineDecayParams(lr=1.0, final_epochs=3)
    assert_rates(params, [0.1 + 0.09 * x for x in range(epochs)])


POINTS = {10: 0.5, 20: 0.25}


def test_piecewise_linear() -> None:
    table = [1.0 - 0.05 * x for x in range(10)] + [0.5 - 0.025 * x for x in range(10)] + [0.25] * 10
    assert_rates(PiecewiseParams(lr=1.0, points=POINTS), table)
    assert_rates(PiecewiseParams(lr=7.0, points={20: 0.25, 0: 1.0, 10: 0.5}), table)


def test_piecewise_steps() -> None:
    table = [1.0] * 10 + [0.5] * 10 + [0.25] * 10
    assert_rates(PiecewiseParams(lr=1.0, points=POINTS, interpolation=Interpolation.STEP), table)


def test_piecewise_exponential() -> None:
    table = [10.0 / power for power in TENTHS] + TENTHS + [10.0] * 10
    params = PiecewiseParams(lr=10.0, points={10: 1.0, 20: 10.0}, interpolation=Interpolation.EXPONENTIAL)
    assert_rates(params, table)


def test_piecewise_rates_are_exactly_those_typed() -> None:
    params = PiecewiseParams(lr=0.1, points={1: 0.3, 2: 0.7, 3.5: 1e-5})
    assert [params.rate(epoch, History()) for epoch in (1, 2, 3, 5, 1000)] == [0.1, 0.3, 0.7, 1e-5, 1e-5]
    # Half a unit before 3.5 two thirds of the way are done.
    assert params.rate(4, History()) == pytest.approx(0.7 + (1e-5 - 0.7) * 2 / 3)


def test_piecewise_without_points_is_constant() -> None:
    assert_rates(PiecewiseParams(lr=0.3), [0.3] * 30)


@pytest.mark.parametrize("cls", [CosineDecayParams, PolynomialDecayParams, WarmupCosineDecayParams])
def test_a_decay_with_an_end_needs_the_length_of_the_training(cls: type[LearningRateParams]) -> None:
    with pytest.raises(ValueError, match=f"{cls.__name__} needs to know the length of the training"):
        cls().rate(1, History())


def test_the_trainer_shares_its_number_of_epochs() -> None:
    params = LineTrainerParams(epochs=4, learning_rate=PolynomialDecayParams(lr=1.0))
    assert [params.learning_rate.rate(epoch, History()) for epoch in (1, 2, 3, 4)] == [1.0, 0.75, 0.5, 0.25]
    params.epochs = 2
    post_init(params)
    assert [params.learning_rate.rate(epoch, History()) for epoch in (1, 2)] == [1.0, 0.5]


TIME_RULES = [cls for cls in SCHEDULES if cls not in (*FEEDBACK, FunctionParams)]


@pytest.mark.parametrize("cls", TIME_RULES)
def test_schedules_are_stored_as_json(cls: type[LearningRateParams]) -> None:
    params = LineTrainerParams(epochs=7, learning_rate=cls(lr=0.25, step_function=False, offset_epochs=1))
    if isinstance(params.learning_rate, PiecewiseParams):
        params.learning_rate.points = {2.5: 0.5, 4: 0.25}
    again = LineTrainerParams.from_json(params.to_json())
    assert again.learning_rate == params.learning_rate
    assert [again.learning_rate.rate(e, History()) for e in range(1, 8)] == [
        params.learning_rate.rate(e, History()) for e in range(1, 8)
    ]


@given(
    cls=st.sampled_from([cls for cls in TIME_RULES if cls is not PiecewiseParams]),
    epochs=st.integers(1, 60),
    offset=st.integers(-5, 70),
)
def test_rates_stay_between_zero_and_lr(cls: type[LearningRateParams], epochs: int, offset: int) -> None:
    params = cls(lr=0.5, offset_epochs=offset, epochs=epochs)
    rates = [params.rate(epoch, History()) for epoch in range(1, epochs + 1)]
    assert all(0 <= rate <= 0.5 for rate in rates)
    fractional = params.value_after(np.linspace(0, epochs, 50), np) * params.scale()
    assert np.all((fractional >= 0) & (fractional <= 0.5))


def test_a_rate_per_epoch_is_enough_for_a_schedule_of_your_own() -> None:
    class Halving(LearningRateParams):
        def rule_rate(self, epoch: int, history: History) -> float:
            return self.lr / 2 ** (epoch - 1)

    assert Halving(lr=1.0).base(3, History()) == 0.25
    with pytest.raises(ValueError, match="step_function is False, expected True, as Halving does not implement value"):
        Halving(step_function=False)


def test_the_base_of_a_continuous_rule_does_not_change() -> None:
    params = ExponentialDecayParams(lr=1.0, decay=0.5, learning_circle=1)
    assert [params.base(epoch, History()) for epoch in (1, 2, 3)] == [1.0, 0.5, 0.25]
    params.step_function = False
    assert [params.base(epoch, History()) for epoch in (1, 2, 3)] == [1.0, 1.0, 1.0]
    assert [params.rate(epoch, History()) for epoch in (1, 2, 3)] == [1.0, 0.5, 0.25]


@pytest.mark.parametrize(
    ("cls", "fields", "message"),
    [
        (CosineDecayParams, {"alpha": 1.5}, "alpha is 1.5, expected a number from 0 to 1$"),
        (PolynomialDecayParams, {"power": 0.0}, "power is 0.0, expected a number above 0$"),
        (InverseSqrtDecayParams, {"timescale_epochs": 0.0}, "timescale_epochs is 0.0, expected at least 1e-06$"),
        (WarmupConstantParams, {"warmup_epochs": -1}, "warmup_epochs is -1, expected at least 0"),
        (WarmupConstantParams, {"warmup_factor": 0.5}, "warmup_factor is 0.5, expected at least 1$"),
        (PiecewiseParams, {"points": {-1: 0.5}}, "points is {-1: 0.5}, expected completed epochs=rate"),
        (PiecewiseParams, {"points": {1: -0.5}}, r"points\[1\] is -0.5, expected at least 0"),
        (PiecewiseParams, {"points": {1: 0.0}, "interpolation": Interpolation.EXPONENTIAL}, "rates above 0"),
    ],
)
def test_impossible_values_name_the_field(cls: type[LearningRateParams], fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cls(**fields)
