"""Normal numbers that are functions of seed and position: by integers of Python, and their distribution."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from keras import ops

from tfaip.backend.active import backend
from tfaip.layers.weightnoise import normal

pytestmark = pytest.mark.backend

MASK = 2**32 - 1


def drawn(first: int, second: int, size: int) -> np.ndarray:
    seed = ops.convert_to_tensor(np.array([first, second], "uint32"))
    return np.asarray(ops.convert_to_numpy(backend.fused(normal)(seed, size)), "float64")


def scrambled(bits: int) -> int:
    bits = (bits ^ bits >> 16) * 0x7FEB352D & MASK
    bits = (bits ^ bits >> 15) * 0x846CA68B & MASK
    return bits ^ bits >> 16


def reference(first: int, second: int, position: int) -> float:
    """The definition, in integers without limits and numbers of 64 bits."""
    start = scrambled(scrambled(first + 0x9E3779B9 & MASK) + second & MASK)
    step = scrambled(start + 0x9E3779B9 & MASK) | 1
    bits = scrambled(position * step + start & MASK)
    more = scrambled(bits + 0x9E3779B9 & MASK)
    variance = 8 + 2 / 12
    uniform = ((more >> 16) + (more & 0xFFFF)) / 2**16 + (bits & 0xFF) / 2**24
    x = (bits.bit_count() + uniform - (17 - 2**-17)) / math.sqrt(variance)
    return x + (4 + 2 / 120) / variance**2 / 24 * (x**3 - 3 * x)


@pytest.mark.parametrize("seed", [(0, 0), (3, 7), (2**32 - 1, 2**31)])
def test_numbers_are_those_of_the_definition(seed: tuple[int, int]) -> None:
    expected = [reference(*seed, position) for position in range(1000)]
    # Numbers up to 6.5 in float32, rounded a few times.
    np.testing.assert_allclose(drawn(*seed, 1000), expected, rtol=0, atol=2e-6)


def test_the_distribution() -> None:
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


def test_no_draw_depends_on_another() -> None:
    size = 250_000
    numbers, next_update, other_seed = drawn(1, 0, size), drawn(1, 1, size), drawn(2, 0, size)
    pairs = [(numbers, next_update), (numbers, other_seed), (next_update, other_seed)]
    pairs += [(numbers[step:], numbers[:-step]) for step in (1, 2, 3, 128, 1000)]
    for a, b in pairs:
        for power in (1, 2):
            # The correlation of n independent pairs has a deviation of 1 / sqrt(n).
            assert abs(np.corrcoef(a**power, b**power)[0, 1]) < 4 / math.sqrt(len(a))


def test_each_seed_has_other_numbers_at_each_position() -> None:
    rows = np.stack([drawn(first, second, 20) for first in range(10) for second in range(10)])
    for column in rows.T:
        assert len(set(column.tolist())) == 100


def test_one_weight_over_the_updates() -> None:
    updates = np.stack([drawn(5, number, 500) for number in range(1000)])
    assert updates.std(axis=0).mean() == pytest.approx(1.0, abs=0.005)
    assert abs(np.mean(updates[1:] * updates[:-1])) < 4 / math.sqrt(updates.size)
    # The sum of 1000 normal numbers, by its deviation.
    sums = updates.sum(axis=0) / math.sqrt(1000)
    assert sums.std() == pytest.approx(1.0, abs=4 / math.sqrt(2 * 500))
