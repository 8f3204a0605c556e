"""The tutorial's evaluator on predictions that were counted by hand."""

from __future__ import annotations

import numpy as np

from tfaip.data.pipeline.definitions import Sample
from tfaip.evaluator.evaluator import EvaluatorParams
from tfaip.scenario.tutorial.full.evaluator import TutorialEvaluator
from tfaip.scenario.tutorial.full.scenario import TutorialScenario


def sample(label: int, predicted: int) -> Sample:
    return Sample(targets={"label": np.array([label])}, outputs={"class": np.array(predicted)})


def test_accuracy_and_worst_class() -> None:
    evaluator = TutorialScenario.create_evaluator(EvaluatorParams())
    with evaluator:
        for label, predicted in [(0, 0), (0, 0), (1, 1), (1, 2), (1, 7), (3, 3)]:
            evaluator.update_state(sample(label, predicted))
        result = evaluator.result()
    assert result == {"eval_acc": 4 / 6, "worst_class": 1, "worst_class_acc": 1 / 3}


def test_entering_starts_from_nothing() -> None:
    evaluator = TutorialEvaluator(EvaluatorParams())
    with evaluator:
        evaluator.update_state(sample(1, 2))
    with evaluator:
        assert evaluator.result() == {}
        evaluator.update_state(sample(4, 4))
        assert evaluator.result()["eval_acc"] == 1
