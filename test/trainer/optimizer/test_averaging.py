"""The moving average of the weights."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from tfaip.trainer.optimizer import SGDOptimizer
from tfaip.trainer.optimizer.trainingoptimizer import build_optimizer
from tfaip.trainer.optimizer.update import AverageRate


def number(variable):
    return float(keras.ops.convert_to_numpy(variable.value))


def averaged(rate, initial=1.0):
    weight = keras.Variable(initial, name="w")
    optimizer = build_optimizer(SGDOptimizer(), {"w": weight}, [weight], average_rate=rate)
    optimizer.rate.assign(1.0)
    return weight, optimizer, optimizer.named_variables({"w": weight})["average/w"]


def test_zero_is_off():
    assert AverageRate.of(0, 100) is None


def test_an_explicit_rate_is_used_as_it_is():
    assert AverageRate.of(0.5, 100) == AverageRate(0.5, ramp=False)


@pytest.mark.parametrize(
    ("updates_per_epoch", "rate"),
    [
        (1, 0.99),  # 0.75 is below the lower bound
        (100, 0.75 ** (1 / 100)),  # 0.997127
        (10_000, 0.99975),  # 0.99997 is above the upper bound
    ],
)
def test_the_automatic_rate_keeps_three_quarters_over_an_epoch(updates_per_epoch, rate):
    assert AverageRate.of(-1, updates_per_epoch) == AverageRate(rate, ramp=True)


@pytest.mark.backend
def test_the_automatic_rate_ramps_up():
    rate = AverageRate(0.9, ramp=True)
    got = [float(keras.ops.convert_to_numpy(rate.after(n))) for n in (1, 8, 80, 81)]
    # (1 + n) / (10 + n): 2/11, 9/18, 81/90 = 0.9, then the limit.
    np.testing.assert_allclose(got, [2 / 11, 0.5, 0.9, 0.9], rtol=1e-6)


@pytest.mark.backend
def test_worked_out_average():
    weight, optimizer, average = averaged(AverageRate(0.75, ramp=False))
    assert number(average) == 1  # starts at the weight
    values = []
    for gradient in (4, -8):
        optimizer.apply([keras.ops.convert_to_tensor(np.float32(gradient))], [weight])
        values.append(number(average))
    # Weights -3 and 5: 1 + (-3 - 1) / 4 = 0, then 0 + (5 - 0) / 4.
    assert values == [0, 1.25]


@pytest.mark.backend
def test_averages_in_place_and_back_also_after_an_error():
    weight, optimizer, average = averaged(AverageRate(0.75, ramp=False))
    optimizer.apply([keras.ops.convert_to_tensor(np.float32(4))], [weight])
    with optimizer.with_averages():
        assert (number(weight), number(average)) == (0, 0)
    with pytest.raises(RuntimeError, match="on purpose"), optimizer.with_averages():
        raise RuntimeError("on purpose")
    assert (number(weight), number(average)) == (-3, 0)
