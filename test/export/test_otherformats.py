"""Files for plain Keras and for ONNX runtimes: equal outputs without this toolkit, and what cannot be written."""

import json
import zipfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from test.export.exported import BATCH, largest_difference, outputs, run_client, word_graphs
from test.model.support import ScaleGraph, column, keras_inputs
from test.support.commands import finish_command, start_python
from test.support.tiny.scenario import TinyScenario
from tfaip.data.data import DataBase
from tfaip.data.specs import TensorSpec
from tfaip.errors import TfaipError, UsageError
from tfaip.export.formats import FORMATS, ExportFormats, KerasExporter
from tfaip.export.onnxformat import OnnxExporter
from tfaip.export.savedmodelformat import ServedModel
from tfaip.model.graphbase import ExportGraphs
from tfaip.trainer.training import export_advice
from tfaip.util.typing import TensorDict

on_tensorflow = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="ONNX is written on TensorFlow")


class NumberedData(DataBase[Any]):
    """Data with these inputs."""

    def __init__(self, specs: dict[str, TensorSpec]) -> None:
        self._input_layer_specs = lambda: specs  # type: ignore[method-assign]


def dimensions(model: Any) -> dict[str, list[str | int]]:
    """Sizes and names of the dimensions of all inputs and outputs."""
    tensors = [*model.graph.input, *model.graph.output]
    return {t.name: [d.dim_param or d.dim_value for d in t.type.tensor_type.shape.dim] for t in tensors}


# What a user of the files writes, who has Keras and nothing of ours; on the other backend than the writer.
CLIENT = """
import sys
import keras
import numpy as np
batch = dict(np.load(sys.argv[2]))
result = {}
for name in ("serve", "encode"):
    model = keras.models.load_model(f"{sys.argv[1]}/{name}.keras")
    outputs = model.predict({key: batch[key] for key in model.input}, verbose=0)
    result |= {f"{name}/{key}": value for key, value in outputs.items()}
np.savez(sys.argv[3], **result)
assert "tfaip" not in sys.modules
"""


@pytest.fixture(scope="module")
def graphs() -> ExportGraphs:
    return word_graphs()


@pytest.mark.slow
@pytest.mark.backend
def test_plain_keras_on_the_other_backend_gives_the_same(
    graphs: ExportGraphs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    KerasExporter(graphs).write(tmp_path / "keras")
    np.savez(tmp_path / "batch.npz", **BATCH)
    other = {"tensorflow": "jax", "jax": "tensorflow"}[keras.backend.backend()]
    monkeypatch.setenv("KERAS_BACKEND", other)
    files = [str(tmp_path / name) for name in ("keras", "batch.npz", "result.npz")]
    run_client(CLIENT, *files)
    expected = {
        f"{name}/{key}": value for name, graph in graphs.by_name.items() for key, value in outputs(graph, BATCH).items()
    }
    assert largest_difference(np.load(tmp_path / "result.npz"), expected) < 1e-6
    config = json.loads(zipfile.ZipFile(tmp_path / "keras" / "serve.keras").read("config.json"))
    layers = {layer["class_name"] for layer in config["config"]["layers"]}
    assert {"Dense", "Bidirectional", "BatchNormalization", "Dropout"} < layers
    assert not {"WordGraph", "Encoder", "Scores"} & layers


@pytest.mark.backend
def test_every_format_writes_the_weights_of_the_moment(tmp_path: Path) -> None:
    graph, inputs = ScaleGraph(), keras_inputs({"x": (1,)})
    graph.predict(inputs)
    names = [name for name in FORMATS if name != "onnx" or keras.backend.backend() != "jax"]
    formats = ExportFormats(ExportGraphs(graph, {"serve": graph.predict}, inputs), names)
    for step, weight in enumerate((2.0, 10.0)):
        graph.dense.kernel.assign([[weight]])
        (tmp_path / str(step)).mkdir()
        formats.write(tmp_path / str(step))
    for name in names:
        y = [FORMATS[name].load(tmp_path / str(i) / name, "serve")({"x": column([1, 3])})["y"] for i in range(2)]
        assert [value[:, 0].tolist() for value in y] == [[2.0, 6.0], [10.0, 30.0]]
    formats.check({"x": column([1, 3])})


class SumGraph(ScaleGraph):
    """Adds up its inputs."""

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return {"the sum": self.dense(sum(inputs.values()))}


@pytest.mark.slow
@pytest.mark.backend
def test_inputs_whose_names_are_no_identifiers(tmp_path: Path) -> None:
    keys = ["petal length", "seg.png", "class", "größe", "1st", "_x", "a/b"]
    layers = NumberedData({key: TensorSpec((1,)) for key in keys}).create_input_layers()
    graph = SumGraph()
    graph.predict(layers)
    graph.dense.kernel.assign([[1.0]])
    names = [name for name in FORMATS if name != "onnx" or keras.backend.backend() != "jax"]
    formats = ExportFormats(ExportGraphs(graph, {"serve": graph.predict}, layers), names)
    batch = {key: column([2**i]) for i, key in enumerate(keys)}
    formats.check(batch)
    formats.write(tmp_path)
    for name in names:
        assert FORMATS[name].load(tmp_path / name, "serve")(batch)["the sum"].tolist() == [[127.0]]
    exported = {"petal_length", "seg_png", "input_class", "gr__e", "input_1st", "input__x", "a_b"}
    assert set(ServedModel(tmp_path / "serve").inputs) == exported
    assert set(keras.models.load_model(tmp_path / "keras" / "serve.keras").input) == exported


def test_writing_leaves_the_graph_as_it_was(graphs: ExportGraphs, tmp_path: Path) -> None:
    before, losses = outputs(graphs.by_name["serve"], BATCH), len(graphs.root.losses)
    KerasExporter(graphs).write(tmp_path / "keras")
    # A loss of a layer that was left behind here would join the loss of the training.
    assert len(graphs.root.losses) == losses
    assert largest_difference(outputs(graphs.by_name["serve"], BATCH), before) == 0
    trained = graphs.root.train({k: keras.ops.convert_to_tensor(v) for k, v in BATCH.items()}, {}, training=True)
    assert largest_difference({k: keras.ops.convert_to_numpy(v) for k, v in trained.items()}, before) > 1e-3


class ShapeGraph(ScaleGraph):
    """Depends on the length of the batch, which a symbolic tensor does not know."""

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        y = self.dense(inputs["x"])
        return {"y": y + keras.ops.cast(keras.ops.arange(keras.ops.shape(y)[0]), "float32")[:, None]}


class WeightGraph(ScaleGraph):
    """Has a weight that belongs to no layer of Keras."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = self.add_weight(shape=(1,), initializer="ones", name="offset")

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return {"y": self.dense(inputs["x"]) + self.offset}


@pytest.mark.backend
def test_a_weight_of_no_layer_becomes_a_constant_or_is_refused(tmp_path: Path) -> None:
    graph = WeightGraph()
    graph.predict({"x": column([1.0, 2.0])})
    exporter = KerasExporter(ExportGraphs(graph, {"serve": graph.predict}, keras_inputs({"x": (1,)})))
    if keras.backend.backend() == "jax":
        with pytest.raises(TfaipError, match="Cannot serialize object <Variable path=weight_graph/offset"):
            exporter.write(tmp_path / "first")
        return
    exporter.write(tmp_path / "first")
    graph.offset.assign([5.0])
    exporter.write(tmp_path / "second")
    for name, expected in (("first", [3.0, 5.0]), ("second", [7.0, 9.0])):
        y = KerasExporter.load(tmp_path / name, "serve")({"x": column([1, 2])})["y"]
        assert y[:, 0].tolist() == expected


def test_what_keras_files_cannot_hold_is_one_line_and_the_caller_says_what_to_do(tmp_path: Path) -> None:
    graph = ShapeGraph()
    graph.predict({"x": column([1.0, 2.0])})
    graphs = ExportGraphs(graph, {"serve": graph.predict}, keras_inputs({"x": (1,)}))
    formats = ExportFormats(graphs, ["keras"], export_advice(TinyScenario.default_trainer_params()))
    with pytest.raises(TfaipError, match=r"^graph 'serve' cannot be written as a .keras file, .*\)\n") as error:
        formats.write(tmp_path)
    assert error.value.__notes__ == ["switch it off with --scenario.export_keras False"]
    assert ("\n" in str(error.value), len(str(error.value)) <= 300) == (False, True)


@pytest.mark.slow
@on_tensorflow
def test_onnxruntime_gives_the_same(graphs: ExportGraphs, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    OnnxExporter(graphs).write(tmp_path / "onnx")
    assert dimensions(onnx.load(tmp_path / "onnx" / "serve.onnx")) == {
        "x": ["batch", "x_1", 2],
        "length": ["batch", 1],
        "prob": ["batch", "prob_1", 4],
        "class": ["batch", "class_1"],
    }
    for name, keys in (("serve", ["length", "x"]), ("encode", ["x"])):
        session = onnxruntime.InferenceSession(tmp_path / "onnx" / f"{name}.onnx")
        assert sorted(tensor.name for tensor in session.get_inputs()) == keys
        for size, steps in ((3, 5), (1, 2)):
            batch = {"x": BATCH["x"][:size, :steps], "length": BATCH["length"][:size]}
            results = session.run(None, {key: batch[key] for key in keys})
            found = dict(zip([tensor.name for tensor in session.get_outputs()], results, strict=True))
            assert largest_difference(found, outputs(graphs.by_name[name], batch)) < 1e-5
    assert capfd.readouterr() == ("", "")


class SignGraph(ScaleGraph):
    """Operations that are rewritten: `argmax` of Keras tells classes apart by the sign of zero, `gelu` uses `erfc`."""

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        both = keras.ops.concatenate([-inputs["x"], inputs["x"]], axis=-1)
        gelu = keras.activations.gelu(inputs["x"], approximate=False)
        return {"y": self.dense(inputs["x"]), "class": keras.ops.argmax(both, axis=-1), "gelu": gelu}


@on_tensorflow
def test_argmax_and_gelu_are_the_same_in_onnx(tmp_path: Path) -> None:
    graph = SignGraph()
    inputs = keras_inputs({"x": (1,)})
    graph.predict(inputs)
    OnnxExporter(ExportGraphs(graph, {"serve": graph.predict}, inputs)).write(tmp_path / "onnx")
    x = column([0.0, -0.0, 1.0, -1.0, 1e-30, -1e-30])
    found = OnnxExporter.load(tmp_path / "onnx", "serve")({"x": x})
    assert found["class"].tolist() == [1, 0, 1, 0, 1, 0]
    assert found["class"].tolist() == keras.ops.convert_to_numpy(graph.predict({"x": x})["class"]).tolist()
    assert found["gelu"][2:4, 0] == pytest.approx([0.8413447, -0.1586553], abs=1e-6)  # x times the normal distribution


class FftGraph(ScaleGraph):
    """Uses an operation that the converter does not know."""

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return {"y": keras.ops.erfinv(self.dense(inputs["x"]))}


@on_tensorflow
def test_an_operation_that_onnx_has_not_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    graph, inputs = FftGraph(), keras_inputs({"x": (1,)})
    graph.predict(inputs)
    exporter = OnnxExporter(ExportGraphs(graph, {"serve": graph.predict}, inputs))
    with pytest.raises(TfaipError, match=r"'serve' cannot be written as ONNX, .* Erfinv$"):
        exporter.write(tmp_path / "onnx")
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="there it works")
@pytest.mark.backend
def test_on_jax_onnx_says_what_to_do(graphs: ExportGraphs) -> None:
    with pytest.raises(UsageError, match="this is jax: .*KERAS_BACKEND=tensorflow tfaip-export DIR --format onnx"):
        OnnxExporter(graphs)


@on_tensorflow
def test_missing_packages_are_named(graphs: ExportGraphs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs tf2onnx, which is not installed: pip install tf2onnx onnxruntime"):
        OnnxExporter(graphs)


@pytest.mark.slow
def test_onnxruntime_writes_nothing_into_the_home_directory(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    (home := tmp_path / "home").mkdir()
    places = {name: str(home) for name in ("HOME", "XDG_CACHE_HOME", "TMPDIR")}
    places |= {name: str(tmp_path) for name in ("KERAS_HOME", "MPLCONFIGDIR")}  # those of other libraries
    code = "from tfaip.export.onnxformat import import_onnxruntime; import_onnxruntime()"
    result = finish_command(start_python("-c", code, env=places))
    assert result.rc == 0, result
    assert [path.name for path in home.iterdir() if not path.name.startswith("matplotlib")] == []
