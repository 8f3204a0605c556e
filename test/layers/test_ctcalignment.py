"""Forced alignment: the best path of all, on small examples."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from test.layers.slowctc import best_alignment, collapse, log_softmax
from tfaip.layers.ctcalignment import ctc_align


@pytest.mark.parametrize("labels", [[1, 2], [1, 1], [], [2, 1, 2], [2, 2, 1], [1], [1, 2, 1, 2, 1, 2]])
def test_the_alignment_is_the_best_path(labels: list[int]) -> None:
    for seed, blank in itertools.product(range(5), (0, 3, -1)):
        logits = np.random.default_rng(seed).normal(0, 2, (6, 4))
        found = ctc_align(logits, labels, blank)
        assert collapse(found.labels, blank % 4) == tuple(labels)
        score = log_softmax(logits)[np.arange(6), found.labels].sum()
        assert found.log_probability == pytest.approx(score)
        assert score == pytest.approx(best_alignment(logits, tuple(labels), blank % 4))
        assert [labels[position] for position in found.positions if position >= 0] == [
            label for label in found.labels if label != blank % 4
        ]
        assert (np.diff(found.positions[found.positions >= 0]) >= 0).all()


def test_spans_of_labels() -> None:
    logits = np.log([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.8, 0.1], [0.8, 0.1, 0.1], [0.1, 0.8, 0.1]])
    found = ctc_align(logits, [1, 1])
    assert found.labels.tolist() == [0, 1, 1, 0, 1]
    assert found.positions.tolist() == [-1, 0, 0, -1, 1]
    assert found.spans() == [(1, 3), (4, 5)]
    assert found.log_probability == pytest.approx(5 * np.log(0.8))
    assert ctc_align(logits, []).spans() == []
    none = ctc_align(np.zeros((0, 3)), [])
    assert (none.labels.tolist(), none.log_probability) == ([], 0.0)


NO_CLASS = "^blank is {}, expected a class from 0 to 2, or -1 for the last one$"


@pytest.mark.parametrize(
    ("logits", "labels", "blank", "message"),
    [
        (np.zeros((0, 3)), [1], 0, "0 frames have no alignment with 1 labels, which need at least 1 frames"),
        (np.zeros((3, 3)), [1, 1, 2], 0, "3 frames have no alignment with 3 labels, which need at least 4 frames"),
        (np.zeros((3, 3)), [1, 0], 0, r"labels are \[1, 0\], expected a list of 0 to 2 without 0"),
        (np.zeros((3, 3)), [3], 0, r"labels are \[3\], expected"),
        (np.zeros((3, 3)), [[1]], 0, r"labels are \[\[1\]\], expected"),
        (np.zeros((1, 3, 3)), [1], 0, r"logits have the shape \[1, 3, 3\], expected \[time, class\]"),
        *((np.zeros((4, 3)), [1], blank, NO_CLASS.format(blank)) for blank in (3, -4)),
        (np.full((4, 3), np.nan), [1], 0, "^logits have values that are no numbers, or infinite$"),
    ],
)
def test_what_cannot_be_aligned(logits: np.ndarray, labels: list[int], blank: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ctc_align(logits, labels, blank=blank)
