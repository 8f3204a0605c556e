"""Weights on disk and in kept memory: they come back bit by bit, what does not fit is named, and tails of paths."""

import hashlib
import tracemalloc
from pathlib import Path
from typing import Any

import keras
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save

from tfaip.backend.active import backend
from tfaip.errors import TfaipError
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import (
    WEIGHTS_FILE,
    HostBuffer,
    WeightsDoNotFit,
    assign_arrays,
    built_within,
    load_arrays,
    save_arrays,
    variable_arrays,
)
from tfaip.model.weightsource import Match, match_tails


@pytest.mark.backend
def test_the_bytes_are_those_of_the_library_and_arrays_of_every_kind_come_back(tmp_path: Path) -> None:
    types = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    types += ["float32", "float64", "float16", ml_dtypes.bfloat16, "bool", "complex64", ">f4"]
    arrays = {f"{np.dtype(kind)} é\n": np.arange(6).reshape(2, 3).astype(kind) for kind in types}
    arrays |= {"": np.array(2.5, np.float32), "none": np.zeros((0, 4), np.int16), "T": arrays["bool é\n"].T}
    arrays["special"] = np.array([[1.5, -0.0], [np.inf, 1e-45]], np.float32)
    # More than one part, the last one shorter.
    arrays["large"] = np.arange(2**20 + 5, dtype=np.float64)
    fingerprint = save_arrays(tmp_path / "file", arrays)
    written = (tmp_path / "file").read_bytes()
    assert written == save({name: array.astype(array.dtype.newbyteorder("=")) for name, array in arrays.items()})
    assert fingerprint == {"size": len(written), "sha256": hashlib.sha256(written).hexdigest()}
    loaded = load_arrays(tmp_path / "file")
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (loaded[name].dtype.name, loaded[name].shape) == (array.dtype.name, array.shape)
        np.testing.assert_array_equal(loaded[name], array)
    assert save_arrays(tmp_path / "again", dict(reversed(arrays.items()))) == fingerprint


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / WEIGHTS_FILE
    save_arrays(path, {"a": np.zeros(100, np.float32)})
    for content in (b"", path.read_bytes()[:-1], b"not weights at all" * 10, None):
        path.unlink() if content is None else path.write_bytes(content)
        with pytest.raises(TfaipError, match=f"{path} cannot be read as weights: "):
            load_arrays(path)


def built_layer() -> keras.layers.Layer:
    layer = keras.layers.Dense(2)
    layer.build((None, 3))
    return layer


@pytest.mark.backend
def test_a_second_build_takes_the_weights_of_the_first() -> None:
    first, second = built_layer(), built_layer()
    captured = variable_arrays(variables_by_path(first))
    first.bias.assign([1.0, 2.0])
    assert captured["bias"].tolist() == [0.0, 0.0]  # a copy
    captured["bias"][:] = 7.0
    assert keras.ops.convert_to_numpy(first.bias.value).tolist() == [1.0, 2.0]
    assign_arrays(variables_by_path(second), variable_arrays(variables_by_path(first)), "the first")
    x = np.array([[1.0, 2.0, 3.0]], np.float32)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(first(x)), keras.ops.convert_to_numpy(second(x)))


def test_nothing_is_assigned_if_something_does_not_fit() -> None:
    layer = built_layer()
    bias, wrong = np.ones(2, np.float32), np.zeros((2, 3), np.float32)
    for arrays, message in [
        ({"bias": bias, "kernel": wrong}, r"kernel has shape \(2, 3\) there and \(3, 2\) in the model"),
        (
            {"gamma": bias, "kernel": wrong.T},
            r"missing \['bias'\], not known to the model \['gamma'\] \(1 and 1 in all",
        ),
    ]:
        with pytest.raises(TfaipError, match=f"^best/ does not fit the model: .*{message}"):
            assign_arrays(variables_by_path(layer), arrays, "best/")
        assert keras.ops.convert_to_numpy(layer.bias.value).tolist() == [0.0, 0.0]


class Late(keras.layers.Layer):
    """Layer that creates another one when it is called, as Keras allows."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(units)

    def call(self, x: Any) -> Any:
        return self.dense(x)


@pytest.mark.backend
def test_a_model_that_is_far_larger_than_its_stored_weights_is_not_built() -> None:
    arrays = {"kernel": np.zeros((4, 3)), "bias": np.zeros(3)}
    builds = [
        lambda units: keras.layers.Dense(units).build((None, 4)),
        lambda units: Late(units)(keras.Input((4,))),
        lambda units: keras.Variable("zeros", shape=(4, units)),
        lambda units: keras.metrics.Accuracy().add_variable((4 * units,), "zeros"),
    ]
    for build in builds:
        message = "^file does not fit the model: it has 15 numbers, the model 400,000,00[02] or more; check its params$"
        with pytest.raises(WeightsDoNotFit, match=message), built_within(arrays, "file"):
            build(10**8)
        with built_within(arrays, "file"):
            build(3)
    assert keras.Variable("zeros", shape=(5,)).shape == (5,)


A, B = "m/a/norm/gamma", "m/b/norm/gamma"
ENCODER, DECODER = "m/encoder/norm/gamma", "m/decoder/norm/gamma"
GRAPH = "model/graph/features/kernel"


@pytest.mark.parametrize(
    ("targets", "names", "used", "expected"),
    [
        # A tail is enough, if it names a layer or is all of the target,
        (["net/features/kernel"], [GRAPH, "other/bias"], [], [GRAPH]),
        (["heads/0/kernel"], ["graph/heads/0/kernel"], [], ["graph/heads/0/kernel"]),
        (["scale"], ["model/graph/scale"], [], ["model/graph/scale"]),
        # but not what every layer has, a place in any list, or a part of a name.
        (["features/kernel"], ["hidden/kernel"], [], [None]),
        (["net/heads/0/kernel"], ["model/layers/0/kernel"], [], [None]),
        # The longest tail wins, between names and between targets, of which the other one gets nothing.
        (["x/decoder/norm/gamma", "x/encoder/norm/gamma"], [ENCODER, DECODER], [], [DECODER, ENCODER]),
        (["x/norm/gamma", "y/encoder/norm/gamma"], [ENCODER], [], [None, ENCODER]),
        # Equal tails are ambiguous; the array that is used might have been meant.
        (["norm/gamma"], [A, B], [], [(A, B)]),
        (["x/norm/gamma", "y/norm/gamma"], [A], [], [("y/norm/gamma",), ("x/norm/gamma",)]),
        (["x/norm/gamma"], [A], [A], [None]),
    ],
)
def test_tails_of_names(targets: list[str], names: list[str], used: list[str], expected: list[Any]) -> None:
    found = match_tails(targets, {name: name for name in names}, frozenset(used))
    shown = [None if target not in found else found[target].name or found[target].candidates for target in targets]
    assert shown == expected


def test_names_of_one_array_and_of_many_parts() -> None:
    names = {"graph/dense/kernel": "array", "layers/dense/kernel": "array", "variables/0": "array"}
    assert match_tails(["net/dense/kernel"], names, frozenset()) == {"net/dense/kernel": Match("array")}
    tracemalloc.start()
    name = "a/" * 100_000 + "features/kernel"  # all of its tails: 20 GB
    assert match_tails(["net/features/kernel"], {name: name}, frozenset()) == {"net/features/kernel": Match(name)}
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


@pytest.mark.backend
def test_training_stays_in_the_same_memory_after_a_copy() -> None:
    """JAX gives the arrays of a step to the next one, TensorFlow changes them in place; unless a view is alive."""
    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64, "relu", kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(1e-3), "mse")
    x, y = np.ones((4, 32), np.float32), np.ones((4, 64), np.float32)
    kernel, buffer = {"kernel": model.layers[0].kernel}, HostBuffer()
    model.fit(x, y, shuffle=False, verbose=0)
    places, copies = [], []
    for _ in range(3):
        places.append(address(backend.host_view(kernel["kernel"])))
        copies.append(buffer.fill(kernel)["kernel"].copy())
        model.fit(x, y, shuffle=False, verbose=0)
    assert not np.array_equal(copies[0], copies[1])
    assert places[1:] == places[:-1]
    view = backend.host_view(kernel["kernel"])
    model.fit(x, y, shuffle=False, verbose=0)
    assert address(backend.host_view(kernel["kernel"])) != address(view)


@pytest.mark.backend
def test_held_arrays_are_not_overwritten() -> None:
    same, changed = keras.Variable([1.0, np.nan]), keras.Variable([2.0])
    other, buffer = keras.Variable([3.0]), HostBuffer()
    held = buffer.hold({"same": same, "changed": changed})
    changed.assign([5.0])
    filled = buffer.fill({"same": same, "changed": changed, "other": other})
    assert (held["changed"].tolist(), filled["changed"].tolist(), filled["other"].tolist()) == ([2], [5], [3])
    assert address(filled["same"]) == address(held["same"])
    assert address(filled["changed"]) != address(held["changed"])
    # What took the place of a held array is itself kept from then on.
    buffer.release()
    changed.assign([6.0])
    again = buffer.fill({"same": same, "changed": changed, "other": other})
    assert {name: address(array) for name, array in again.items()} == {n: address(a) for n, a in filled.items()}
    assert (again["changed"].tolist(), held["changed"].tolist()) == ([6], [2])
