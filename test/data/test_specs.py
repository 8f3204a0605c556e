from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tfaip.data.specs import TensorSpec, as_specs


class FrameworkType:
    """A type that, like those of TensorFlow, only has a name."""

    name = "int64"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (TensorSpec([28, 28]), TensorSpec((28, 28), "float32")),
        (SimpleNamespace(shape=(None, 3), dtype="int32"), TensorSpec((None, 3), "int32")),
        (SimpleNamespace(shape=[np.int64(4)], dtype=FrameworkType()), TensorSpec((4,), "int64")),
        (SimpleNamespace(shape=(1,), dtype=np.uint8), TensorSpec((1,), "uint8")),
        (SimpleNamespace(shape=(1,), dtype=bool), TensorSpec((1,), "bool")),
        (SimpleNamespace(shape=(1,), dtype="string"), TensorSpec((1,), "string")),
        (np.zeros([2, 5], "float16"), TensorSpec((2, 5), "float16")),
    ],
)
def test_everything_with_shape_and_dtype_is_a_spec(spec: Any, expected: TensorSpec) -> None:
    assert as_specs({"x": spec}, "D._input_layer_specs") == {"x": expected}


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        (TensorSpec([]), ValueError, "has shape \\[\\], expected at least one dimension: write \\[1\\]"),
        (SimpleNamespace(dtype="int32"), TypeError, "expected something with a shape"),
        (SimpleNamespace(shape=None, dtype="int32"), TypeError, "shape of known rank"),
        (SimpleNamespace(shape=[1]), TypeError, "has dtype None"),
        (SimpleNamespace(shape=[1], dtype="flaot32"), TypeError, "has dtype 'flaot32'"),
        ("float32", TypeError, "is 'float32'"),
    ],
)
def test_errors_name_the_place(spec: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as info:
        as_specs({"good": TensorSpec([1]), "x": spec}, "D._input_layer_specs")
    assert str(info.value).startswith("D._input_layer_specs()['x']")


@pytest.mark.parametrize(
    ("shape", "fits"),
    [((5, 3), True), ((0, 3), True), ((5, 4), False), ((5,), False), ((5, 3, 1), False)],
)
def test_fits(shape: tuple[int, ...], fits: bool) -> None:
    assert TensorSpec((None, 3)).fits(shape) is fits


def test_text_is_held_as_objects() -> None:
    assert TensorSpec([1], "string").numpy_dtype == np.dtype(object)
    assert TensorSpec([1], "int16").numpy_dtype == np.dtype("int16")
