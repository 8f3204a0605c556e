"""Noise on the gradients."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from test.trainer.optimizer.training import Training
from tfaip.trainer.optimizer import GradientNoiseParams, SGDOptimizer
from tfaip.trainer.optimizer.update import AverageRate


def noise(stddev=1.0, gamma=0.0, **fields):
    return SGDOptimizer(gradient_noise=GradientNoiseParams(stddev=stddev, gamma=gamma), **fields)


def moves(training, size, steps):
    """What zero gradients move `size` weights in each of `steps` updates."""
    values = [np.zeros(size), *(np.array(training.step(np.zeros(size))[0]) for _ in range(steps))]
    return -np.diff(values, axis=0)


@pytest.mark.backend
def test_mean_and_deviation():
    (drawn,) = moves(Training(noise(stddev=2.0), {"w": np.zeros(40_000)}, seed=5), 40_000, 1)
    # Of n normal numbers the mean has a deviation of 2 / sqrt(n) = 0.01, the deviation one of 2 / sqrt(2 n) = 0.007.
    assert abs(drawn.mean()) < 0.04
    assert drawn.std() == pytest.approx(2.0, abs=0.03)
    assert np.mean(np.abs(drawn) > 4.0) == pytest.approx(0.0455, abs=0.005)


@pytest.mark.backend
def test_noise_is_annealed_with_the_updates():
    drawn = moves(Training(noise(stddev=1.0, gamma=0.55), {"w": np.zeros(10_000)}), 10_000, 4)
    # 1 / (1 + update)^0.55
    assert drawn.std(axis=1) == pytest.approx([1.0, 0.6830, 0.5465, 0.4665], rel=0.03)
    constant = moves(Training(noise(stddev=1.0), {"w": np.zeros(10_000)}), 10_000, 2)
    assert constant.std(axis=1) == pytest.approx([1.0, 1.0], rel=0.03)


@pytest.mark.backend
def test_no_two_numbers_share_their_noise_and_equal_seeds_give_equal_noise():
    (first, second), again, other = (moves(Training(noise(), {"w": np.zeros(6)}, seed=s), 6, 2) for s in (1, 1, 2))
    np.testing.assert_array_equal([first, second], again)
    assert len({*first, *second, *np.ravel(other)}) == 24
    a, b = Training(noise(), {"a": np.zeros(3), "b": np.zeros(3)}).step(np.zeros(3), np.zeros(3))
    assert len({*a, *b}) == 6


@pytest.mark.backend
def test_noise_comes_before_the_clips():
    training = Training(noise(stddev=100.0, clip_value=0.5), {"w": np.zeros(8)})
    drawn = moves(training, 8, 3)
    # Noise of 100 is cut off at 0.5; the chance that one number of 24 is smaller is below 0.1, and the seed is fixed.
    assert set(np.abs(drawn).ravel()) == {0.5}


@pytest.mark.backend
def test_one_draw_per_update_on_the_mean_of_its_batches():
    training = Training(noise(), {"w": np.zeros(1000)}, accum_steps=4)
    drawn = moves(training, 1000, 8)
    assert drawn[[0, 1, 2, 4, 5, 6]].any() == np.False_
    assert drawn[[3, 7]].std(axis=1) == pytest.approx([1.0, 1.0], rel=0.1)


@pytest.mark.parametrize(
    ("given", "updates_per_epoch", "rate"),
    [
        (0, 100, None),
        (0.5, 100, AverageRate(0.5, ramp=False)),
        (-1, 1, AverageRate(0.99, ramp=True)),  # 0.75 is below the lower bound
        (-1, 100, AverageRate(0.75 ** (1 / 100), ramp=True)),  # three quarters are left after an epoch
        (-1, 10_000, AverageRate(0.99975, ramp=True)),  # 0.99997 is above the upper bound
    ],
)
def test_the_rate_of_calc_ema(given, updates_per_epoch, rate):
    assert AverageRate.of(given, updates_per_epoch) == rate


@pytest.mark.backend
def test_the_automatic_rate_ramps_up():
    rate = AverageRate(0.9, ramp=True)
    got = [float(keras.ops.convert_to_numpy(rate.after(n))) for n in (1, 8, 80, 81)]
    # (1 + n) / (10 + n): 2/11, 9/18, 81/90 = 0.9, then the limit.
    np.testing.assert_allclose(got, [2 / 11, 0.5, 0.9, 0.9], rtol=1e-6)


@pytest.mark.backend
def test_worked_out_average():
    training = Training(SGDOptimizer(), {"w": 1.0}, average_rate=AverageRate(0.75, ramp=False))
    values = [training.state()["average/w"]]
    for gradient in (4, -8):
        training.step(gradient)
        values.append(training.state()["average/w"])
    # It starts at the weight; weights -3 and 5: 1 + (-3 - 1) / 4 = 0, then 0 + (5 - 0) / 4.
    assert values == [1, 0, 1.25]


@pytest.mark.backend
def test_averages_in_place_and_back_also_after_an_error():
    training = Training(SGDOptimizer(), {"w": 1.0}, average_rate=AverageRate(0.75, ramp=False))
    training.step(4)
    with training.optimizer.with_averages():
        assert (training.values(), training.state()["average/w"]) == ([0], 0)
    with pytest.raises(RuntimeError, match="on purpose"), training.optimizer.with_averages():
        raise RuntimeError("on purpose")
    assert (training.values(), training.state()["average/w"]) == ([-3], 0)
