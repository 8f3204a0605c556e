"""Metrics: which ones are found, what they log, and what cannot work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest
from keras import ops

from test.model.support import FunctionModel, column, evaluate, logged, training_model
from tfaip.util.typing import Tensor, TensorDict


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
    assert [metric.name for metric in model.model_base.metric_objects()] == ["mae", "unused", "mse", "rmse"]
    # Distances 1, 1, 4 in batches of two: means over samples, not over batches.
    logs = evaluate(model, [1, 2, 3], [1, 3, 2], batch_size=2)
    assert logs == pytest.approx({"loss": 4.0, "mae": 2.0, "mse": 6.0, "rmse": 6**0.5})


@pytest.mark.backend
def test_a_metric_may_be_weighted_compute_from_anything_and_be_read_in_two_steps() -> None:
    mean, mae = keras.metrics.Mean(name="x_where_y"), keras.metrics.MeanAbsoluteError(name="mae")

    def metric(inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        mae.update_state(targets["y"], outputs["y"])
        return [mean(inputs["x"], sample_weight=targets["y"]), mae.result()]

    model = training_model(FunctionModel(output, metric, mean=mean, mae=mae))
    logs = evaluate(model, [1, 2, 6], [0, 1, 3], batch_size=2)
    assert (logs["x_where_y"], logs["mae"]) == pytest.approx((5.0, 14 / 3))  # (2 + 3*6) / 4, (2 + 3 + 9) / 3
    assert model.model_base._best_logging_settings() == ("min", "loss/mean_epoch")  # by default


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


class LargestDistance(keras.metrics.Metric):
    """A metric with a variable of its own."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.largest = self.add_variable((), "zeros", name="largest")

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        self.largest.assign(ops.maximum(self.largest, ops.max(ops.abs(y_true - y_pred))))

    def result(self) -> Tensor:
        return self.largest.value


class Ratio(keras.metrics.Metric):
    """A metric that consists of two others, which it calls, or which are called as metrics of their own."""

    def __init__(self, name: str, *parts: keras.metrics.Metric) -> None:
        super().__init__(name=name)
        self.calls = not parts
        own = [keras.metrics.MeanAbsoluteError(name="over"), keras.metrics.MeanSquaredError(name="under")]
        self.parts = list(parts) or own

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        for part in self.parts if self.calls else []:
            part(y_true, y_pred)

    def result(self) -> Tensor:
        return self.parts[0].result() / self.parts[1].result()


@pytest.mark.backend
def test_metrics_of_metrics_and_own_ones() -> None:
    mae, mse = keras.metrics.MeanAbsoluteError(name="mae"), keras.metrics.MeanSquaredError(name="mse")
    metrics = [Ratio("own"), LargestDistance("largest"), mae, mse, Ratio("ratio", mae, mse)]
    # One of them is an attribute twice.
    model = training_model(FunctionModel(output, call_all(metrics), several={"all": metrics}, again=mae))
    assert [metric.name for metric in model.metrics[1:]] == ["own", "largest", "mae", "mse", "ratio"]
    expected = {"own": 1 / 3, "largest": 4.0, "mae": 2.0, "mse": 6.0, "ratio": 1 / 3}
    # Distances 1, 1 and 4.
    assert evaluate(model, [1, 2, 3], [1, 3, 2], batch_size=2) == pytest.approx({"loss": 4.0, **expected})
    assert evaluate(model, [1, 2, 3], [1, 3, 2], batch_size=2) == pytest.approx({"loss": 4.0, **expected})
    # The weight is 2 for the first batch and 0 (2 - (1 + 3) / 2) for the second one: distances 1 and 4; 3.
    model.fit(({"x": column([1, 3, 2])}, {"y": column([1, 2, 3])}), batch_size=2, shuffle=False, verbose=0)
    values = logged(model)
    assert values["largest"] == pytest.approx(4.0)
    assert values["own"] == values["ratio"] == pytest.approx((1 + 4 + 3) / (1 + 16 + 9))


def test_only_the_objects_of_the_model_are_watched_and_only_while_it_is_built() -> None:
    original: Any = keras.metrics.Metric.__call__
    mae, other = keras.metrics.MeanAbsoluteError(name="mae"), keras.metrics.MeanAbsoluteError(name="other")
    watched = []

    def metric(inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        watched.append(["update_state" in vars(one) for one in (mae, other)])
        assert keras.metrics.Metric.__call__ is original
        return [mae(targets["y"], outputs["y"])]

    training_model(FunctionModel(output, metric, mae=mae))
    # One that no attribute holds is found, also if its result is not returned.
    lost = r"not found on the model: .*other.*: keep each in an attribute"
    for called in (call_all([other]), lambda *arguments: call_all([mae, other])(*arguments)[:1]):
        with pytest.raises(ValueError, match=lost):
            training_model(FunctionModel(output, called, mae=mae))
    with pytest.raises(ValueError, match=r"_metric returned 1 values; Keras metrics called in it: \[\]"):
        training_model(FunctionModel(output, lambda inputs, targets, outputs: [outputs["y"]]))
    assert watched[0] == [True, False]
    assert "update_state" not in vars(mae)
