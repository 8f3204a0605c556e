"""Variables of SavedModels that Keras, plain TensorFlow and the toolkit itself have written."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from test.support.tiny.scenario import TinyScenario
from tfaip.errors import TfaipError, UsageError
from tfaip.export.savedmodelvariables import _paths, read_saved_model
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import variable_arrays
from tfaip.trainer.params import ProgressBarMode
from tfaip.trainer.warmstart.warmstarter import read_source

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

WRITE_TF1 = """
import tensorflow as tf
v1 = tf.compat.v1
with tf.Graph().as_default(), v1.Session() as session:
    for name in ("net/kernel", "net/kernel/ExponentialMovingAverage"):
        variable = v1.get_variable(name, initializer=[float(len(name))])
    session.run(v1.global_variables_initializer())
    v1.saved_model.simple_save(session, "model", {"x": variable}, {"y": variable})
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


@pytest.mark.slow
def test_a_model_of_tensorflow_1(tmp_path: Path) -> None:
    source = read_source(write(WRITE_TF1, tmp_path))
    assert {name: array.tolist() for name, array in source.arrays.items()} == {
        "net/kernel": [float(len("net/kernel"))],
        "net/kernel/ExponentialMovingAverage": [float(len("net/kernel/ExponentialMovingAverage"))],
    }
    assert source.aliases["kernel/ExponentialMovingAverage"] == "net/kernel/ExponentialMovingAverage"


# Keras asks jax2tf for something that JAX will not have for ever.
@pytest.mark.slow
@pytest.mark.backend
def test_our_own_serve_directory_has_the_paths_of_the_model(tmp_path: Path) -> None:
    params = TinyScenario.default_trainer_params()
    params.epochs, params.output_dir, params.random_seed = 1, str(tmp_path / "run"), 3
    params.scenario.export_serve, params.progress_bar_mode = True, ProgressBarMode.PLAIN
    trainer = TinyScenario.create_trainer(params)
    trainer.train()
    expected = variable_arrays(variables_by_path(trainer.scenario.graph))
    serve = tmp_path / "run" / "export" / "serve"
    source = read_source(serve)
    assert source.description == str(serve)
    assert {name: array.tobytes() for name, array in source.arrays.items()} == {
        name: array.tobytes() for name, array in expected.items()
    }
    # On its own it is a SavedModel like others: the values are there, the paths are not.
    moved = read_source(Path(shutil.copytree(serve, tmp_path / "moved")))
    assert any(np.array_equal(array, expected["hidden/kernel"]) for array in moved.arrays.values())


@pytest.mark.slow
def test_a_damaged_model_is_named(keras_model: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(keras_model, tmp_path / "model"))
    for pattern in ("variables.data*", "variables.index"):
        for path in (model / "variables").glob(pattern):
            path.write_bytes(b"nothing")
        with pytest.raises(TfaipError, match=f"the SavedModel {model} cannot be read"):
            read_saved_model(model)


def test_without_tensorflow_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="reading the SavedModel model needs tensorflow, which is not installed"):
        read_saved_model(Path("model"))


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
