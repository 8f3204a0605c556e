"""The SavedModel: used as others use it, the weights of the moment, checks, and graphs that cannot be exported."""

from pathlib import Path

import keras
import numpy as np
import pytest

from test.export.exported import BATCH, largest_difference, outputs, run_client, word_graphs
from test.model.support import ScaleGraph, column, keras_inputs
from test.support.beside import full_disk
from test.support.commands import finish_command, start_python
from test.support.tiny.scenario import TinyScenario
from tfaip.errors import TfaipError, UsageError
from tfaip.export import formats
from tfaip.export.formats import KERAS_DIR, Advice, ExportFormats, Tolerance, compare_outputs
from tfaip.export.savedmodelformat import SERVE_DIR, SavedModelTemplate, ServedModel, ServingExporter
from tfaip.export.savedmodelvariables import read_saved_model
from tfaip.model.graphbase import ExportGraph, ExportGraphs, GraphBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import HostBuffer, variable_arrays
from tfaip.trainer.training import export_advice
from tfaip.util.files import commit_directory
from tfaip.util.typing import TensorDict

# What a user of the SavedModel writes, who has neither this toolkit nor Keras.
CLIENT = """
import sys
import numpy as np
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
batch = np.load(sys.argv[2])
result = {}
for name, keys in (("serve", ["x", "length"]), ("encode", ["x"]), ("serving_default", ["x", "length"])):
    outputs = model.signatures[name](**{key: tf.constant(batch[key]) for key in keys})
    result |= {f"{name}/{key}": value.numpy() for key, value in outputs.items()}
result["dict/prob"] = model.serve({key: tf.constant(batch[key]) for key in batch})["prob"].numpy()
np.savez(sys.argv[3], **result)
assert "tfaip" not in sys.modules
"""


def scale_graphs(graph: ScaleGraph | None = None, function: object = None) -> ExportGraphs:
    graph = graph or ScaleGraph()
    inputs = keras_inputs({"x": (1,)})
    graph.predict(inputs)
    return ExportGraphs(graph, {"serve": function or graph.predict}, inputs)  # type: ignore[dict-item]


def check(graphs: ExportGraphs, x: list[float]) -> None:
    ExportFormats(graphs, [SERVE_DIR]).check({"x": column(x)})


@pytest.fixture(scope="module", params=["model", "values"])
def written(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ExportGraphs, Path, Path]:
    """Written with other statistics, then by the same exporter with the present ones: the model, or its values."""
    graphs, directory = word_graphs(), tmp_path_factory.mktemp("words")
    exporter, variance = ServingExporter(graphs), graphs.root.encoder.norm.moving_variance
    present = keras.ops.convert_to_numpy(variance.value).copy()
    values = variable_arrays(variables_by_path(graphs.root))
    variance.assign(present + 3)
    exporter.write(directory / "other")
    if request.param == "values":
        exporter.write_values(directory / SERVE_DIR, values)
    variance.assign(present)
    if request.param == "model":
        exporter.write(directory / SERVE_DIR)
    return graphs, directory / SERVE_DIR, directory / "other"


@pytest.fixture
def words(written: tuple[ExportGraphs, Path, Path]) -> tuple[ExportGraphs, Path]:
    return written[:2]


@pytest.mark.slow
@pytest.mark.backend
def test_plain_tensorflow_gives_the_outputs_of_every_graph(words: tuple[ExportGraphs, Path], tmp_path: Path) -> None:
    graphs, path = words
    np.savez(tmp_path / "batch.npz", **BATCH)
    files = [str(path), str(tmp_path / "batch.npz"), str(tmp_path / "result.npz")]
    run_client(CLIENT, *files)
    result = np.load(tmp_path / "result.npz")
    serve = outputs(graphs.by_name["serve"], BATCH)
    encode = outputs(graphs.by_name["encode"], BATCH)
    expected = {f"{name}/{key}": value for name in ("serve", "serving_default") for key, value in serve.items()}
    expected |= {"encode/code": encode["code"], "dict/prob": serve["prob"]}
    # Another compiler, and other kernels on the other backend: the last bits of float32.
    assert largest_difference(result, expected) < 1e-6


def test_signatures_have_the_names_and_shapes_of_the_scenario(words: tuple[ExportGraphs, Path]) -> None:
    served = ServedModel(words[1])
    assert served.endpoints == ["encode", "serve"]
    assert {name: (spec.shape, spec.dtype) for name, spec in served.inputs.items()} == {
        "x": ((None, None, 2), "float32"),
        "length": ((None, 1), "int32"),
    }
    assert set(served.outputs) == {"prob", "class"}
    encode = ServedModel(words[1], "encode")
    assert (list(encode.inputs), list(encode.outputs)) == (["x"], ["code"])


@pytest.mark.backend
def test_outputs_are_equal_for_any_batch_size_and_length(words: tuple[ExportGraphs, Path]) -> None:
    graphs, path = words
    served = ServedModel(path)
    for size, steps in ((1, 5), (2, 3)):
        batch = {"x": BATCH["x"][:size, :steps], "length": BATCH["length"][:size]}
        assert largest_difference(served(batch), outputs(graphs.by_name["serve"], batch)) < 1e-6


class WideGraph(ScaleGraph):
    """Has a weight of 160 kB, whose memory TensorFlow shares while it writes."""

    def __init__(self) -> None:
        GraphBase.__init__(self, ModelBaseParams())
        self.dense = keras.layers.Dense(40_000, kernel_initializer="ones")


@pytest.mark.backend
def test_values_are_written_as_by_the_model(tmp_path: Path) -> None:
    graph = WideGraph()
    made, later = ServingExporter(scale_graphs(graph)), ServingExporter(scale_graphs(graph))
    assert not made.writes_values
    made.write(tmp_path / "first")
    variables = variables_by_path(graph)
    # The first bit pattern after 1, and NaN.
    graph.dense.kernel.assign(np.full((1, 40_000), np.nextafter(np.float32(1), np.float32(2))))
    graph.dense.bias.assign(np.array([np.nan, 3.0] * 20_000, np.float32))
    buffer = HostBuffer()
    values = buffer.hold(variables)
    later.write(tmp_path / "model")
    graph.dense.bias.assign(np.zeros(40_000, np.float32))
    made.write_values(tmp_path / "values", values)
    by_model, by_values = (read_saved_model(tmp_path / name) for name in ("model", "values"))
    assert {name: array.tobytes() for name, array in by_values.arrays.items()} == {
        name: array.tobytes() for name, array in by_model.arrays.items()
    }
    files = [{str(p.relative_to(tmp_path / n)) for p in (tmp_path / n).rglob("*")} for n in ("first", "values")]
    assert files[0] - files[1] == {"fingerprint.pb"}  # checksums, which loaders do not need
    assert SavedModelTemplate.of(tmp_path / "model", {}) is None  # it has variables that are no weights


@pytest.mark.backend
def test_statistics_are_those_of_the_moment(written: tuple[ExportGraphs, Path, Path]) -> None:
    graphs, present, other = written
    expected = outputs(graphs.by_name["encode"], BATCH)
    assert largest_difference(ServedModel(present, "encode")(BATCH), expected) < 1e-6
    assert largest_difference(ServedModel(other, "encode")(BATCH), expected) > 0.01


class CountingGraph(ScaleGraph):
    """Depends on how often it was called: what Python does is frozen in a SavedModel."""

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        object.__setattr__(self, "calls", getattr(self, "calls", 0) + 1)
        return {"y": self.dense(inputs["x"]) * self.calls}


@pytest.mark.backend
def test_a_graph_that_depends_on_python_state_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(TfaipError, match="(?s)other values for output 'y' .*graph 'serve' in serve/.*random numbers.$"):
        check(scale_graphs(CountingGraph()), [1.0])
    check(scale_graphs(), [float("nan"), float("inf"), -float("inf"), 1.0])
    # TensorFlow keeps files of its own there, of functions that it converts for the first time in the process.
    assert [path for path in tmp_path.iterdir() if not path.name.startswith("__autograph_generated")] == []


def test_a_graph_with_other_inputs_names_them() -> None:
    graph = ScaleGraph()
    inputs = keras_inputs({"x": (1,)})
    with pytest.raises(ValueError, match=r"graph 'half' reads the inputs \['z'\], but the scenario has \['x'\]"):
        ExportGraphs(graph, {"half": ExportGraph(graph.predict, inputs=["z"])}, inputs)
    with pytest.raises(ValueError, match="returned nothing"):
        ExportGraphs(graph, {}, inputs)
    with pytest.raises(TypeError, match="an exported graph returned ndarray, expected a dict name -> tensor"):
        ExportGraph(lambda inputs: inputs["x"])({"x": column([1])})  # type: ignore[arg-type, return-value]


def test_differences_are_seen_beside_any_other_value(subtests: pytest.Subtests) -> None:
    for exported, expected in [
        ([1.0, 2.0], [[1.0], [2.0]]),
        ([1.0, 2.001], [1.0, 2.0]),
        ([0.0, 2.0], [np.nan, 2.0]),
        ([0] * 99, [0] * 98 + [1]),
        ([0] * 199, [0] * 197 + [1, 1]),
        (["a", "b"], ["a", "c"]),
    ]:
        with subtests.test(exported=exported), pytest.raises(TfaipError, match="other values for output 'y'"):
            compare_outputs({"y": np.array(exported)}, {"y": np.array(expected)}, Tolerance())
    with pytest.raises(TfaipError, match=r"has the outputs \['z'\], the graph \['y', 'z'\]"):
        compare_outputs({"z": np.zeros(1)}, {"z": np.zeros(1), "y": np.zeros(1)}, Tolerance())


def test_the_difference_is_relative_to_the_largest_value() -> None:
    given = {"y": np.array([1e30, 0.0, np.inf, np.nan]), "z": np.array([0.0]), "class": np.array([1] * 100)}
    exported = {**given, "y": np.array([1e30, 5e24, np.inf, np.nan]), "class": np.array([1] * 99 + [2])}
    assert compare_outputs(exported, given, Tolerance()) == pytest.approx(5e-6)
    with pytest.raises(TfaipError, match="difference 5e-06, allowed 1e-06"):
        compare_outputs(exported, given, Tolerance(1e-6))


def test_half_precision_may_differ_more() -> None:
    found = []
    for precision in ("float32", "mixed_float16", "mixed_bfloat16"):
        layers = [keras.layers.Dense(1), keras.layers.Dense(1, dtype=precision), keras.layers.ReLU()]
        found.append(Tolerance.of(keras.Sequential(layers), 1e-5))
    assert found == [Tolerance(1e-5, 1), Tolerance(1 / 64, 25), Tolerance(1 / 8, 25)]
    given = {"y": np.array([100.0, 1.0]), "class": np.arange(8)}
    moved = {"y": np.array([100.0, 13.4]), "class": np.array([1, 0, *range(2, 8)])}
    assert compare_outputs(moved, given, found[2]) == pytest.approx(0.124)
    moved["class"][2] = 7
    with pytest.raises(TfaipError, match="other values for output 'class'"):
        compare_outputs(moved, given, found[2])


def test_without_tensorflow_the_flag_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = scale_graphs()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="tensorflow, which is not installed: install it$"):
        ServingExporter(graphs)
    with pytest.raises(UsageError, match="not installed: install it\nswitch it off with --scenario.export_serve False"):
        ExportFormats(graphs, [SERVE_DIR], export_advice(TinyScenario.default_trainer_params()))


@pytest.mark.parametrize("name", [SERVE_DIR, KERAS_DIR])
def test_a_full_disk_is_told_as_such(name: str, tmp_path: Path) -> None:
    formats = ExportFormats(scale_graphs(), [name])
    with (
        full_disk(),
        pytest.raises(TfaipError, match="^.*model.* cannot be written: .*File too large") as caught,
        commit_directory(tmp_path / "model") as directory,
    ):
        formats.write(directory)
    assert len(str(caught.value)) <= 400
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.skipif(keras.backend.backend() != "jax", reason="elsewhere TensorFlow is imported already")
def test_what_is_found_before_and_with_the_first_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "tensorflow_is_imported", lambda: False)
    graph, batch = ScaleGraph(), {"x": column([1, 3])}
    checks = [0]

    def changing(inputs: TensorDict) -> TensorDict:
        """Give something else in the second check, in which it is not traced."""
        is_traced = not isinstance(inputs["x"], np.ndarray)
        checks[0] += not is_traced
        return {"y": inputs["x"] * (5.0 if checks[0] > 1 and not is_traced else 3.0)}

    fine, later = (ExportFormats(scale_graphs(graph, f), [SERVE_DIR], Advice("", "advice")) for f in (None, changing))
    fine.begin_check({**batch, "unread": column([1, 3])})
    fine.begin_check(batch)
    later.begin_check(batch)
    for name in ("first", "second", "third"):
        (tmp_path / name).mkdir()
    fine.write(tmp_path / "first")
    with pytest.raises(TfaipError, match="other values for output 'y'(?s:.*)graph 'serve' in serve/\nadvice$"):
        later.write(tmp_path / "second")
    fine.write(tmp_path / "third")


# Prints whether TensorFlow is imported when an epoch begins.
TRAINING = """
import sys
from pathlib import Path
import keras
from test.trainer.line import LineScenario, line_params

class Tell(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        print(epoch, "tensorflow" in sys.modules, flush=True)

params = line_params([1, 2], val_x=[1.0], output_dir=Path(sys.argv[1]), epochs=2)
params.export_best, params.skip_model_load_test = (flag == "True" for flag in sys.argv[2:4])
params.scenario.export_serve = params.export_final = True
LineScenario.create_trainer(params).train([Tell()])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("export_best", "skips_check", "imported"),
    [(True, False, [False, True]), (False, False, [True, True]), (False, True, [False, False])],
    ids=["best models", "the final model alone", "no check"],
)
def test_tensorflow_is_imported_after_the_first_epoch(
    tmp_path: Path, export_best: bool, skips_check: bool, imported: list[bool]
) -> None:
    options = [tmp_path / "run", str(export_best), str(skips_check)]
    result = finish_command(start_python("-c", TRAINING, *options, env={"KERAS_BACKEND": "jax"}))
    assert result.rc == 0, str(result)
    told = [line for line in result.stdout.splitlines() if line.endswith(("True", "False"))]
    assert told == [f"{epoch} {value}" for epoch, value in enumerate(imported)]
    assert (tmp_path / "run" / "export" / "serve" / "saved_model.pb").is_file()
