"""How much worse one score is than another."""

from __future__ import annotations

import math

import pytest

from tfaip.trainer.history import absolute_difference, mean_difference, quotient, relative_difference

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("old", "new", "absolute", "relative", "by_old"),
    [
        (2.0, 1.0, -1.0, -1.0, -0.5),
        (1.0, 2.0, 1.0, 0.5, 1.0),
        (-2.0, -4.0, -2.0, -0.5, -1.0),
        (0.0, 0.0, 0.0, 0.0, 0.0),
        (0.0, 1.0, 1.0, 1.0, INF),
        (1.0, 0.0, -1.0, -INF, -1.0),
        (1.0, NAN, INF, INF, INF),
        (1.0, -INF, INF, INF, INF),
        (INF, 1.0, -INF, -INF, -INF),
        (NAN, INF, INF, INF, INF),
    ],
)
def test_differences(old: float, new: float, absolute: float, relative: float, by_old: float) -> None:
    assert absolute_difference(old, new) == absolute
    assert relative_difference(old, new) == relative
    assert relative_difference(old, new, divide_by_old=True) == by_old


def test_high_scores_may_be_good() -> None:
    assert absolute_difference(2.0, 1.0, "max") == 1.0
    assert relative_difference(1.0, 2.0, "max") == -0.5
    assert absolute_difference(1.0, NAN, "max") == INF


def test_quotients_and_means() -> None:
    assert [quotient(n, d) for n, d in ((6.0, 3.0), (0.0, 0.0), (-0.0, 2.0), (1.0, 0.0), (-1.0, 0.0))] == [
        2.0,
        0.0,
        0.0,
        INF,
        -INF,
    ]
    assert mean_difference([1.0, 2.0, 6.0]) == 3.0
    assert mean_difference([-INF, INF, 0.0]) == INF
    assert mean_difference([-INF, 5.0]) == -INF
