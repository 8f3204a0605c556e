"""Evaluator of the tutorial: accuracies of predicted samples, in plain Python."""

from collections import Counter
from typing import Any, Self

from tfaip import Evaluator, Sample


class TutorialEvaluator(Evaluator):
    """Accuracy over all images, and of the class in which it is lowest.

    Metrics that are means over samples belong to the model, where they are computed on the device.
    An evaluator sees every sample after the post-processing, and can compute anything else.
    """

    def __enter__(self) -> Self:
        self._seen: Counter[int] = Counter()
        self._correct: Counter[int] = Counter()
        return self

    def update_state(self, sample: Sample) -> None:
        label = int(sample.targets["label"][0])
        self._seen[label] += 1
        self._correct[label] += int(sample.outputs["class"]) == label

    def result(self) -> dict[str, Any]:
        if not self._seen:
            return {}
        by_class = {label: self._correct[label] / seen for label, seen in sorted(self._seen.items())}
        worst = min(by_class, key=by_class.__getitem__)
        return {
            "eval_acc": self._correct.total() / self._seen.total(),
            "worst_class": worst,
            "worst_class_acc": by_class[worst],
        }
