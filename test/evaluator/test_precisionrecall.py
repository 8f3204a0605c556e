"""Precision-recall curves of samples and of metrics."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from tfaip.evaluator.precisionrecall import PrecisionRecallCurve

LABELS = [1, 1, 0, 1, 0, 0]
SCORES = [1.0, 0.8, 0.6, 0.5, 0.25, 0.0]
# At the thresholds 0, 1/4, 1/2, 3/4, 1.
COUNTS = [
    [3, 3, 3, 2, 1],  # true positives
    [3, 2, 1, 0, 0],  # false positives
    [0, 1, 2, 3, 3],  # true negatives
    [0, 0, 0, 1, 2],  # false negatives
]


def test_counts_of_samples() -> None:
    curve = PrecisionRecallCurve.of(np.array(LABELS), np.array(SCORES), num_thresholds=5)
    assert curve.counts.tolist() == COUNTS
    assert curve.precision == pytest.approx([1 / 2, 3 / 5, 3 / 4, 1, 1])
    assert curve.recall == pytest.approx([1, 1, 1, 2 / 3, 1 / 3])

    # Any shape, and truth values.
    curve = PrecisionRecallCurve.of(np.array(LABELS, bool).reshape(2, 3), np.array(SCORES).reshape(2, 3), 5)
    assert curve.counts.tolist() == COUNTS
    assert PrecisionRecallCurve.of(np.array(LABELS), np.array(SCORES)).counts.shape == (4, 201)
    # Nothing found and nothing to find.
    without = PrecisionRecallCurve.of(np.zeros(2), np.array([0.5, 0.5]), 3)
    assert (without.precision.tolist(), without.recall.tolist()) == ([0, 0, 0], [0, 0, 0])
    assert PrecisionRecallCurve.of(np.array([]), np.array([]), 3).counts.tolist() == [[0] * 3] * 4


@pytest.mark.backend
def test_the_counts_of_a_metric_are_those_of_the_samples() -> None:
    metric = keras.metrics.AUC(num_thresholds=5, curve="PR")
    # No score lies on a threshold, where Keras takes a sample for negative.
    scores = np.array([0.99, 0.8, 0.6, 0.51, 0.2, 0.01], np.float32)
    for part in (slice(0, 4), slice(4, 6)):
        metric.update_state(np.array(LABELS, np.float32)[part], scores[part])
    expected = PrecisionRecallCurve.of(np.array(LABELS), scores, 5).counts
    got = PrecisionRecallCurve.of_metric(metric).counts
    # The last threshold lies above 1 for Keras: nobody passes; ours is 1, which nobody reaches here.
    assert got.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("labels", "scores", "complaint"),
    [
        ([1, 0], [0.5], "got 2 labels and 1 scores"),
        ([1, 0], [0.5, 1.5], "the lowest 0.5, the highest 1.5"),
        ([1, 0], [0.5, float("nan")], "a score in"),
    ],
)
def test_what_is_no_score_is_told(labels: list[int], scores: list[float], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        PrecisionRecallCurve.of(np.array(labels), np.array(scores))


def test_a_metric_must_count_one_label_at_even_thresholds() -> None:
    with pytest.raises(ValueError, match="auc_of_mine: .*evenly spaced"):
        PrecisionRecallCurve.of_metric(keras.metrics.AUC(thresholds=[0.1, 0.2], name="auc_of_mine"))
    for shape in [(4,), (3, 5), (4, 1)]:
        with pytest.raises(ValueError, match=r"expected \[4, n\]"):
            PrecisionRecallCurve(np.zeros(shape))
    several = keras.metrics.AUC(num_thresholds=5, multi_label=True, num_labels=2)
    with pytest.raises(ValueError, match=r"the shape \(4, 5, 2\)"):
        PrecisionRecallCurve.of_metric(several)
