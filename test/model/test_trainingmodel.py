"""Losses of the model that `fit` runs: averaged, weighted, summed and logged."""

from collections.abc import Callable
from typing import Any

import keras
import pytest
from keras import ops

from test.model.support import FunctionModel, ScaleGraph, column, evaluate, logged, training_model
from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbase import ModelBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.util.typing import Tensor, TensorDict


def output(inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> TensorDict:
    """The output, twice x, as the only loss."""
    return {"loss": outputs["y"]}


@pytest.mark.backend
def test_scalar_loss_is_weighted_by_the_size_of_the_batch() -> None:
    def losses(inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> TensorDict:
        return {"loss": outputs["y"], "largest": ops.max(outputs["y"])}

    # 2x for x = 1 2 3 4 6: batches of two have the means 3, 7 and 12; weighted by size: (2*3 + 2*7 + 12) / 5. The
    # largest of the batches: 4, 8, 12; (2*4 + 2*8 + 1*12) / 5.
    model = training_model(FunctionModel(losses, loss_weights={"loss": 0.5}))
    logs = evaluate(model, [1, 2, 3, 4, 6], [0] * 5, batch_size=2)
    assert logs == pytest.approx({"loss": 0.5 * 6.4 + 7.2, "loss_loss": 6.4, "largest": 7.2})


@pytest.mark.backend
def test_several_losses_are_weighted_and_summed() -> None:
    def losses(inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> TensorDict:
        distance = outputs["y"] - targets["y"]
        return {"distance": ops.abs(distance), "square": ops.square(distance)[:, 0], "one": ops.ones(())}

    model = training_model(FunctionModel(losses, loss_weights={"square": 0.5, "one": 0.0}))
    # 2x - y = 1 and 3: mean distance 2, mean square 5; the total is 2 + 0.5 * 5 + 0 * 1.
    assert evaluate(model, [1, 2], [1, 1], batch_size=2) == pytest.approx(
        {"loss": 4.5, "distance": 2.0, "square": 5.0, "one": 1.0}
    )


@pytest.mark.backend
def test_losses_of_layers_join_the_loss_as_regularization() -> None:
    class Graph(GraphBase[ModelBaseParams]):
        def __init__(self) -> None:
            super().__init__(ModelBaseParams())
            self.dense = keras.layers.Dense(
                1, use_bias=False, kernel_initializer=keras.initializers.Constant(3.0), kernel_regularizer="l2"
            )

        def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
            result = self.dense(inputs["x"])
            self.add_loss(ops.sum(inputs["x"]))
            return {"y": result}

    model = training_model(FunctionModel(output), Graph())
    # Outputs 3 and 6: mean 4.5; regularisation 0.01 * 3^2 + (1 + 2).
    assert evaluate(model, [1, 2], [0, 0], batch_size=2) == pytest.approx({"loss": 7.59, "regularization": 3.09})


def test_a_layer_loss_alone_can_be_trained() -> None:
    class Graph(ScaleGraph):
        def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
            outputs = super().build_graph(inputs)
            self.add_loss(ops.mean(outputs["y"]))
            return outputs

    model = training_model(FunctionModel(lambda *_: {}), Graph(), ({"x": (1,)}, {}))
    # Its accumulator exists before the first batch: a checkpoint within an epoch must find it.
    assert list(model.get_metrics_result()) == ["loss", "regularization"]
    model.fit(({"x": column([1, 2])}, {}), batch_size=2, shuffle=False, verbose=0)
    assert float(model.graph.dense.kernel[0, 0]) == pytest.approx(0.5)  # 2 - mean(x)


def test_unsupervised_training_has_no_targets_and_training_is_a_python_bool() -> None:
    seen: list[object] = []

    class Graph(ScaleGraph):
        def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
            seen.append(training)
            return super().build_graph(inputs)

    def reconstruction(inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> TensorDict:
        assert targets == {}
        return {"loss": ops.square(outputs["y"] - inputs["x"])}

    model = training_model(FunctionModel(reconstruction), Graph(), ({"x": (1,)}, {}))
    assert set(seen) == {False, True}  # the build traces both
    seen.clear()
    assert evaluate(model, [1, 2, 3], None, batch_size=2) == {"loss": pytest.approx(14 / 3)}  # (1 + 4 + 9) / 3
    model.graph.predict({"x": column([1])})
    assert set(seen) == {False}
    model.fit(({"x": column([1])}, {}), shuffle=False, verbose=0)
    assert float(model.graph.dense.kernel[0, 0]) == pytest.approx(0.0)  # 2 - 2 * (2 - 1)
    assert (True in seen, {type(value) for value in seen}) == (True, {bool})


@pytest.mark.parametrize(
    ("losses", "weights", "error", "message"),
    [
        ({"regularization": 1.0}, None, ValueError, r"returned \['regularization'\], the name of another value"),
        ({}, None, ValueError, "FunctionModel._loss returned no loss .* nothing to minimise"),
        ([1.0], None, TypeError, "_loss returned list, expected a dict"),
        ({"a": 1.0}, {"b": 2.0}, ValueError, r"_loss_weights names \['b'\], but the losses are \['a'\]"),
    ],
)
def test_mistakes_in_losses(losses: Any, weights: Any, error: type[Exception], message: str) -> None:
    def loss(*_: TensorDict) -> Any:
        if isinstance(losses, dict):
            return {name: ops.ones(()) * value for name, value in losses.items()}
        return losses

    with pytest.raises(error, match=message):
        training_model(FunctionModel(loss, loss_weights=weights))


def test_shapes_that_do_not_fit_are_named_with_their_targets() -> None:
    def difference(inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> TensorDict:
        return {"loss": ops.square(targets["y"] - ops.tile(outputs["y"], (1, 5)))}

    def missing(inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> TensorDict:
        return {"loss": outputs["z"]}

    message = r"in FunctionModel._loss; targets: n \(None, 1\), y \(None, 3\); outputs: y \(None, 1\)"
    with pytest.raises(ValueError, match=message):
        training_model(FunctionModel(difference), shapes=({"x": (1,)}, {"y": (3,), "n": (1,)}))
    with pytest.raises(KeyError, match="z"):  # an output that only training has is no matter of shapes
        training_model(FunctionModel(missing))
    with pytest.raises(NotImplementedError, match="override _loss in ModelBase"):
        training_model(ModelBase(ModelBaseParams()))


def test_targets_are_processed_before_and_after_the_graph() -> None:
    class Graph(ScaleGraph):
        def pre_proc_targets(self, inputs: TensorDict, targets: TensorDict) -> TensorDict:
            return {"y": targets["y"] * 10}

        def build_train_graph(
            self, inputs: TensorDict, targets: TensorDict, training: bool | None = None
        ) -> TensorDict:
            return {**super().build_train_graph(inputs, targets, training), "seen": targets["y"]}

    class Model(FunctionModel):
        def pre_proc_targets(self, inputs: TensorDict, targets: TensorDict) -> TensorDict:
            return {"y": targets["y"] + 1}

        def post_proc_targets(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> TensorDict:
            return {"y": targets["y"] + outputs["y"]}

    def loss(inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> TensorDict:
        return {"graph": outputs["seen"], "loss_targets": targets["y"]}

    mean = keras.metrics.Mean(name="metric_targets")
    model = training_model(Model(loss, lambda inputs, targets, outputs: [mean(targets["y"])], mean=mean), Graph())
    # y = 3: the graph sees (3 + 1) * 10, losses and metrics that plus its output 2 * 5.
    logs = evaluate(model, [5], [3], batch_size=1)
    assert logs == pytest.approx({"loss": 90.0, "graph": 40.0, "loss_targets": 50.0, "metric_targets": 50.0})


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
def test_metrics_of_metrics() -> None:
    mae, mse = keras.metrics.MeanAbsoluteError(name="mae"), keras.metrics.MeanSquaredError(name="mse")
    metrics = [Ratio("own"), mae, mse, Ratio("ratio", mae, mse)]
    # One of them is an attribute twice.
    model = training_model(FunctionModel(output, call_all(metrics), several={"all": metrics}, again=mae))
    assert [metric.name for metric in model.metrics[1:]] == ["own", "mae", "mse", "ratio"]
    expected = {"loss": 4.0, "own": 1 / 3, "mae": 2.0, "mse": 6.0, "ratio": 1 / 3}
    for _ in range(2):  # distances 1, 1 and 4
        assert evaluate(model, [1, 2, 3], [1, 3, 2], batch_size=2) == pytest.approx(expected)
    # The weight is 2 for the first batch and 0 (2 - (1 + 3) / 2) for the second one: distances 1 and 4; 3.
    model.fit(({"x": column([1, 3, 2])}, {"y": column([1, 2, 3])}), batch_size=2, shuffle=False, verbose=0)
    assert logged(model)["own"] == logged(model)["ratio"] == pytest.approx((1 + 4 + 3) / (1 + 16 + 9))


def test_mistakes_in_metrics() -> None:
    mae, other = keras.metrics.MeanAbsoluteError(name="mae"), keras.metrics.MeanAbsoluteError(name="other")
    message = r"_metric returned 2 values, of the metrics of the model it called \['mae'\]: return what calls of Keras"
    with pytest.raises(ValueError, match=message):
        training_model(FunctionModel(output, call_all([mae, other]), mae=mae))
    named = FunctionModel(lambda *args: {"mae": args[2]["y"]}, call_all([mae]), mae=mae)
    with pytest.raises(ValueError, match="two losses or metrics share a name"):
        training_model(named)
