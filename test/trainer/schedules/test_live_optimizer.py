"""Scheduled numbers of the optimizer: each with the weights that follow by hand, on both backends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test.trainer.line import CallbackOf, train
from test.trainer.schedules.liveruns import FROM_TWO, EachBatch, check_live_value, weight_now, weights_after
from test.trainer.schedules.support import LiveScenario, live_params, step
from tfaip.trainer.optimizer import OptimizerGroupParams, SGDOptimizer
from tfaip.trainer.schedules import ScheduleParams


@pytest.mark.parametrize(
    ("target", "values", "x", "fields", "expected"),
    [
        pytest.param("optimizer.clip_global_norm", (2.0, 0.5), 3.0, {}, [-2.0, -2.5], marks=pytest.mark.backend),
        ("optimizer.weight_decay", (0.0, 0.1), 0.0, {"model": FROM_TWO}, [2.0, 1.8]),
        pytest.param("optimizer.momentum", (0.0, 0.5), 1.0, {}, [-1.0, -2.5], marks=pytest.mark.backend),
        (
            "optimizer.groups.0.lr_factor",
            (1.0, 0.25),
            1.0,
            {"optimizer": SGDOptimizer(groups=[OptimizerGroupParams("line/kernel", lr_factor=1.0)])},
            [-1.0, -1.25],
        ),
    ],
)
def test_a_value_changes_between_epochs(
    target: str, values: tuple[float, ...], x: float, fields: dict[str, Any], expected: list[float], tmp_path: Path
) -> None:
    check_live_value(target, values, x, fields, expected, tmp_path)


@pytest.mark.slow
@pytest.mark.backend
def test_gradient_noise_has_the_deviation_of_its_update() -> None:
    # With a gradient of 0 a step is the noise: that of the second update, in the size of the schedule.
    def weights(*stddev: float) -> list[float]:
        return weights_after(live_params([0.0], step("optimizer.gradient_noise.stddev", *stddev)))

    first, both = weights(0.5)
    assert 0 != first != both - first != 0
    np.testing.assert_allclose(weights(0.0, 0.5), [0.0, both - first], rtol=1e-6)
    np.testing.assert_allclose(weights(0.5, 1.0), [first, first + 2 * (both - first)], rtol=1e-6)


@pytest.mark.backend
def test_an_update_of_several_batches_has_the_value_of_its_first() -> None:
    # Updates begin with batches 0 and 2 of 4: clips 1 and 0.5.
    schedule = ScheduleParams("optimizer.clip_value", {0: 1.0, 0.5: 0.5, 1: 0.25})
    logs: list[dict[str, float]] = []
    keep = CallbackOf(on_epoch_end=lambda epoch, values: logs.append(dict(values)))
    moved: list[float] = []
    watch = EachBatch(lambda model: moved.append(weight_now(model)))
    params = live_params([3.0] * 4, schedule, train_accum_steps=2, epochs=1, steps_per_execution=1)
    train(params, keep, watch, scenario=LiveScenario)
    np.testing.assert_allclose(moved, [0.0, -1.0, -1.0, -1.5], rtol=1e-6)
    assert logs[0]["schedule/optimizer.clip_value"] == 0.5
