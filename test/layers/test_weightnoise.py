"""Noise on weights: its numbers are normal, and those of the definition. Its effect: test/trainer/schedules."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from keras import ops

from tfaip.backend.active import backend
from tfaip.layers.weightnoise import normal


def drawn(first: int, second: int, size: int) -> np.ndarray:
    seed = ops.convert_to_tensor(np.array([first, second], "uint32"))
    return np.asarray(ops.convert_to_numpy(backend.fused(normal)(seed, size)), "float64")


@pytest.mark.backend
def test_the_distribution_of_the_numbers() -> None:
    size = 1_000_000
    numbers = np.sort(drawn(1, 0, size))
    # The mean of n normal numbers has a deviation of 1 / sqrt(n), their variance one of sqrt(2 / n).
    assert abs(numbers.mean()) < 4 / math.sqrt(size)
    assert numbers.var() == pytest.approx(0.9997, abs=4 * math.sqrt(2 / size))
    for limit in (-3.0, -2.0, -1.0, -0.3, 0.0, 0.3, 1.0, 2.0, 3.0):
        share = NormalDist().cdf(limit)
        found = np.searchsorted(numbers, limit) / size
        assert found == pytest.approx(share, abs=0.0002 + 4 * math.sqrt(share * (1 - share) / size))
    # Expected are 57.6 beyond 4, with a deviation of 7.6.
    assert 57.6 - 4 * 7.6 < np.sum(np.abs(numbers) > 4) < 57.6 + 4 * 7.6
    assert np.abs(numbers).max() < 6.44
    # In steps of 2^-24 / 2.86 = 2e-8, or where float32 is coarser its own, up to 1e-7: of a million few are equal.
    assert len(np.unique(numbers)) > 0.97 * size
