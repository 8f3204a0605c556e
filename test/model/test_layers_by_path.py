"""Paths of layers: those of their weights, without the name of the weight."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.model.variables import layers_by_path, variables_by_path
from tfaip.util.typing import TensorDict


class Graph(GraphBase[ModelBaseParams]):
    def __init__(self) -> None:
        super().__init__(ModelBaseParams())
        shared = keras.layers.Dense(2)
        self.stack = [shared, keras.layers.Dropout(0.1), keras.Sequential([keras.layers.Dense(2), shared])]
        self.heads = {"a": keras.layers.Dense(1), "b": keras.layers.Activation("relu")}
        self.lstm = keras.layers.Bidirectional(keras.layers.LSTM(2))

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        x: Any = inputs["x"]
        for layer in self.stack:
            x = layer(x)
        return {"y": self.heads["b"](self.heads["a"](self.lstm(x)))}


def test_layers_with_weights_on_every_level_once() -> None:
    graph = Graph()
    graph.predict({"x": np.zeros((1, 3, 2), np.float32)})
    layers = layers_by_path(graph)
    paths = list(layers)
    assert [path for path in paths if not path.startswith("lstm")] == ["heads/a", "stack/0", "stack/2", "stack/2/0"]
    assert {"lstm", "lstm/forward_layer", "lstm/backward_layer/cell"} <= set(paths)
    assert layers["stack/2"].layers[1] is layers["stack/0"]
    # What a layer is called begins the path of what it holds.
    for path in variables_by_path(graph):
        assert "seed_generator" in path or path.rpartition("/")[0] in layers
