"""Precision-recall curves, which metrics and evaluators show in TensorBoard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import keras


@dataclass(frozen=True)
class PrecisionRecallCurve:
    """Counts of a binary classifier at n thresholds, evenly spaced from 0 to 1.

    Args:
        counts: true positives, false positives, true negatives and false negatives, shape `[4, n]`.

    Raises:
        ValueError: if `counts` has another shape.
    """

    counts: np.ndarray

    def __post_init__(self) -> None:
        if self.counts.ndim != 2 or self.counts.shape[0] != 4 or self.counts.shape[1] < 2:
            raise ValueError(
                f"counts of a precision-recall curve have the shape {self.counts.shape}, expected [4, n] with n > 1"
            )

    @classmethod
    def of(cls, labels: np.ndarray, scores: np.ndarray, num_thresholds: int = 201) -> PrecisionRecallCurve:
        """Return the curve of scored samples, which are positive at thresholds up to their score.

        Args:
            labels: 0 or 1, or truth values; any shape.
            scores: one per label, in [0, 1].
            num_thresholds: number of points of the curve.

        Raises:
            ValueError: if the sizes differ, or a score is outside of [0, 1].
        """
        positive, scores = np.asarray(labels, bool).ravel(), np.asarray(scores, np.float64).ravel()
        if positive.size != scores.size or not np.all((scores >= 0) & (scores <= 1)):
            raise ValueError(
                f"a precision-recall curve needs a score in [0, 1] for each label, got {positive.size} labels and "
                f"{scores.size} scores, the lowest {scores.min(initial=np.inf)}, the highest "
                f"{scores.max(initial=-np.inf)}"
            )
        passed = np.floor(scores * (num_thresholds - 1)).astype(int)
        true_positives = _count_passed(passed[positive], num_thresholds)
        false_positives = _count_passed(passed[~positive], num_thresholds)
        true_negatives = (~positive).sum() - false_positives
        false_negatives = positive.sum() - true_positives
        return cls(np.stack([true_positives, false_positives, true_negatives, false_negatives]))

    @classmethod
    def of_metric(cls, metric: keras.metrics.AUC) -> PrecisionRecallCurve:
        """Return the curve of a `keras.metrics.AUC` since its last reset.

        Raises:
            ValueError: if its thresholds are not evenly spaced, or it counts several labels separately.
        """
        import keras

        # Keras puts the first and the last threshold a little outside of [0, 1].
        if not np.allclose(metric.thresholds, np.linspace(0, 1, metric.num_thresholds), atol=1e-6):
            raise ValueError(f"{metric.name}: a precision-recall curve needs evenly spaced thresholds (num_thresholds)")
        names = ("true_positives", "false_positives", "true_negatives", "false_negatives")
        return cls(np.stack([keras.ops.convert_to_numpy(getattr(metric, name)) for name in names]))

    @property
    def precision(self) -> np.ndarray:
        """Share of the true positives in what is classified as positive; 0 where nothing is."""
        true, false = self.counts[0], self.counts[1]
        return true / np.maximum(true + false, 1e-7)

    @property
    def recall(self) -> np.ndarray:
        """Share of the positives that are classified as positive; 0 if there are no positives."""
        true, missed = self.counts[0], self.counts[3]
        return true / np.maximum(true + missed, 1e-7)


def _count_passed(passed: np.ndarray, num_thresholds: int) -> np.ndarray:
    """Count the samples that pass each threshold, given the last one that each sample passes."""
    counts = np.bincount(passed, minlength=num_thresholds)
    return np.cumsum(counts[::-1])[::-1]
