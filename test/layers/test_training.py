"""All layers in one graph: export formats and configs."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from test.model.support import keras_inputs
from tfaip.export.formats import FORMATS
from tfaip.layers.ctc import ctc_greedy_decode
from tfaip.layers.specaugment import SpecAugment
from tfaip.layers.stochasticdepth import StochasticDepth
from tfaip.model.graphbase import ExportGraphs, GraphBase
from tfaip.model.kerasgraph import KerasGraph
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.util.typing import TensorDict

BATCH = {
    "x": np.random.default_rng(0).normal(size=(3, 9, 4)).astype("float32"),
    "length": np.array([[9], [5], [1]], np.int32),
}


class Reader(GraphBase[ModelBaseParams]):
    """Every layer of ours, and a decoder."""

    def __init__(self) -> None:
        super().__init__(ModelBaseParams())
        self.augment = SpecAugment(2, 3, 2, 4, 1.0, 3, seed=1)
        self.block = StochasticDepth(keras.layers.Conv1D(4, 3, padding="same"), 0.5, seed=2)
        self.read, self.scores = keras.layers.LSTM(5, return_sequences=True), keras.layers.Dense(6)

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        x = self.augment(inputs["x"], lengths=inputs["length"], training=training)
        logits = 5 * self.scores(self.read(self.block(x, training=training)))
        labels, count, score = ctc_greedy_decode(logits, inputs["length"], blank=-1)
        return {"labels": labels, "count": count, "score": score}


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.parametrize("name", ["serve", "keras", "onnx"])
def test_layers_and_decoder_are_in_every_format(name: str, tmp_path: Path) -> None:
    if name == "onnx":
        pytest.importorskip("tf2onnx")
        if keras.backend.backend() != "tensorflow":
            pytest.skip("ONNX is written on TensorFlow")
    keras.utils.set_random_seed(1)
    graph = Reader()
    graph.predict(BATCH)
    inputs = keras_inputs({"x": (None, 4)}) | {"length": keras.Input((1,), dtype="int32")}
    FORMATS[name](ExportGraphs(graph, {"serve": graph.predict}, inputs)).write(tmp_path / name)
    load = FORMATS[name].load(tmp_path / name, "serve")
    for size, frames in ((3, 9), (2, 7)):
        batch = {"x": BATCH["x"][:size, :frames], "length": np.minimum(BATCH["length"][:size], frames)}
        expected = {key: np.asarray(value) for key, value in graph.predict(batch).items()}
        found = load(batch)
        assert sorted(found) == ["count", "labels", "score"]
        for key, value in expected.items():
            np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-5)
        assert expected["count"].sum() > 0


@pytest.mark.parametrize(
    ("layer", "attributes"),
    [
        (
            lambda: SpecAugment(1, 2, 3, keras.Variable(4.0), 0.5, 6, value=7.0, seed=8, name="augment"),
            {"freq_masks": 1, "time_width": 4.0, "time_share": 0.5, "seed": 8},
        ),
        (lambda: StochasticDepth(keras.layers.Dense(1), keras.Variable(0.5), seed=4), {"survival": 0.5, "seed": 4}),
    ],
)
def test_the_config_makes_the_same_layer(layer: Any, attributes: dict[str, Any]) -> None:
    made = layer()
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(made))
    assert copy.get_config() == made.get_config()
    assert {name: getattr(copy, name) for name in attributes} == attributes
    if not isinstance(copy, SpecAugment):
        assert (type(copy.layer), copy.layer.units) == (keras.layers.Dense, made.layer.units)


@pytest.mark.backend
def test_a_functional_model_with_our_layers_is_written_without_them(tmp_path: Path) -> None:
    dense = keras.layers.Dense(4, activation="tanh")
    layers = [SpecAugment(1, 2, 1, 2, 1.0, 0), StochasticDepth(dense, 0.5), keras.layers.Dense(2, name="y")]
    network = keras.Sequential([keras.Input((None, 4), name="x"), *layers])
    graph = KerasGraph(ModelBaseParams(), network, None, "Test")
    expected = graph.predict({"x": BATCH["x"]})
    graphs = ExportGraphs(graph, {"serve": graph.predict}, keras_inputs({"x": (None, 4)}))
    FORMATS["keras"](graphs).write(tmp_path / "keras")
    model = keras.saving.load_model(tmp_path / "keras" / "serve.keras", safe_mode=True)
    assert {type(layer).__module__.partition(".")[0] for layer in model._flatten_layers()} == {"keras"}
    for key, value in FORMATS["keras"].load(tmp_path / "keras", "serve")({"x": BATCH["x"]}).items():
        np.testing.assert_allclose(value, np.asarray(expected[key]), rtol=1e-5, atol=1e-6)
