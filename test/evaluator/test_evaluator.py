"""Evaluators: plain Python on single samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import pytest

from tfaip.data.pipeline.definitions import Sample
from tfaip.evaluator.evaluator import Evaluator, EvaluatorBase, result_of
from tfaip.evaluator.params import EvaluatorParams
from tfaip.params import pai_dataclass


@pai_dataclass
@dataclass
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


def test_result_over_all_samples() -> None:
    evaluator = HitRate(ToleranceParams(tolerance=1.0))
    assert evaluate(evaluator, [(0, 0), (0, 1), (0, 2), (5, 4)]) == {"share": 0.75}


def test_every_evaluation_starts_anew() -> None:
    evaluator = HitRate(ToleranceParams(), unit="hits")
    assert evaluate(evaluator, [(0, 1)]) == {"hits": 0.0}
    assert evaluate(evaluator, [(0, 0), (1, 0)]) == {"hits": 0.5}


def test_params_class_is_the_declared_one() -> None:
    assert HitRate.params_cls() is ToleranceParams


def test_an_exception_leaves_the_evaluation() -> None:
    with pytest.raises(ZeroDivisionError):
        evaluate(HitRate(ToleranceParams()), [])


def test_the_base_evaluates_nothing() -> None:
    assert evaluate(EvaluatorBase(EvaluatorParams()), [(1, 2)]) == {}
    assert Evaluator is EvaluatorBase


def test_a_result_that_is_no_dict_is_named() -> None:
    class Three(EvaluatorBase[EvaluatorParams]):
        def result(self) -> Any:
            return 3

    with pytest.raises(TypeError, match="^Three.result returns 3, expected a dict of values by name$"):
        result_of(Three(EvaluatorParams()))
