"""Evaluators: plain Python on single samples."""

from typing import Any, Self

import keras
import numpy as np
import pytest

from tfaip.data.pipeline.definitions import Sample
from tfaip.evaluator.evaluator import Evaluator, EvaluatorBase, EvaluatorParams, result_of
from tfaip.evaluator.precisionrecall import PrecisionRecallCurve
from tfaip.params import option
from tfaip.params.classes import is_part


class ToleranceParams(EvaluatorParams):
    tolerance: float = 0.5


class HitRate(EvaluatorBase[ToleranceParams]):
    """Share of the outputs within the tolerance."""

    def __init__(self, params: ToleranceParams, unit: str = "share", **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.unit = unit

    def __enter__(self) -> Self:
        self.hits = self.count = 0
        return self

    def update_state(self, sample: Sample) -> None:
        self.hits += abs(sample.outputs - sample.targets) <= self.params.tolerance
        self.count += 1

    def result(self) -> dict[str, float]:
        return {self.unit: self.hits / self.count}


def evaluate(evaluator: EvaluatorBase[Any], pairs: list[tuple[float, float]]) -> dict[str, Any]:
    with evaluator as running:
        for output, target in pairs:
            running.update_state(Sample(outputs=output, targets=target))
        return running.result()


def test_results_over_all_samples_of_each_evaluation() -> None:
    evaluator = HitRate(ToleranceParams(tolerance=1.0))
    assert evaluate(evaluator, [(0, 0), (0, 1), (0, 2), (5, 4)]) == {"share": 0.75}
    evaluator = HitRate(ToleranceParams(), unit="hits")
    assert evaluate(evaluator, [(0, 1)]) == {"hits": 0.0}
    assert evaluate(evaluator, [(0, 0), (1, 0)]) == {"hits": 0.5}
    assert HitRate.params_cls() is ToleranceParams
    for base in (EvaluatorBase, Evaluator):
        assert evaluate(base(EvaluatorParams()), [(1, 2)]) == {}
    assert evaluate(NamedParams().create(unit="hits"), [(0, 2)]) == {"hits": 1.0}
    assert type(EvaluatorParams().create()) is EvaluatorBase
    three = type("Three", (EvaluatorBase,), {"result": lambda self: 3})
    with pytest.raises(TypeError, match="^Three.result returns 3, expected a dict of values by name$"):
        result_of(three(EvaluatorParams()))


class NamedParams(EvaluatorParams, cls=".test_evaluator:HitRate"):
    """Names its evaluator by a string."""

    tolerance: float = 2.0


class Near(Evaluator):
    """Share of the outputs within the tolerance, params and code in one class."""

    tolerance: float = option(0.5, "Largest difference that counts as a hit", low=0)

    def __enter__(self) -> Self:
        self.hits: list[bool] = []
        return self

    def update_state(self, sample: Sample) -> None:
        self.hits.append(abs(sample.outputs - sample.targets) <= self.tolerance)

    def result(self) -> dict[str, float]:
        return {"near": sum(self.hits) / len(self.hits)}


class VeryNear(Near):
    tolerance = 0.1


def test_an_evaluator_may_be_its_own_params() -> None:
    params = Near(tolerance=1.0)
    evaluator = params.create()
    assert evaluate(evaluator, [(0, 0), (0, 1), (0, 2), (5, 4)]) == {"near": 0.75}
    assert isinstance(params, EvaluatorParams)
    assert isinstance(evaluator, EvaluatorBase)
    assert evaluator.params is params
    assert evaluate(evaluator, [(0, 9)]) == {"near": 0.0}
    assert vars(params) == {"tolerance": 1.0}
    assert Near.from_json(params.to_json()) == params != VeryNear(tolerance=1.0)
    assert Near.params_cls() is Near.cls() is Near
    assert evaluate(VeryNear().create(), [(0, 0.2)]) == {"near": 0.0}


class WithConstructor(Evaluator):
    """The older form: separate params."""

    note: str = "not a field"

    def __init__(self, params: ToleranceParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.anything = 3


class Bound(Evaluator[ToleranceParams]):
    pass


class Plain(Evaluator):
    def result(self) -> dict[str, int]:
        return {"three": 3}


@pytest.mark.parametrize("cls", [WithConstructor, Bound, Plain])
def test_older_subclasses_keep_their_params(cls: Any) -> None:
    params = ToleranceParams(tolerance=3.0)
    evaluator = cls(params)
    evaluator.new_attribute = 1
    assert evaluator.params is params
    assert not is_part(cls)
    assert cls.params_cls() is (ToleranceParams if cls is Bound else EvaluatorParams)
    assert WithConstructor(params).anything == 3
    assert WithConstructor.note == "not a field"
    assert evaluate(Plain(EvaluatorParams()), []) == {"three": 3}


def test_results_without_samples_are_told(caplog: pytest.LogCaptureFixture) -> None:
    type("Counted", (EvaluatorBase,), {"handle": lambda self, sample: None, "result": lambda self: {"count": 0.0}})
    assert caplog.messages == ["Counted.result gets no samples: define update_state(self, sample), which takes them"]


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

    # Nothing found and nothing to find.
    without = PrecisionRecallCurve.of(np.zeros(2), np.array([0.5, 0.5]), 3)
    assert (without.precision.tolist(), without.recall.tolist()) == ([0, 0, 0], [0, 0, 0])


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


def test_what_gives_no_curve_is_refused() -> None:
    for scores, message in (([0.5], "got 2 labels and 1 scores"), ([0.5, 1.5], "the lowest 0.5, the highest 1.5")):
        with pytest.raises(ValueError, match=message):
            PrecisionRecallCurve.of(np.array([1, 0]), np.array(scores))
    with pytest.raises(ValueError, match="auc_of_mine: .*evenly spaced"):
        PrecisionRecallCurve.of_metric(keras.metrics.AUC(thresholds=[0.1, 0.2], name="auc_of_mine"))
    several = keras.metrics.AUC(num_thresholds=5, multi_label=True, num_labels=2)
    with pytest.raises(ValueError, match=r"the shape \(4, 5, 2\)"):
        PrecisionRecallCurve.of_metric(several)
