"""The SavedModel: equal outputs, the weights of the moment, and graphs that cannot be exported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.model.support import ScaleGraph, column, keras_inputs
from tfaip.errors import TfaipError, UsageError
from tfaip.model.export import SERVE_DIR, ServedModel, ServingExporter, check_serving
from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.util.typing import TensorDict

pytestmark = [
    pytest.mark.backend,
    # How Keras calls JAX.
    pytest.mark.filterwarnings("ignore:The `native_serialization` parameter is deprecated:DeprecationWarning"),
]


def exporter(graph: GraphBase[Any], **endpoints: Callable[[TensorDict], TensorDict]) -> ServingExporter:
    inputs = keras_inputs({"x": (1,)})
    graph.predict(inputs)
    return ServingExporter(graph, endpoints or {"serve": graph.predict}, inputs)


class NormGraph(GraphBase[ModelBaseParams]):
    """Two outputs, with weights, statistics and dropout."""

    def __init__(self) -> None:
        super().__init__(ModelBaseParams())
        self.norm = keras.layers.BatchNormalization()
        self.dense = keras.layers.Dense(3, activation="softmax")
        self.dropout = keras.layers.Dropout(0.5)

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        prob = self.dense(self.dropout(self.norm(inputs["x"], training=training), training=training))
        return {"prob": prob, "class": ops.argmax(prob, axis=-1)}


def test_outputs_are_equal_for_any_batch_size(tmp_path: Path) -> None:
    graph = NormGraph()
    made = exporter(graph)
    graph.norm.moving_mean.assign([2.0])
    made.write(tmp_path / SERVE_DIR)
    served = ServedModel(tmp_path / SERVE_DIR)
    for size in (1, 5):
        x = np.linspace(-1, 3, size, dtype=np.float32)[:, None]
        outputs, expected = served({"x": x}), graph.predict({"x": x})
        assert set(outputs) == {"prob", "class"}
        assert outputs["prob"].dtype == np.float32
        np.testing.assert_allclose(outputs["prob"], ops.convert_to_numpy(expected["prob"]), rtol=1e-6)
        np.testing.assert_array_equal(outputs["class"], ops.convert_to_numpy(expected["class"]))
    check_serving(made, graph.predict, {"x": x})


def test_a_later_write_has_the_new_weights(tmp_path: Path) -> None:
    graph = ScaleGraph()
    made = exporter(graph)
    made.write(tmp_path / "first")
    graph.dense.kernel.assign([[10.0]])
    made.write(tmp_path / "second")
    inputs = {"x": column([1, 3])}
    assert ServedModel(tmp_path / "first")(inputs)["y"][:, 0].tolist() == [2.0, 6.0]
    assert ServedModel(tmp_path / "second")(inputs)["y"][:, 0].tolist() == [10.0, 30.0]


def test_statistics_are_updated_too(tmp_path: Path) -> None:
    graph = NormGraph()
    made = exporter(graph)
    made.write(tmp_path / "first")
    graph.norm.moving_mean.assign([5.0])
    graph.norm.moving_variance.assign([4.0])
    check_serving(made, graph.predict, {"x": column([1, 3])})


def test_several_endpoints(tmp_path: Path) -> None:
    graph = ScaleGraph()

    def negative(inputs: TensorDict) -> TensorDict:
        return {"negative": -graph.predict(inputs)["y"]}

    exporter(graph, serve=graph.predict, negative=negative).write(tmp_path / SERVE_DIR)
    inputs = {"x": column([4])}
    assert ServedModel(tmp_path / SERVE_DIR, "negative")(inputs)["negative"].tolist() == [[-8.0]]
    assert ServedModel(tmp_path / SERVE_DIR)(inputs)["y"].tolist() == [[8.0]]


class CountingGraph(ScaleGraph):
    """Depends on how often it was called: what Python does is frozen in a SavedModel."""

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        object.__setattr__(self, "calls", getattr(self, "calls", 0) + 1)
        return {"y": self.dense(inputs["x"]) * self.calls}


def test_a_graph_that_depends_on_python_state_is_caught() -> None:
    graph = CountingGraph()
    with pytest.raises(TfaipError, match="gives other values for output 'y' than the graph: .*skip_model_load_test"):
        check_serving(exporter(graph), graph.predict, {"x": column([1])})


def test_a_missing_output_is_caught() -> None:
    graph = NormGraph()

    def forgetful(inputs: TensorDict) -> TensorDict:
        return {"prob": graph.predict(inputs)["prob"]}

    made = exporter(graph, serve=forgetful)
    with pytest.raises(TfaipError, match=r"has the outputs \['prob'\], the graph \['class', 'prob'\]"):
        check_serving(made, graph.predict, {"x": column([1])})


def test_a_batch_dimension_that_was_lost_is_caught() -> None:
    graph = ScaleGraph()

    def summed(inputs: TensorDict) -> TensorDict:
        return {"y": ops.sum(graph.predict(inputs)["y"], axis=0)}

    with pytest.raises(TfaipError, match="other values for output 'y'"):
        check_serving(exporter(graph, serve=summed), graph.predict, {"x": column([1, 2])})


def test_values_that_are_not_finite_are_compared_too() -> None:
    graph = ScaleGraph()
    made = exporter(graph)
    check_serving(made, graph.predict, {"x": column([float("nan"), float("inf"), -float("inf"), 1.0])})
    check_serving(made, graph.predict, {"x": column([1e30, 1e-30])})


@pytest.mark.parametrize("large", [1.0, float("inf"), float("nan")])
def test_a_difference_is_seen_beside_any_other_value(large: float) -> None:
    graph = ScaleGraph()

    def wrong(inputs: TensorDict) -> TensorDict:
        return {"y": graph.predict(inputs)["y"] + ops.cast(inputs["x"] < 0, "float32")}

    with pytest.raises(TfaipError, match="other values for output 'y'"):
        check_serving(exporter(graph, serve=wrong), graph.predict, {"x": column([large, -1.0])})


def test_the_check_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    graph = ScaleGraph()
    check_serving(exporter(graph), graph.predict, {"x": column([1])})
    assert list(tmp_path.iterdir()) == []


def test_export_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    exporter(ScaleGraph()).write(tmp_path / SERVE_DIR)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_without_tensorflow_the_flag_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    graph = ScaleGraph()
    with pytest.raises(UsageError, match="tensorflow, which is not installed: .* --scenario.export_serve False"):
        ServingExporter(graph, {"serve": graph.predict}, {})
