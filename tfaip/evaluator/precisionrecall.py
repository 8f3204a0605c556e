"""Precision-recall curves, which metrics and evaluators show in TensorBoard; needs no backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import keras


@dataclass(frozen=True)
class PrecisionRecallCurve:
    """How a binary classifier does at n thresholds, evenly spaced from 0 to 1.

    Args:
        counts: true positives, false positives, true negatives and false negatives, shape `[4, n]`.

    Raises:
        ValueError: another shape.
    """

    counts: np.ndarray

    def __post_init__(self) -> None:
        if self.counts.ndim != 2 or self.counts.shape[0] != 4 or self.counts.shape[1] < 2:
            raise ValueError(
                f"counts of a precision-recall curve have the shape {self.counts.shape}, expected [4, n] with n > 1"
            )

    @classmethod
    def of(cls, labels: np.ndarray, scores: np.ndarray, num_thresholds: int = 201) -> PrecisionRecallCurve:
        """Of scored samples; one is taken for positive at all thresholds up to its score.

        Args:
            labels: 0 or 1, or truth values; any shape.
            scores: in [0, 1], as many.
            num_thresholds: number of points of the curve.

        Raises:
            ValueError: other sizes, or a score lies outside.
        """
        positive, scores = np.asarray(labels, bool).ravel(), np.asarray(scores, np.float64).ravel()
        if positive.size != scores.size or not np.all((scores >= 0) & (scores <= 1)):
            raise ValueError(
                f"a precision-recall curve needs a score in [0, 1] for each label, got {positive.size} labels and "
                f"{scores.size} scores, the lowest {scores.min(initial=np.inf)}, the highest "
                f"{scores.max(initial=-np.inf)}"
            )
        passed = np.floor(scores * (num_thresholds - 1)).astype(int)
        found = [_not_below(passed[kind], num_thresholds) for kind in (positive, ~positive)]
        all_positive, all_negative = positive.sum(), (~positive).sum()
        return cls(np.stack([found[0], found[1], all_negative - found[1], all_positive - found[0]]))

    @classmethod
    def of_metric(cls, metric: keras.metrics.AUC) -> PrecisionRecallCurve:
        """What a `keras.metrics.AUC` has counted since it was reset.

        Raises:
            ValueError: its thresholds are not evenly spaced, or it counts several labels apart.
        """
        import keras

        # The first and the last lie a little outside of [0, 1].
        if not np.allclose(metric.thresholds, np.linspace(0, 1, metric.num_thresholds), atol=1e-6):
            raise ValueError(f"{metric.name}: a precision-recall curve needs evenly spaced thresholds (num_thresholds)")
        names = ("true_positives", "false_positives", "true_negatives", "false_negatives")
        return cls(np.stack([keras.ops.convert_to_numpy(getattr(metric, name)) for name in names]))

    @property
    def precision(self) -> np.ndarray:
        """Share of the positives in what is taken for positive; 0 where there is nothing."""
        true, false = self.counts[0], self.counts[1]
        return true / np.maximum(true + false, 1e-7)

    @property
    def recall(self) -> np.ndarray:
        """Share of the positives that is found; 0 if there are none."""
        true, missed = self.counts[0], self.counts[3]
        return true / np.maximum(true + missed, 1e-7)


def _not_below(passed: np.ndarray, num_thresholds: int) -> np.ndarray:
    """How many samples pass each threshold, from the number of the last one that each of them passes."""
    counts = np.bincount(passed, minlength=num_thresholds)
    return np.cumsum(counts[::-1])[::-1]
