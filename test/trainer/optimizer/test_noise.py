"""Noise on the gradients."""

from __future__ import annotations

import numpy as np
import pytest

from test.trainer.optimizer.training import Training
from tfaip.trainer.optimizer import GradientNoiseParams, SGDOptimizer


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
def test_no_two_numbers_share_their_noise():
    training = Training(noise(), {"a": np.zeros((2, 3)), "b": np.zeros(6), "c": 0.0})
    a, b, c = training.step(np.zeros((2, 3)), np.zeros(6), 0.0)
    first = [*np.ravel(a), *b, c]
    second = [*np.ravel(training.step(np.zeros((2, 3)), np.zeros(6), 0.0)[0])] - np.ravel(a)
    assert len({*first, *second}) == 19


def test_equal_seeds_give_equal_noise():
    first, again, other = (moves(Training(noise(), {"w": np.zeros(4)}, seed=seed), 4, 2) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.any(first == other)


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
