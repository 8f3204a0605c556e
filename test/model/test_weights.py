"""Weights on disk: they come back bit by bit, and what does not fit is named."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import keras
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save

from tfaip.errors import TfaipError
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import (
    WEIGHTS_FILE,
    WeightsDoNotFit,
    assign_arrays,
    built_within,
    load_arrays,
    save_arrays,
    variable_arrays,
)


@pytest.mark.backend
def test_arrays_of_every_kind_come_back(tmp_path: Path) -> None:
    arrays = {
        "weights/a": np.array([[1.5, -0.0], [np.inf, 1e-45]], np.float32),
        "scalar": np.array(3, np.int64),
        "empty": np.zeros((0, 2), np.float32),
        "seed": np.array([1, 2**32 - 1], np.uint32),
        "half": np.array([0.5], np.float16),
        "flag": np.array([True, False]),
        "transposed": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "accelerator": np.ones(3, ml_dtypes.bfloat16),
        "complex": np.full(2, 1j, np.complex64),
    }
    save_arrays(tmp_path / WEIGHTS_FILE, arrays)
    loaded = load_arrays(tmp_path / WEIGHTS_FILE)
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (loaded[name].dtype, loaded[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(loaded[name], array)
    save_arrays(tmp_path / "again", {name: array.copy() for name, array in reversed(arrays.items())})
    assert (tmp_path / "again").read_bytes() == (tmp_path / WEIGHTS_FILE).read_bytes()
    with pytest.raises(TfaipError, match=r"wide has the type complex128, expected one of uint64, .*float32"):
        save_arrays(tmp_path / "file", {"wide": np.zeros(2, np.complex128)})


def test_the_bytes_are_those_of_the_library(tmp_path: Path) -> None:
    types = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    types += ["float32", "float64", "float16", ml_dtypes.bfloat16, "bool", "complex64", ">f4"]
    arrays = {f"{np.dtype(kind)} é\n": np.arange(6).reshape(2, 3).astype(kind) for kind in types}
    arrays |= {"": np.array(2.5, np.float32), "none": np.zeros((0, 4), np.int16)}
    # More than one part, the last one shorter.
    arrays["large"] = np.arange(2**20 + 5, dtype=np.float64)
    fingerprint = save_arrays(tmp_path / "file", arrays)
    written = (tmp_path / "file").read_bytes()
    assert written == save({name: array.astype(array.dtype.newbyteorder("=")) for name, array in arrays.items()})
    assert fingerprint == {"size": len(written), "sha256": hashlib.sha256(written).hexdigest()}


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
def test_a_second_build_takes_the_weights_of_the_first(tmp_path: Path) -> None:
    first, second = built_layer(), built_layer()
    captured = variable_arrays(variables_by_path(first))
    first.bias.assign([1.0, 2.0])
    assert captured["bias"].tolist() == [0.0, 0.0]  # a copy
    captured["bias"][:] = 7.0
    assert keras.ops.convert_to_numpy(first.bias.value).tolist() == [1.0, 2.0]
    save_arrays(tmp_path / WEIGHTS_FILE, variable_arrays(variables_by_path(first)))
    assign_arrays(variables_by_path(second), load_arrays(tmp_path / WEIGHTS_FILE), "the file")
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


def with_header(path: Path, header: object, data: bytes = b"") -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def array(dtype: object, shape: object, *offsets: object) -> dict[str, object]:
    return {"x": {"dtype": dtype, "shape": shape, "data_offsets": list(offsets)}}


def test_headers_that_say_something_impossible(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for header in [
        array("F8_E4M3", [4], 0, 4),
        array(["F32"], [1], 0, 4),
        array("F32", [2**62], 0, 0),
        array("F32", [2**40, 0, 2**40], 0, 0),
        array("F32", [0] * 100, 0, 0),
        array("F32", [-1], 0, 4),
        array("F32", [1], 4, 0),
        array("F32", [2], 0, 8),
        {"x" * 10_000: 3},
        [],
        {**array("F32", [1], 0, 4), "y": array("F32", [1], 0, 4)["x"]},
    ]:
        with subtests.test(header=str(header)[:80]):
            path = with_header(tmp_path / WEIGHTS_FILE, header, bytes(4))
            with pytest.raises(TfaipError, match="cannot be read as weights: ") as caught:
                load_arrays(path)
            assert len(str(caught.value).replace(str(tmp_path), "")) <= 300


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
