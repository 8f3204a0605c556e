"""Scheduled numbers of losses and penalties: each with the weights that follow by hand, on both backends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test.trainer.line import CallbackOf, PointsParams, by_hand, train
from test.trainer.schedules.liveruns import FROM_TWO, check_live_value, weights_after
from test.trainer.schedules.support import DeclaredScenario, live_params, step
from tfaip.trainer.schedules import ScheduleParams
from tfaip.trainer.weightrules import WeightPenaltyParams

PENALTY = [WeightPenaltyParams("line/kernel")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "values", "x", "fields", "expected"),
    [
        ("trainer.loss_weights.loss", (0.0, 0.5), 3.0, {}, [0.0, -1.5]),
        # The penalty is w^2, whose gradient is 2 w.
        pytest.param(
            "scenario.input_gradient_regularization_lambda",
            (0.0, 0.25),
            0.0,
            {"model": FROM_TWO, "penalised": True},
            [2.0, 1.0],
            marks=pytest.mark.backend,
        ),
        pytest.param(
            "weight_penalties.0.l2",
            (0.0, 0.25),
            0.0,
            {"model": FROM_TWO, "weight_penalties": PENALTY},
            [2.0, 1.0],
            marks=pytest.mark.backend,
        ),
        # Of the label 0, the gradient is sigmoid(w), then sigmoid(w) - 0.5.
        (
            "losses.crossentropy.label_smoothing",
            (0.0, 1.0),
            1.0,
            {"model": {"loss": "crossentropy"}},
            [-0.5, -1 / (1 + np.exp(0.5))],
        ),
    ],
)
def test_a_value_changes_between_epochs(
    target: str, values: tuple[float, ...], x: float, fields: dict[str, Any], expected: list[float], tmp_path: Path
) -> None:
    check_live_value(target, values, x, fields, expected, tmp_path)


def test_label_smoothing_of_a_declared_loss() -> None:
    def weights(*schedules: ScheduleParams) -> list[float]:
        params = DeclaredScenario.default_trainer_params()
        params.gen.train, params.gen.val = PointsParams(x=[1.0], y=[1.0]), PointsParams()
        params.gen.setup.train.batch_size = 1
        params = by_hand(params, None, epochs=2, schedules=list(schedules))
        seen: list[float] = []
        keep = CallbackOf(
            on_epoch_end=lambda epoch, values: seen.append(float(keep.model.graph.network.weights[0][0, 0]))
        )
        train(params, keep, scenario=DeclaredScenario)
        return seen

    # The gradient is sigmoid(w) - 1, then sigmoid(0.5) - 0.5.
    scheduled = weights(step("losses.loss.label_smoothing", 0.0, 1.0))
    np.testing.assert_allclose(scheduled, [0.5, 0.5 - (1 / (1 + np.exp(-0.5)) - 0.5)], rtol=1e-5)
    # The object of the class has its own number again: sigmoid(w) - 0.75.
    np.testing.assert_allclose(weights(), [0.25, 0.25 - (1 / (1 + np.exp(-0.25)) - 0.75)], rtol=1e-5)


def test_penalties_of_several_rules_add_up() -> None:
    # l2 0.25 takes half of the weight 2 (gradient 2 w l2), l1 0.5 takes 0.5.
    rules = [WeightPenaltyParams("line/kernel", l2=0.25), WeightPenaltyParams(".*kernel", l1=0.5)]
    assert weights_after(live_params([0.0], model=FROM_TWO, weight_penalties=rules, epochs=1)) == [0.5]
