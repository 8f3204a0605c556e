"""Input gradient regularization, on losses whose gradients can be worked out."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.model.support import FunctionModel, ScaleGraph, column, logged
from test.trainer.line import LineTrainerParams, line_params, train, weight
from tfaip.errors import UsageError
from tfaip.model.graphbase import GraphBase
from tfaip.model.losses import InputGradientPenalty
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.model.trainingmodel import TrainingModel
from tfaip.util.typing import Tensor, TensorDict

NAME = "input_gradient_regularization"


def with_penalty(params: Any, h: float = 0.5, weight: float = 0.1) -> Any:
    params.scenario.use_input_gradient_regularization = True
    params.scenario.input_gradient_regularization_h = h
    params.scenario.input_gradient_regularization_lambda = weight
    return params


def square_params() -> LineTrainerParams:
    """Loss (w x - y)^2 with w = 2; a batch of the points (3, 1) and (1, 1)."""
    params = line_params([3.0, 1.0], [2.0], lr=0.1)
    params.scenario.model.loss, params.scenario.model.start = "square", 2.0
    params.gen.train.y, params.gen.setup.train.batch_size = [1.0, 1.0], 2
    return params


def fitted(model: FunctionModel, graph: GraphBase[Any], inputs: dict[str, np.ndarray], h: float = 0.5) -> TrainingModel:
    """The model after one batch of the inputs, with a penalty of weight 1."""
    built = TrainingModel(model, graph, InputGradientPenalty(h, 1.0))
    symbolic = {n: keras.Input(shape=x.shape[1:], name=n, dtype=x.dtype.name) for n, x in inputs.items()}
    built.build_symbolically(symbolic, {})
    built.compile(optimizer=keras.optimizers.SGD(1.0))
    built.fit((inputs, {}), batch_size=len(next(iter(inputs.values()))), shuffle=False, verbose=0)
    return built


class FunctionGraph(GraphBase[ModelBaseParams]):
    """Outputs that are functions of the inputs and one weight, 1."""

    def __init__(self, function: Callable[[TensorDict, Tensor], Tensor]) -> None:
        super().__init__(ModelBaseParams())
        self.function = function
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return {"y": self.function(inputs, self.scale)}


def output(inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> TensorDict:
    return {"loss": outputs["y"]}


@pytest.mark.backend
def test_penalty_and_its_gradient_in_a_training() -> None:
    trainer = train(with_penalty(square_params()))
    # Losses 25 and 1, both grow with x: at x + 1/2 they are 36 and 4. Penalties ((36 - 25) / 0.5)^2 = 484 and 36.
    # Derivatives by w, 2 x (w x - y): 30 and 2, at x + 1/2 they are 42 and 6. Of the penalties:
    # 2 * 22 * (42 - 30) / 0.5 = 1056 and 2 * 6 * (6 - 2) / 0.5 = 96.
    # With the rate 0.1: 0.1 * ((30 + 2) / 2 + 0.1 * (1056 + 96) / 2) = 7.36.
    assert weight(trainer) == pytest.approx(2 - 7.36)
    # The mean of 484 and 36 under its own name, a tenth of it in the loss, whose mean is 13.
    logs = trainer.history.values(1)
    assert (logs[NAME], logs["loss"]) == pytest.approx((260.0, 13 + 26))
    # The validation is that of the plain loss.
    assert f"val_{NAME}" not in logs
    assert logs["val_loss"] == pytest.approx((2 * (2 - 7.36)) ** 2)
    # Switched off, its numbers do nothing.
    params = with_penalty(square_params())
    params.scenario.use_input_gradient_regularization = False
    assert weight(train(params)) == pytest.approx(2 - 1.6)
    with pytest.raises(ValueError, match="--scenario.input_gradient_regularization_h"):
        train(with_penalty(square_params(), h=0.0))


@pytest.mark.backend
def test_the_step_goes_through_all_floating_point_inputs_together() -> None:
    def linear(inputs: TensorDict, scale: Tensor) -> Tensor:
        number = ops.cast(inputs["number"], "float32")
        rows = ops.sum(inputs["rows"], axis=(1, 2))
        return scale * (2.0 * inputs["one"] + ops.expand_dims(rows, -1)) * number

    inputs: dict[str, Any] = {"one": np.ones((3, 1), np.float32), "rows": np.ones((3, 2, 4), np.float32)}
    inputs["number"] = np.array([[1], [2], [0]], np.int32)
    # Gradients: 2 by `one` and 1 by each of the 8 `rows`, times the number, which is no floating point number.
    # |g|^2 = 12 * (1, 4, 0), whatever h is, since the loss is linear.
    for h in (0.5, 2.0):
        model = fitted(FunctionModel(output), FunctionGraph(linear), inputs, h=h)
        # Rounding of sums of 20 in float32, divided by h.
        assert logged(model)[NAME] == pytest.approx(20.0, rel=1e-5)
        # d penalty / d scale = 2 * 20, d loss / d scale = (10 + 20) / 3.
        assert float(model.graph.scale) == pytest.approx(1 - 40 - 10, rel=1e-5)


@pytest.mark.backend
def test_weights_of_losses_and_samples_count() -> None:
    def losses(inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> TensorDict:
        return {"a": outputs["y"], "b": ops.concatenate([outputs["y"]] * 3, axis=-1)}

    model = FunctionModel(losses, loss_weights={"a": 5.0}, sample_weights=lambda inputs, _: {"b": inputs["x"][:, 0]})
    # l = 5 * 2x + x * 2x at x = 0: the gradient is 10, the difference for h = 1/2 is 5 + 1/2: (5.5 / 0.5)^2.
    assert logged(fitted(model, ScaleGraph(), {"x": column([0.0])}))[NAME] == pytest.approx(121.0)
    # A scalar loss counts for every sample, which all move by h: the mean of 2x by 2h.
    mean = FunctionModel(lambda inputs, targets, outputs: {"mean": ops.mean(outputs["y"])})
    assert logged(fitted(mean, ScaleGraph(), {"x": column([1, 5, 7])}))[NAME] == pytest.approx(4.0)


@pytest.mark.backend
def test_dropout_drops_the_same_before_and_after_the_step() -> None:
    class Graph(ScaleGraph):
        def __init__(self) -> None:
            super().__init__()
            self.dropout = keras.layers.Dropout(0.5, seed=1)

        def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
            return super().build_graph({"x": self.dropout(inputs["x"], training=training)})

    # Of what is dropped there is no gradient and no direction.
    # What is kept is doubled: the gradient is 4 there, else 0. Another mask would make differences of 400 / h.
    value = logged(fitted(FunctionModel(output), Graph(), {"x": column([100.0] * 64)}))[NAME]
    kept = value * 64 / 16
    assert kept == pytest.approx(round(kept))
    assert 16 < kept < 48


def test_without_floating_point_inputs_it_cannot_be_used() -> None:
    inputs = {"token": np.ones((1, 1), np.int32)}
    graph = FunctionGraph(lambda inputs, scale: scale * ops.cast(inputs["token"], "float32"))
    with pytest.raises(UsageError, match="inputs token hold no floating point .*: set use_input_gradient_reg"):
        fitted(FunctionModel(output), graph, inputs)
