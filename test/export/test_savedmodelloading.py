"""SavedModels that others wrote: Keras 2 and plain TensorFlow; and those that do not fit."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from test.support.keras2 import example, keras_2_models
from tfaip.data.specs import TensorSpec
from tfaip.errors import TfaipError, UsageError
from tfaip.export.savedmodelformat import ServedModel
from tfaip.export.savedmodelvariables import _paths, _Variable, _with_names_of_layers, read_saved_model
from tfaip.trainer.warmstart.warmstarter import read_source

X = np.array([[1.0, 2.0, 3.0, 4.0]], np.float32)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keras_2_models(tmp_path_factory)


def test_samples_that_fit_and_others(models: Path, subtests: pytest.Subtests) -> None:
    model = ServedModel(models / "wrapped")
    for spec in (TensorSpec((4,)), TensorSpec((None,)), TensorSpec((4,), "float64"), TensorSpec((4,), "int32")):
        model.require_inputs({"feat": spec, "other": TensorSpec((1,), "string")})
    with pytest.raises(UsageError, match=r"wants \['feat'\], not given: \['feat'\]"):
        model({"y": X})
    for specs, text in [
        ({"img": TensorSpec((4,))}, "img: float32[4]"),
        ({"feat": TensorSpec((5,))}, "feat: float32[5]"),
        ({"feat": TensorSpec((2, 4))}, "feat: float32[2, 4]"),
        ({"feat": TensorSpec((4,), "string")}, "feat: string[4]"),
        ({}, ""),
    ]:
        with subtests.test(specs=specs):
            with pytest.raises(UsageError) as error:
                model.require_inputs(specs)
            assert str(error.value) == (
                f"the SavedModel {models}/wrapped does not fit the data: it wants feat: float32[None, 4], with the "
                f"batch dimension first; the data give {text}, without it; 'feat' differs"
            )


def save_with(path: Path, **signatures: Callable[..., Any]) -> Path:
    module = tf.Module()
    module.functions = [tf.function(f, input_signature=[tf.TensorSpec(None, name="x")]) for f in signatures.values()]
    tf.saved_model.save(module, str(path), signatures=dict(zip(signatures, module.functions, strict=True)))
    return path


def test_which_endpoint_is_used(tmp_path: Path) -> None:
    one = save_with(tmp_path / "one", double=lambda x: {"y": 2 * x})
    assert ServedModel(one)({"x": X})["y"].tolist() == (2 * X).tolist()
    # Of unknown rank: anything fits.
    ServedModel(one).require_inputs({"x": TensorSpec((1, 2, 3))})
    two = save_with(tmp_path / "two", double=lambda x: {"y": 2 * x}, half=lambda x: {"y": x / 2})
    assert ServedModel(two, "half")({"x": X})["y"].tolist() == (X / 2).tolist()
    with pytest.raises(TfaipError, match=r"has the endpoints \['double', 'half'\], expected one of them"):
        ServedModel(two)
    with pytest.raises(TfaipError, match=r"has the endpoints \['double', 'half'\], expected serve"):
        ServedModel(two, "serve")


def test_what_is_no_saved_model(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"no SavedModel at {tmp_path}: it has no saved_model.pb"):
        ServedModel(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"nothing of the kind")
    with pytest.raises(TfaipError, match=f"the SavedModel {tmp_path} cannot be loaded: "):
        ServedModel(tmp_path)


@pytest.mark.parametrize(
    "name", [pytest.param("functional", marks=pytest.mark.backend), "sequential", "subclassed", "wrapped"]
)
def test_the_outputs_that_keras_2_computed(name: str, models: Path) -> None:
    model, inputs = ServedModel(models / name), example(models / name, "inputs")
    expected = example(models / name, "outputs")
    assert (set(model.inputs), set(model.outputs)) == (set(inputs), set(expected))
    # Numbers of another width, and inputs that it does not know, are no obstacle.
    outputs = model({**{key: value.astype(np.float64) for key, value in inputs.items()}, "length": np.array([1])})
    for output, value in expected.items():
        # Other versions of TensorFlow add in another order.
        np.testing.assert_allclose(outputs[output], value, rtol=1e-5, atol=1e-6)


def test_names_and_shapes(models: Path) -> None:
    model = ServedModel(models / "functional")
    assert model.inputs == {"seq": TensorSpec((None, 6, 3), "float32"), "feat": TensorSpec((None, 4), "float32")}
    assert model.outputs == {"classes": TensorSpec((None, 3), "float32"), "score": TensorSpec((None, 1), "float32")}
    # An endpoint that is named has its own names.
    model = ServedModel(models / "functional", "serving_default")
    assert set(model.inputs) == {"sequence_input", "feature_input"}
    assert set(model.outputs) == {"class_head", "score_head"}


class Called(tf.Module):  # type: ignore[misc]
    """What is called is something else than what is served; `keras_api` makes it look like a model of Keras 2."""

    def __init__(self, call: Callable[..., Any], with_mark: bool) -> None:
        super().__init__()
        self.weight = tf.Variable(2.0)
        if with_mark:
            self.keras_api = tf.Module()
        self.call = tf.function(lambda inputs, training: call(self.weight * inputs["x"]))

    @tf.function  # type: ignore[untyped-decorator]
    def __call__(self, inputs: Any, training: bool = False) -> Any:
        return self.call(inputs, training)


@pytest.mark.parametrize(
    ("call", "with_mark", "name"),
    [
        (lambda x: {"called": x}, True, "called"),
        (lambda x: {"called": x}, False, "served"),
        (lambda x: {"called": x[:, :2]}, True, "served"),
        (lambda x: x, True, "served"),
        (lambda x: {"called": [x]}, True, "served"),
    ],
    ids=["renamed", "of another origin", "another shape", "without a name", "nested"],
)
def test_when_the_names_of_the_call_count(call: Callable[..., Any], with_mark: bool, name: str, tmp_path: Path) -> None:
    module, spec = Called(call, with_mark), tf.TensorSpec((None, 4), tf.float32, name="x")
    for training in (True, False):
        module.__call__.get_concrete_function({"x": spec}, training=training)
    served = tf.function(lambda x: {"served": module.weight * x}, input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": served})
    model = ServedModel(tmp_path)
    assert list(model.outputs) == [name]
    assert model({"x": X})[name].tolist() == (2 * X).tolist()


WRITE_KERAS = """
import keras
layers = [keras.Input((4,)), keras.layers.Dense(8, name="hidden"), keras.layers.Dense(1, name="out")]
model = keras.Sequential(layers, name="net")
for value, variable in enumerate(model.weights):
    variable.assign(keras.ops.full(variable.shape, value))
model.export("model", verbose=False)
"""

WRITE_MODULE = """
import tensorflow as tf
part = tf.Module()
part.kernel = tf.Variable([[1.0]], name="kernel")
model = tf.Module()
model.hidden, model.parts = tf.Variable([2.0, 3.0], name="net/first/kernel"), [part, tf.Module()]
model.parts[1].kernel = tf.Variable([4.0], name="kernel")
model.infer = tf.function(lambda x: x * model.hidden, input_signature=[tf.TensorSpec([2])])
tf.saved_model.save(model, "model")
"""


def write(code: str, directory: Path) -> Path:
    """Run code in another process, as somebody else would have."""
    subprocess.run([sys.executable, "-c", code], cwd=directory, check=True, capture_output=True)
    return directory / "model"


@pytest.fixture(scope="module")
def keras_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(WRITE_KERAS, tmp_path_factory.mktemp("keras"))


@pytest.mark.slow
@pytest.mark.backend
def test_a_model_that_keras_exported(keras_model: Path) -> None:
    source = read_source(keras_model)
    shapes = {name: array.shape for name, array in source.arrays.items()}
    assert sorted(shapes.values()) == [(1,), (4, 8), (8,), (8, 1)]
    if keras.backend.backend() == "tensorflow":
        # There the names of the layers are kept.
        assert list(shapes) == ["net/hidden/kernel", "net/hidden/bias", "net/out/kernel", "net/out/bias"]
        assert source.aliases["hidden/kernel"] == "net/hidden/kernel"
        assert "hidden/kernel" not in read_saved_model(keras_model, trim_graph_name=False).aliases
    by_place = [source.arrays[source.aliases[f"variables/{i}"]] for i in range(4)]
    assert [float(array.flat[0]) for array in by_place] == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.slow
def test_a_module_of_plain_tensorflow(tmp_path: Path) -> None:
    source = read_source(write(WRITE_MODULE, tmp_path))
    # Two variables are called kernel: only the way to them tells them apart.
    assert {name: array.ravel().tolist() for name, array in source.arrays.items()} == {
        "net/first/kernel": [2.0, 3.0],
        "parts/0/kernel": [1.0],
        "parts/1/kernel": [4.0],
    }
    assert source.aliases["first/kernel"] == source.aliases["hidden"] == "net/first/kernel"
    assert "kernel" not in source.aliases


@pytest.mark.parametrize(
    ("attributes", "name", "expected"),
    [
        ("layer_with_weights-2/cell/kernel", "lstm/lstm_cell/kernel", "lstm/cell/kernel"),
        ("layer-1/cell/kernel", "lstm/while/lstm_cell/kernel", "lstm/cell/kernel"),
        ("dense/kernel", "net/dense/kernel", "dense/kernel"),
    ],
)
def test_numbers_of_layers_become_names(attributes: str, name: str, expected: str) -> None:
    assert _with_names_of_layers(_Variable(attributes, attributes, name, "key")) == expected


def test_a_deep_graph_of_objects_is_refused() -> None:
    """Its paths would take memory that grows with the square of the file."""
    from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

    graph = TrackableObjectGraph()
    for index in range(1000):
        graph.nodes.add().children.add(node_id=index + 1, local_name="a")
    graph.nodes.add()
    assert len(_paths(graph.nodes)[1000]) == 1999
    graph.nodes[0].children[0].local_name = "abc"
    with pytest.raises(ValueError, match="a path of attributes has more than 2000 characters"):
        _paths(graph.nodes)
