"""Noise on weights, fixed and scheduled, by its effect on the weights, on both backends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from test.trainer.line import CallbackOf, Weights, train
from test.trainer.schedules.liveruns import EachBatch, weight_now, weights_after
from test.trainer.schedules.support import LiveScenario, live_params, step
from tfaip.trainer.params import WeightNoiseParams

pytestmark = pytest.mark.backend


@pytest.mark.slow
def test_the_noise_on_weights_is_that_of_the_update_and_none_in_the_validation() -> None:
    # loss = (w x)^2, x = 1, rate 0.5: the update sets w to minus the noise.
    def weights(stddev: float, **fields: Any) -> list[float]:
        model = {"loss": "square", "start": 1.0}
        noise = WeightNoiseParams(stddev)
        return weights_after(live_params([1.0] * 4, model=model, lr=0.5, epochs=1, weight_noise=noise, **fields))

    logs: list[dict[str, float]] = []
    keep = CallbackOf(on_epoch_end=lambda epoch, values: logs.append(values))
    params = live_params(
        [1.0] * 500,
        val_x=[1.0],
        model={"loss": "square", "start": 0.0},
        lr=0.5,
        weight_noise=WeightNoiseParams(0.5, "line/.*"),
        steps_per_execution=1,
    )
    seen = Weights()
    moved: list[float] = []
    watch = EachBatch(lambda model: moved.append(weight_now(model)))
    train(params, keep, seen, watch, scenario=LiveScenario)
    noise = -np.array(moved)
    # The variance of 1000 draws has a relative standard deviation of sqrt(2 / 1000).
    assert noise.size == 1000
    assert abs(noise.var() / 0.25 - 1) < 4 * np.sqrt(2 / 1000)
    assert abs(noise.mean()) < 4 * 0.5 / np.sqrt(1000)
    assert len(set(moved)) == 1000
    assert logs[-1]["val_loss"] == pytest.approx(moved[-1] ** 2, rel=1e-5)
    (one,), (two,) = weights(0.5), weights(1.0)
    assert two == pytest.approx(2 * one, rel=1e-5)
    # Four batches of an update have the same noise, so that the mean of their gradients is that of one.
    (accumulated,) = weights(0.5, train_accum_steps=4)
    (single,) = weights_after(
        live_params(
            [1.0], model={"loss": "square", "start": 1.0}, lr=0.5, epochs=1, weight_noise=WeightNoiseParams(0.5)
        )
    )
    assert accumulated == pytest.approx(single, rel=1e-5)


@pytest.mark.slow
def test_noise_on_weights_that_begins_in_the_second_epoch() -> None:
    # loss = (w x)^2, x = 1, rate 0.5: the update sets w to minus the noise, which its number decides.
    model = {"loss": "square", "start": 1.0}
    (_, fixed) = weights_after(live_params([1.0], model=model, lr=0.5, weight_noise=WeightNoiseParams(0.5)))
    assert fixed != 0
    scheduled = weights_after(live_params([1.0], step("weight_noise.stddev", 0.0, 0.5), model=model, lr=0.5))
    np.testing.assert_allclose(scheduled, [0.0, fixed], rtol=1e-6)


@pytest.mark.slow
def test_noise_of_a_layer_that_begins_in_the_second_epoch() -> None:
    # As above: the second update sets w to minus the noise, which grows with the deviation.
    model = {"loss": "square", "start": 1.0, "layer": "WeightNoise"}
    small, large = (
        weights_after(live_params([1.0], step("graph.stddev", 0.0, stddev), model=model, lr=0.5))
        for stddev in (0.5, 1.0)
    )
    assert small[0] == large[0] == 0
    assert small[1] != 0
    assert large[1] == pytest.approx(2 * small[1], rel=1e-5)
