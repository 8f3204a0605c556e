"""Distributions of random masks: all that the definition of a method can draw, against what was drawn."""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction

import numpy as np

Pattern = tuple[bool, ...]


def mask_patterns(size: int, widest: int, count: int) -> dict[Pattern, float]:
    """Probability of each set of masked positions, by the definition of SpecAugment.

    The width is uniform in 0..widest, the start uniform in [0, size - width).
    """
    single: dict[Pattern, Fraction] = Counter()
    for width in range(widest + 1):
        starts = max(size - width, 1)
        for start in range(starts):
            pattern = tuple(start <= position < start + width for position in range(size))
            single[pattern] += Fraction(1, (widest + 1) * starts)
    found: dict[Pattern, Fraction] = Counter()
    for masks in itertools.product(single.items(), repeat=count):
        pattern = tuple(any(mask[position] for mask, _ in masks) for position in range(size))
        probability = Fraction(1)
        for _, share in masks:
            probability *= share
        found[pattern] += probability
    return {pattern: float(probability) for pattern, probability in found.items()}


def require_distribution(drawn: Iterable[Pattern], expected: Mapping[Pattern, float]) -> None:
    """Fail unless the chi-squared statistic is within 4 standard deviations of its mean.

    Patterns that are expected less than five times are one class; what cannot be drawn fails at once.
    """
    counts = Counter(drawn)
    total = sum(counts.values())
    assert set(counts) <= set(expected), "a pattern that the definition does not allow"
    common = [pattern for pattern, share in expected.items() if share * total >= 5]
    observed = [counts[pattern] for pattern in common]
    shares = [expected[pattern] for pattern in common]
    if sum(shares) < 1 - 1e-9:
        observed.append(total - sum(observed))
        shares.append(1 - sum(shares))
    wanted = np.array(shares) * total
    statistic = float(np.sum((np.array(observed) - wanted) ** 2 / wanted))
    freedom = len(shares) - 1
    assert freedom > 3
    assert statistic < freedom + 4 * np.sqrt(2 * freedom), (statistic, freedom)
    assert statistic > freedom - 4 * np.sqrt(2 * freedom), "too regular to be random"


def patterns(masked: np.ndarray) -> list[Pattern]:
    """The rows of `[draws, positions]` as patterns."""
    return [tuple(row) for row in masked.tolist()]
