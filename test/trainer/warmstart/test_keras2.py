"""Warm starts from models that Keras 2 wrote: every weight finds its place, or it is said why not."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from test.support.keras2 import BATCH, example, keras_2_models
from tfaip.errors import UsageError
from tfaip.imports import GraphBase, ModelBaseParams
from tfaip.model.variables import variables_by_path
from tfaip.trainer.warmstart import WarmStartParams
from tfaip.trainer.warmstart.warmstarter import WarmStarter
from tfaip.util.typing import TensorDict


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keras_2_models(tmp_path_factory)


class Encoder(keras.layers.Layer):
    """The layers of the functional model, one level deeper than there."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = keras.layers.Conv1D(4, 3, padding="same", activation="relu")
        self.norm = keras.layers.BatchNormalization()
        self.lstm = keras.layers.LSTM(3)
        self.hidden = keras.layers.Dense(5, activation="tanh")

    def call(self, inputs: TensorDict) -> Any:
        x = self.lstm(self.norm(self.conv(inputs["seq"]), training=False))
        return keras.ops.concatenate([x, self.hidden(inputs["feat"])], axis=-1)


class FunctionalGraph(GraphBase[ModelBaseParams]):
    """The functional model, as it would be written here."""

    def __init__(self) -> None:
        super().__init__(ModelBaseParams())
        self.encoder = Encoder()
        self.class_head = keras.layers.Dense(3, activation="softmax")
        self.score_head = keras.layers.Dense(1)

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        x = self.encoder(inputs)
        return {"classes": self.class_head(x), "score": self.score_head(x)}


class HeadsGraph(GraphBase[ModelBaseParams]):
    """The layer that the other models hold."""

    def __init__(self) -> None:
        super().__init__(ModelBaseParams())
        self.features = keras.layers.Dense(5, activation="tanh")
        self.heads = [keras.layers.Dense(3), keras.layers.Dense(1)]

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        x = self.features(inputs["feat"])
        return {"classes": self.heads[0](x), "score": self.heads[1](x)}


class DeepGraph(GraphBase[ModelBaseParams]):
    """The same one level deeper."""

    def __init__(self) -> None:
        super().__init__(ModelBaseParams())
        self.inner = HeadsGraph()

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        outputs: TensorDict = self.inner.predict(inputs)
        return outputs


def started(graph: GraphBase[Any], model: Path, **fields: Any) -> GraphBase[Any]:
    """The graph, built, after a warm start."""
    graph.predict(BATCH)
    WarmStarter(WarmStartParams(model=str(model), **fields)).apply(graph)
    return graph


@pytest.mark.parametrize(
    ("name", "graph"),
    [("functional", FunctionalGraph), ("subclassed", HeadsGraph), ("wrapped", HeadsGraph), ("wrapped", DeepGraph)],
)
def test_all_weights_are_matched(name: str, graph: type[GraphBase[Any]], models: Path) -> None:
    outputs = started(graph(), models / name).predict(BATCH)
    for output, expected in example(models / name, "outputs").items():
        # Another version of TensorFlow, or JAX, adds in another order.
        value = keras.ops.convert_to_numpy(outputs[output])
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


class TwinGraph(GraphBase[ModelBaseParams]):
    """Two layers that end alike."""

    def __init__(self) -> None:
        super().__init__(ModelBaseParams())
        self.first, self.second = HeadsGraph(), HeadsGraph()

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        one, other = self.first.predict(inputs), self.second.predict(inputs)
        return {"classes": one["classes"] + other["classes"], "score": one["score"] + other["score"]}


def test_ambiguous_tails_are_reported_unless_a_name_decides(models: Path) -> None:
    with pytest.raises(UsageError, match="nothing in .* matches the model") as error:
        started(TwinGraph(), models / "wrapped")
    assert "first/features/bias (ambiguous: second/features/bias)" in str(error.value)
    graph = started(TwinGraph(), models / "wrapped", rename=["^graph/->second/"], allow_partial=True)
    weights = example(models / "wrapped", "weights")
    found = variables_by_path(graph)["second/features/kernel"]
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(found), weights["graph/features/kernel:0"])
    kernel = keras.ops.convert_to_numpy(variables_by_path(graph)["first/features/kernel"])
    assert not np.array_equal(kernel, weights["graph/features/kernel:0"])
    with pytest.raises(UsageError, match="nothing in .* matches the model"):
        started(DeepGraph(), models / "wrapped", trim_graph_name=False)
