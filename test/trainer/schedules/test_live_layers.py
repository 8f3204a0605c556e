"""Scheduled numbers of graph, layers and model: each with the weights that follow by hand, on both backends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test.trainer.line import CallbackOf, Weights, train
from test.trainer.schedules.liveruns import check_live_value, weights_after
from test.trainer.schedules.support import LiveScenario, live_params, step
from tfaip.data.pipeline.definitions import Sample
from tfaip.predict.params import PredictorParams
from tfaip.trainer.stages.params import TrainStage


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "values", "x", "fields", "expected"),
    [
        ("graph.sharpness", (1.0, 3.0), 1.0, {}, [-1.0, -4.0]),
        ("model.offset", (0.0, 2.0), 1.0, {}, [-1.0, -4.0]),
        # x, then a mask of it.
        pytest.param(
            "graph.freq_width",
            (0.0, 1.0),
            1.0,
            {"model": {"layer": "freq_width"}},
            [-1.0, -1.0],
            marks=pytest.mark.backend,
        ),
        # Beyond the limits of the layer: as 1, so that x is doubled, and as 0.
        pytest.param(
            "graph.survival",
            (3.0, -3.0),
            1.0,
            {"model": {"layer": "StochasticDepth"}},
            [-2.0, -3.0],
            marks=pytest.mark.backend,
        ),
    ],
)
def test_a_value_changes_between_epochs(
    target: str, values: tuple[float, ...], x: float, fields: dict[str, Any], expected: list[float], tmp_path: Path
) -> None:
    check_live_value(target, values, x, fields, expected, tmp_path)


@pytest.mark.slow
def test_a_time_warp_that_begins_in_the_second_epoch() -> None:
    # The gradient is the value in the middle of a ramp: 1, and between 1/4 and 7/4 where a warp of 3 moves it.
    def weights(*widths: float) -> list[float]:
        return weights_after(live_params([1.0], step("graph.time_warp", *widths), model={"layer": "time_warp"}))

    first, second = weights(0.0, 3.0)
    fixed = weights(3.0)
    assert first == -1
    assert second == pytest.approx(-1 + fixed[1] - fixed[0], rel=1e-6)
    assert 0.25 < -1 - second < 1.75
    assert -1 - second != pytest.approx(1, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "layer", ["Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "GaussianDropout"]
)
def test_the_rate_of_a_dropout_is_that_of_the_epoch_in_the_training_only(layer: str) -> None:
    logs: list[dict[str, float]] = []
    keep, weights = CallbackOf(on_epoch_end=lambda epoch, values: logs.append(values)), Weights()
    model, rates = {"dropout": layer, "rate": 0.5}, step("graph.drop.rate", 0.0, 0.75, 0.0)
    trainer = LiveScenario.create_trainer(live_params([1.0, 1.0], rates, model=model, val_x=[1.0], epochs=3))
    trainer.train([keep, weights])
    first, second, third = weights.values
    # The gradient is 1 twice, then twice 0 or 4 (or any number), then 1 again.
    assert (first, third) == (-2.0, pytest.approx(second - 2))
    moved = first - second
    assert moved in (0, 4, 8) if layer != "GaussianDropout" else moved != pytest.approx(2)
    assert [values["val_loss"] for values in logs] == [first, second, third]
    assert [values["schedule/graph.drop.rate"] for values in logs] == [0.0, 0.75, 0.0]
    assert trainer.scenario.graph.drop.rate == 0.5


@pytest.mark.backend
def test_an_exported_model_has_the_value_of_its_validation(tmp_path: Path) -> None:
    params = live_params([1.0], step("graph.sharpness", 1.0, 3.0), output_dir=tmp_path / "run", export_final=True)
    params.scenario.export_serve = True
    train(params, scenario=LiveScenario)
    predictor = LiveScenario.create_predictor(str(tmp_path / "run" / "export"), PredictorParams(silent=True))
    (sample,) = predictor.predict_raw([Sample(inputs={"x": np.array([0.5])})])
    # The weight is -1, then -4: 3 * -4 * 0.5.
    assert sample.outputs["y"].tolist() == [-6.0]


@pytest.mark.slow
def test_a_value_without_a_schedule_is_that_of_the_code(tmp_path: Path) -> None:
    # The gradient is the sharpness.
    first = live_params([1.0], step("graph.sharpness", 5.0), epochs=1, output_dir=tmp_path / "run", export_final=True)
    assert weights_after(first) == [-5.0]
    assert weights_after(live_params([1.0], output_dir=tmp_path / "run"), restore=True) == [-6.0]
    warm = live_params([1.0], epochs=1, model={"sharp": 2.0})
    warm.warmstart.model = [str(tmp_path / "run" / "export")]
    assert weights_after(warm) == [-7.0]
    stages = {"own": TrainStage(epochs=1, overrides={"model.sharp": 5.0})}
    weights = Weights()
    train(live_params([1.0], stages=stages), weights, scenario=LiveScenario)
    assert weights.values == [-5.0, -6.0]
