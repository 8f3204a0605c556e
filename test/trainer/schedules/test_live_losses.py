"""Scheduled numbers of losses and penalties: each with the weights that follow by hand, on both backends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from test.trainer.schedules.liveruns import FROM_TWO, check_live_value, weights_after
from test.trainer.schedules.support import live_params
from tfaip.trainer.params import WeightPenaltyParams

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
    ],
)
def test_a_value_changes_between_epochs(
    target: str, values: tuple[float, ...], x: float, fields: dict[str, Any], expected: list[float], tmp_path: Path
) -> None:
    check_live_value(target, values, x, fields, expected, tmp_path)


def test_penalties_of_several_rules_add_up() -> None:
    # l2 0.25 takes half of the weight 2 (gradient 2 w l2), l1 0.5 takes 0.5.
    rules = [WeightPenaltyParams("line/kernel", l2=0.25), WeightPenaltyParams(".*kernel", l1=0.5)]
    assert weights_after(live_params([0.0], model=FROM_TWO, weight_penalties=rules, epochs=1)) == [0.5]
