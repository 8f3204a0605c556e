"""Metrics: which ones are found, what they log, and what cannot work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest

from test.model.support import FunctionModel, column, evaluate, logged, training_model
from tfaip.util.typing import Tensor, TensorDict

pytestmark = pytest.mark.backend


def output(inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> TensorDict:
    return {"loss": outputs["y"]}


def call_all(metrics: list[keras.metrics.Metric]) -> Callable[..., list[Tensor]]:
    """A `_metric` that calls all of them with targets and outputs."""
    return lambda inputs, targets, outputs: [metric(targets["y"], outputs["y"]) for metric in metrics]


def test_called_metrics_are_found_on_attributes_and_in_containers() -> None:
    mae = keras.metrics.MeanAbsoluteError(name="mae")
    mse = keras.metrics.MeanSquaredError(name="mse")
    rmse = keras.metrics.RootMeanSquaredError(name="rmse")
    unused = keras.metrics.MeanAbsoluteError(name="unused")
    called = call_all([mse, rmse, mae])
    model = training_model(FunctionModel(output, called, mae=mae, several=[unused, (mse,)], named={"r": [rmse]}))
    assert [metric.name for metric in model.model_base.metrics()] == ["mae", "unused", "mse", "rmse"]
    # Distances 1, 1, 4 in batches of two: means over samples, not over batches.
    logs = evaluate(model, [1, 2, 3], [1, 3, 2], batch_size=2)
    assert logs == pytest.approx({"loss": 4.0, "mae": 2.0, "mse": 6.0, "rmse": 6**0.5})


def test_an_evaluation_starts_anew() -> None:
    mae = keras.metrics.MeanAbsoluteError(name="mae")
    model = training_model(FunctionModel(output, call_all([mae]), mae=mae))
    first = evaluate(model, [1], [0], batch_size=1)
    assert first == pytest.approx({"loss": 2.0, "mae": 2.0})
    assert evaluate(model, [2], [0], batch_size=1) == pytest.approx({"loss": 4.0, "mae": 4.0})
    assert evaluate(model, [1], [0], batch_size=1) == first


def test_a_metric_may_be_weighted_and_compute_from_anything() -> None:
    mean = keras.metrics.Mean(name="x_where_y")

    def metric(inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        return [mean(inputs["x"], sample_weight=targets["y"])]

    model = training_model(FunctionModel(output, metric, mean=mean))
    assert evaluate(model, [1, 2, 6], [0, 1, 3], batch_size=2)["x_where_y"] == pytest.approx(5.0)  # (2 + 3*6) / 4


def test_training_logs_the_metrics_too() -> None:
    mae = keras.metrics.MeanAbsoluteError(name="mae")
    model = training_model(FunctionModel(output, call_all([mae]), mae=mae))
    model.fit(({"x": column([1, 2])}, {"y": column([0, 0])}), batch_size=1, shuffle=False, verbose=0)
    # The weight is 2 for x = 1 and 2 - 1 = 1 for x = 2: distances 2 and 2.
    assert logged(model) == pytest.approx({"loss": 2.0, "mae": 2.0})


def test_a_metric_that_is_called_but_not_on_the_model_is_an_error() -> None:
    lost = keras.metrics.MeanAbsoluteError(name="lost")
    with pytest.raises(ValueError, match=r"called in it: \['lost'\], of these not found on the model: \['lost'\]"):
        training_model(FunctionModel(output, call_all([lost])))


def test_a_value_that_is_no_called_metric_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"_metric returned 1 values; Keras metrics called in it: \[\]"):
        training_model(FunctionModel(output, lambda inputs, targets, outputs: [outputs["y"]]))


@pytest.mark.parametrize(
    ("loss_name", "metric_names"),
    [("mae", ["mae"]), ("loss", ["loss"]), ("distance", ["mae", "mae"])],
    ids=["loss and metric", "total and metric", "two metrics"],
)
def test_a_name_is_given_once(loss_name: str, metric_names: list[str]) -> None:
    metrics = [keras.metrics.MeanAbsoluteError(name=name) for name in metric_names]
    model = FunctionModel(lambda *args: {loss_name: args[2]["y"]}, call_all(metrics), metrics_list=metrics)
    with pytest.raises(ValueError, match="two losses or metrics share a name"):
        training_model(model)


def test_the_search_for_metrics_ends_with_the_build() -> None:
    original: Any = keras.metrics.Metric.__call__
    mae = keras.metrics.MeanAbsoluteError(name="mae")
    training_model(FunctionModel(output, call_all([mae]), mae=mae))
    with pytest.raises(ValueError, match="not found on the model"):
        training_model(FunctionModel(output, call_all([mae])))
    assert keras.metrics.Metric.__call__ is original


def test_best_model_by_default_is_the_lowest_mean_loss() -> None:
    assert FunctionModel(output)._best_logging_settings() == ("min", "loss/mean_epoch")
