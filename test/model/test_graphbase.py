"""Graphs: separate training and prediction paths, graphs within graphs, eager calls."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.model.support import FunctionModel, ScaleGraph, column, evaluate, keras_inputs, logged, training_model
from tfaip.model.graphbase import GenericGraphBase, GraphBase
from tfaip.model.layerbase import LayerBase, LayerBaseParams
from tfaip.model.modelbase import ModelBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.util.typing import Tensor, TensorDict


def constant_dense(value: float) -> keras.layers.Dense:
    return keras.layers.Dense(1, use_bias=False, kernel_initializer=keras.initializers.Constant(value))


class Inner(GenericGraphBase[ModelBaseParams]):
    """Training: 3x + target; prediction: 3x."""

    def __init__(self) -> None:
        super().__init__(ModelBaseParams())
        self.dense = constant_dense(3.0)

    def build_train_graph(self, inputs: TensorDict, targets: TensorDict, training: bool | None = None) -> TensorDict:
        return {"y": self.dense(inputs["x"]) + targets["y"]}

    def build_prediction_graph(self, inputs: TensorDict) -> TensorDict:
        return {"y": self.dense(inputs["x"])}


class Outer(GenericGraphBase[ModelBaseParams]):
    """Training: twice the training output of the inner graph, prediction: its prediction, halved by name."""

    def __init__(self) -> None:
        super().__init__(ModelBaseParams())
        self.inner = Inner()
        self.dense = constant_dense(2.0)

    def build_train_graph(self, inputs: TensorDict, targets: TensorDict, training: bool | None = None) -> TensorDict:
        trained = self.inner.train(inputs, targets)
        predicted = self.inner.predict(inputs)
        return {"y": self.dense(trained["y"]), "predicted": predicted["y"]}

    def build_prediction_graph(self, inputs: TensorDict) -> TensorDict:
        return {"y": self.dense(self.inner.predict(inputs)["y"])}


def losses(inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> TensorDict:
    return {"trained": outputs["y"], "predicted": outputs["predicted"]}


def numpy_outputs(outputs: TensorDict) -> dict[str, list[float]]:
    return {name: ops.convert_to_numpy(value)[:, 0].tolist() for name, value in outputs.items()}


def test_nested_graphs_train_and_evaluate() -> None:
    graph, inputs, targets = Outer(), {"x": column([1, 2])}, {"y": column([10, 20])}
    # Eagerly with NumPy arrays: 2 * (3x + y), and 3x of the inner prediction.
    trained = {"y": [26.0, 52.0], "predicted": [3.0, 6.0]}
    assert numpy_outputs(graph.train(inputs, targets)) == numpy_outputs(graph(inputs, targets=targets)) == trained
    assert numpy_outputs(graph.predict(inputs)) == numpy_outputs(graph(inputs)) == {"y": [6.0, 12.0]}
    assert graph.predict(keras_inputs({"x": (1,)}))["y"].shape == (None, 1)
    model = training_model(FunctionModel(losses), graph)
    # 2 * (3x + y) + 3x for (1, 1), (2, 0), (3, 2): 8+3, 12+6, 22+9.
    logs = evaluate(model, [1, 2, 3], [1, 0, 2], batch_size=2)
    assert logs == pytest.approx({"loss": 60 / 3, "trained": 42 / 3, "predicted": 18 / 3})
    model.fit(({"x": column([1])}, {"y": column([0])}), shuffle=False, verbose=0)
    # Gradient of the inner weight 2 x + x = 3, of the outer weight 3 x + y = 3; the rate is 1.
    assert float(model.graph.inner.dense.kernel[0, 0]) == pytest.approx(0.0)
    assert float(model.graph.dense.kernel[0, 0]) == pytest.approx(-1.0)


class Noisy(GraphBase[ModelBaseParams]):
    """Dropout, which may be given `training`."""

    def __init__(self, passes: bool = True) -> None:
        super().__init__(ModelBaseParams())
        self.passes, self.dropout = passes, keras.layers.Dropout(0.5, seed=1)

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return {"y": self.dropout(inputs["x"], **({"training": training} if self.passes else {}))}


class NoisyRoot(GenericGraphBase[ModelBaseParams]):
    """Calls a graph in every way, and its own dropout between these calls; it needs no targets."""

    def __init__(self) -> None:
        super().__init__(ModelBaseParams())
        self.noisy = Noisy()
        self.dropout = keras.layers.Dropout(0.5, seed=2)

    def build_train_graph(self, inputs: TensorDict, targets: Any, training: bool | None = None) -> TensorDict:
        assert targets is None
        outputs = {"own_before": self.dropout(inputs["x"])}
        outputs["predict"] = self.noisy.predict(inputs)["y"]
        outputs["own_between"] = self.dropout(inputs["x"])
        outputs["train"] = self.noisy.train(inputs, targets)["y"]
        outputs["train_false"] = self.noisy.train(inputs, targets, training=False)["y"]
        outputs["train_true"] = self.noisy.train(inputs, targets, training=True)["y"]
        outputs["own_last"] = self.dropout(inputs["x"])
        return outputs

    def build_prediction_graph(self, inputs: TensorDict) -> TensorDict:
        return {"y": self.dropout(self.noisy.predict(inputs)["y"])}


def noisy_outputs(outputs: TensorDict) -> set[str]:
    """Names of the outputs on which dropout acted (input: ones)."""
    noisy = {name for name, values in numpy_outputs(outputs).items() if set(values) == {0.0, 2.0}}
    assert all(set(values) == {1.0} for name, values in numpy_outputs(outputs).items() if name not in noisy)
    return noisy


ONES = {"x": np.ones((64, 1), np.float32)}


def test_nested_graphs_inherit_training_and_leave_it_alone() -> None:
    own = {"own_before", "own_between", "own_last"}
    graph = NoisyRoot()
    assert noisy_outputs(graph.train(ONES, None, training=True)) == {*own, "train", "train_true"}
    assert noisy_outputs(graph.train(ONES, None, training=False)) == {"train_true"}
    assert noisy_outputs(graph.train(ONES, None)) == {"train_true"}
    assert noisy_outputs(graph.predict(ONES)) == set()
    # A call that fails leaves nothing behind either.
    with pytest.raises(KeyError):
        graph.train({"z": ONES["x"]}, None, training=True)
    assert noisy_outputs(graph.train(ONES, None)) == {"train_true"}


@pytest.mark.backend
def test_dropout_without_training_argument_follows_the_call() -> None:
    graph = Noisy(passes=False)
    assert noisy_outputs(graph.train(ONES, {}, training=True)) == {"y"}
    assert noisy_outputs(graph.train(ONES, {}, training=False)) == noisy_outputs(graph.predict(ONES)) == set()


def test_model_creates_the_graph_that_its_params_name() -> None:
    class Params(ModelBaseParams, graph_cls=ScaleGraph):
        sizes: list[int] = [1, 2]

        @staticmethod
        def cls() -> type[ModelBase[Any]]:
            return Model

    class Model(ModelBase[Params]):
        pass

    params = Params()
    model = params.create()
    graph = model.create_graph()
    assert (type(model), model.params, Model.params_cls()) == (Model, params, Params)
    assert (type(graph), graph.name, type(params.create_graph())) == (ScaleGraph, "graph", ScaleGraph)
    assert graph.params is params
    assert type(params.sizes) is list  # Keras would replace the lists in attributes that it tracks
    assert list(model._export_graphs(graph)) == ["serve"]


class ScaleParams(LayerBaseParams, cls=":Scale"):
    units: int = 1


class Scale(LayerBase[ScaleParams]):
    """A dense layer that its params configure."""

    def __init__(self, params: ScaleParams, activation: str | None = None, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.dense = keras.layers.Dense(
            params.units,
            activation=activation,
            kernel_initializer=self.kernel_initializer,
            bias_initializer=self.bias_initializer,
            kernel_regularizer=self.kernel_regularizer,
        )

    def call(self, x: Tensor) -> Tensor:
        return self.dense(x)


def test_names_become_keras_objects_of_the_layer_that_params_build() -> None:
    params = ScaleParams(units=3, kernel_initializer="ones", bias_initializer="RandomNormal", kernel_regularizer="l1")
    layer = params.create(activation="relu", name="scale")
    assert (type(layer), layer.params, layer.name, Scale.params_cls()) == (Scale, params, "scale", ScaleParams)
    kinds = [type(layer.kernel_initializer), type(layer.bias_initializer), type(layer.kernel_regularizer)]
    assert kinds == [keras.initializers.Ones, keras.initializers.RandomNormal, keras.regularizers.L1]
    default = Scale(ScaleParams())
    kinds = [type(default.kernel_initializer), type(default.bias_initializer), type(default.kernel_regularizer)]
    assert kinds == [keras.initializers.GlorotUniform, keras.initializers.Zeros, type(None)]
    layer = ScaleParams(units=3, kernel_initializer="ones").create(activation="relu")
    assert ops.convert_to_numpy(layer(column([-2, 5]))).tolist() == [[0, 0, 0], [5, 5, 5]]


class ScaledGraph(GraphBase[ModelBaseParams]):
    def __init__(self, params: ScaleParams) -> None:
        super().__init__(ModelBaseParams())
        self.scale = params.create()

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return {"y": self.scale(inputs["x"])}


@pytest.mark.backend
def test_the_regularizer_joins_the_loss() -> None:
    graph = ScaledGraph(ScaleParams(kernel_initializer="ones", kernel_regularizer="l2"))
    model = training_model(FunctionModel(lambda inputs, targets, outputs: {"loss": outputs["y"]}), graph)
    model.fit(({"x": column([3])}, {"y": column([0])}), shuffle=False, verbose=0)
    assert logged(model) == pytest.approx({"loss": 3.01, "regularization": 0.01})
    # Gradient: 3 of the loss, 0.02 of the regularisation.
    assert float(graph.scale.dense.kernel[0, 0]) == pytest.approx(1 - 3.02)
