"""A model with everything that exports have to cope with, and how it is exported."""

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from test.model.support import keras_inputs
from tfaip.model.graphbase import ExportGraph, ExportGraphs, GraphBase
from tfaip.model.layerbase import LayerBase
from tfaip.model.layerbaseparams import LayerBaseParams
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.util.typing import Tensor, TensorDict

BATCH = {
    "x": np.linspace(-1, 1, 3 * 5 * 2, dtype=np.float32).reshape(3, 5, 2),
    "length": np.array([[5], [3], [1]], np.int32),
}


class Scores(LayerBase[LayerBaseParams]):
    """A layer of ours with layers of Keras, a loss and dropout."""

    def __init__(self) -> None:
        super().__init__(LayerBaseParams())
        self.dense = keras.layers.Dense(4)
        self.dropout = keras.layers.Dropout(0.5)

    def call(self, x: Tensor, training: bool | None = None) -> Tensor:
        self.add_loss(ops.mean(x))
        return self.dropout(self.dense(x), training=training)


class Encoder(GraphBase[ModelBaseParams]):
    """A graph within the graph; reads one of the inputs."""

    def __init__(self) -> None:
        super().__init__(ModelBaseParams())
        self.lstm = keras.layers.Bidirectional(keras.layers.LSTM(3, return_sequences=True))
        self.norm = keras.layers.BatchNormalization()

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return {"code": self.norm(self.lstm(inputs["x"]), training=training)}


class WordGraph(GraphBase[ModelBaseParams]):
    """Classes of the steps of a sequence."""

    def __init__(self) -> None:
        super().__init__(ModelBaseParams())
        self.encoder = Encoder()
        self.scores = Scores()

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        code = self.encoder.predict({"x": inputs["x"]})["code"]
        steps = ops.cumsum(ops.ones_like(code[..., 0]), axis=1)
        mask = ops.cast(steps <= ops.cast(inputs["length"], "float32"), "float32")
        scores = self.scores(code) * mask[..., None]
        return {"prob": ops.softmax(scores), "class": ops.argmax(scores, axis=-1)}


def word_graphs() -> ExportGraphs:
    """The prediction graph as `serve`, and its first half as `encode`, which reads only `x`."""
    keras.utils.set_random_seed(1)
    graph = WordGraph()
    inputs = keras_inputs({"x": (None, 2)}) | {"length": keras.Input((1,), dtype="int32")}
    graph.predict(inputs)
    graph.encoder.norm.moving_mean.assign(ops.full((6,), 0.25))
    functions = {"serve": graph.predict, "encode": ExportGraph(graph.encoder.predict, inputs=["x"])}
    return ExportGraphs(graph, functions, inputs)


def outputs(graph: ExportGraph, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Of the graph itself."""
    return {name: ops.convert_to_numpy(value) for name, value in graph(dict(inputs)).items()}


def largest_difference(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> float:
    """Over all outputs, which must be the same ones."""
    assert sorted(a) == sorted(b)
    return max(float(np.max(np.abs(a[name].astype(float) - b[name]))) for name in a)


def run_client(code: str, *arguments: str) -> None:
    """Run a program that is not ours, in another directory than the repository."""
    command = [sys.executable, "-c", code, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert result.returncode == 0, result.stderr
