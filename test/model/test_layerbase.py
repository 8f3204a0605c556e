"""Configurable layers, and what they show in TensorBoard."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.model.support import FunctionModel, column, logged, training_model
from tfaip.model.graphbase import GraphBase
from tfaip.model.layerbase import LayerBase, LayerBaseParams, TFAIPLayerBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.model.tensorboardwriter import TensorboardWriter, collect_tensorboard_values
from tfaip.util.typing import Tensor, TensorDict


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


def test_names_become_keras_objects() -> None:
    layer = Scale(ScaleParams(kernel_initializer="ones", bias_initializer="RandomNormal", kernel_regularizer="l1"))
    assert isinstance(layer.kernel_initializer, keras.initializers.Ones)
    assert isinstance(layer.bias_initializer, keras.initializers.RandomNormal)
    assert isinstance(layer.kernel_regularizer, keras.regularizers.L1)
    default = Scale(ScaleParams())
    assert isinstance(default.kernel_initializer, keras.initializers.GlorotUniform)
    assert isinstance(default.bias_initializer, keras.initializers.Zeros)
    assert default.kernel_regularizer is None


def test_params_build_the_layer() -> None:
    params = ScaleParams(units=3, kernel_initializer="ones")
    layer = params.create(activation="relu", name="scale")
    assert (type(layer), layer.params, layer.name) == (Scale, params, "scale")
    assert Scale.params_cls() is ScaleParams
    assert ops.convert_to_numpy(layer(column([-2, 5]))).tolist() == [[0, 0, 0], [5, 5, 5]]
    with pytest.raises(NotImplementedError, match=r"override cls\(\) of the layer params"):
        LayerBaseParams().create()


class ScaleGraph(GraphBase[ModelBaseParams]):
    def __init__(self, params: ScaleParams) -> None:
        super().__init__(ModelBaseParams())
        self.scale = params.create()

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return {"y": self.scale(inputs["x"])}


@pytest.mark.backend
def test_the_regularizer_joins_the_loss() -> None:
    graph = ScaleGraph(ScaleParams(kernel_initializer="ones", kernel_regularizer="l2"))
    model = training_model(FunctionModel(lambda inputs, targets, outputs: {"loss": outputs["y"]}), graph)
    model.fit(({"x": column([3])}, {"y": column([0])}), shuffle=False, verbose=0)
    assert logged(model) == pytest.approx({"loss": 3.01, "regularization": 0.01})
    # Gradient: 3 of the loss, 0.02 of the regularisation.
    assert float(graph.scale.dense.kernel[0, 0]) == pytest.approx(1 - 3.02)


class Shown(TFAIPLayerBase):
    """Shows twice its input."""

    def __init__(self, writer: TensorboardWriter) -> None:
        super().__init__()
        self._writer = writer

    def call(self, x: Tensor) -> Tensor:
        self.add_tensorboard(self._writer, x * 2)
        return x


def draw(name: str, value: np.ndarray, step: int) -> np.ndarray:
    return value


def test_values_are_collected_in_the_order_of_the_calls() -> None:
    first = TensorboardWriter(draw, name="first")
    second = TensorboardWriter(draw, dtype="int32", name="second")
    layers = [Shown(second), Shown(first)]
    # Outside of a collection nothing is kept, and one ends with an error too.
    with pytest.raises(ZeroDivisionError), collect_tensorboard_values():
        raise ZeroDivisionError
    layers[0](column([1]))
    with collect_tensorboard_values() as values:
        for layer in layers:
            layer(column([1.5, 2]))
    layers[0](column([1]))
    assert [value.writer for value in values] == [second, first]
    assert [value.value.dtype for value in values] == [np.int32, np.float32]
    assert [value.value[:, 0].tolist() for value in values] == [[3, 4], [3.0, 4.0]]
