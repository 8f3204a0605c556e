"""Values of samples become arrays of their specs, or are refused with what came and what was expected."""

from typing import Any

import numpy as np
import pytest

from tfaip.data.pipeline.batching import Batch, Batcher
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.specs import TensorSpec


def batcher_of(spec: TensorSpec, padding: Any = 0) -> Batcher:
    return Batcher({"x": spec}, {}, {"x": padding}, PipelineMode.PREDICTION)


def stack(values: list[Any], spec: TensorSpec, padding: Any = 0) -> np.ndarray[Any, Any]:
    return batcher_of(spec, padding).batch([Sample(inputs={"x": value}) for value in values]).inputs["x"]


def objects(*values: Any) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@pytest.mark.parametrize(
    ("values", "shape", "dtype", "padding", "expected"),
    [
        ([np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])], [1, 2], "float32", 0, [[[1, 2]], [[3, 4]]]),
        # Variable dimensions are padded to the longest sample of the batch.
        ([np.ones([1, 2]), 2 * np.ones([2, 1])], [None, None], "float32", -1, [[[1, 1], [-1, -1]], [[2, -1], [2, -1]]]),
        ([[1.0], [1.0, 2.0]], [None], "float32", np.nan, [[1, np.nan], [1, 2]]),
        ([[1], [1, 2]], [None], "uint8", 255, [[1, 255], [1, 2]]),
        ([[], ["a"]], [None], "string", "", [[""], ["a"]]),
        # Ragged rows: of 2 and 1 numbers, and one of 1 number; as arrays, and as an array of arrays.
        ([[[1, 2], [3]], [[4]]], [None, None], "int8", 9, [[[1, 2], [3, 9]], [[4, 9], [9, 9]]]),
        ([[np.ones([2, 1]), np.ones([2, 2])]], [None, 2, None], "float32", -1, [[[[1, -1]] * 2, [[1, 1]] * 2]]),
        ([objects(np.array([1.0]), np.array([2.0, 3.0]))], [None, None], "float32", 0, [[[1, 0], [2, 3]]]),
        *[([text], [1], "string", "", [["ab"]]) for text in ("ab", np.array("ab"), np.array("ab", object), ["ab"])],
        ([[["a", "b"], ["d"]], [["e"]]], [None] * 2, "string", "", [[["a", "b"], ["d", ""]], [["e", ""], ["", ""]]]),
        # What loses no value is cast; what is infinite already may stay so.
        ([[200]], [1], "uint8", 0, [[200]]),
        ([[1.0]], [1], "int32", 0, [[1]]),
        ([[np.inf]], [1], "float16", 0, [[np.inf]]),
    ],
)  # fmt: skip
def test_values_are_stacked_padded_and_cast(values: Any, shape: Any, dtype: str, padding: Any, expected: Any) -> None:
    batch = stack(values, TensorSpec(shape, dtype), padding)
    assert batch.dtype == (object if dtype == "string" else dtype)
    np.testing.assert_array_equal(batch, np.array(expected, batch.dtype))


LOSES = r"inputs\['x'\] (has dtype .*|is \[.*\]), expected "


@pytest.mark.parametrize(
    ("values", "shape", "dtype", "kind", "message"),
    [
        ([np.ones([4, 3]), np.ones([4, 2])], [None, 3], "int8", ValueError, r"shape \[4, 2\], expected \[None, 3\]"),
        *[([3], shape, "int32", ValueError, r"has shape \[\], expected") for shape in ([2], [None], [1, 1])],
        ([[1.5]], [1], "int32", TypeError, f"{LOSES}int32"),
        ([[1 + 2j]], [1], "float32", TypeError, f"{LOSES}float32"),
        ([["a"]] * 9 + [[7]], [1], "string", TypeError, r"inputs\['x'\] is \[7\], expected string"),
        # Whole numbers do not wrap around. NumPy joins int64 and uint64 as float64.
        ([[300], [0]], [None], "uint8", ValueError, "numbers from 300 to 300, expected 0 to 255 for uint8 as in"),
        ([[0], [2**40]], [None], "int32", ValueError, "from 1099511627776 to .*, expected -2147483648 to 2147483647"),
        ([[1.0], [-2.0]], [1], "bool", ValueError, "numbers from -2 to -2, expected 0 to 1 for bool"),
        ([np.array([5], "int64"), np.array([2**40], "uint64")], [1], "int32", ValueError, "from 1099511627776 to"),
        # Large ones do not become infinite, in equal shapes, padded and nested.
        ([[1], [1e39]], [None], "float32", ValueError, "numbers that are too large for float32 as in the layer specs"),
        ([[[1, 2], [70_000]]], [None, None], "float16", ValueError, "numbers that are too large for float16"),
        # Ragged rows.
        ([[[1, 2], [3]]], [None, 3], "float32", ValueError, r"has shape \[2, 2\], expected \[None, 3\]"),
        ([[[1, 2], [3]]], [None], "float32", ValueError, r"nested deeper than the layer specs \(\[None\]\)"),
        ([[[1, 2], 3]], [None, None], "float32", ValueError, "has rows of different depth"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_are_refused(values: Any, shape: Any, dtype: str, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        stack(values, TensorSpec(shape, dtype), "" if dtype == "string" else 0)


@pytest.mark.parametrize(("padding", "dtype"), [(-1, "uint8"), (0.5, "int32"), (float("nan"), "int32"), (0, "string")])
def test_padding_that_is_not_of_the_type_is_refused(padding: Any, dtype: str) -> None:
    with pytest.raises((TypeError, ValueError), match=r"the padding of inputs\['x'\] (is|has) .*, expected "):
        stack([], TensorSpec([None], dtype), padding)


def test_a_value_that_does_not_fit_names_its_sample() -> None:
    samples = [Sample(inputs={"x": [x]}, meta={"line": line}) for line, x in enumerate([1.0, "three", 2.0])]
    with pytest.raises(TypeError, match=r"(?s)expected float32 as .*\nthe meta of the sample: {'line': 1}$"):
        batcher_of(TensorSpec([1], "float32")).batch(samples)


BOTH = ({"x": TensorSpec([1])}, {"y": TensorSpec([1])}, {"x": 0, "y": 0})


@pytest.mark.parametrize(
    ("mode", "keys"), [("training", "xy"), ("evaluation", "xy"), ("prediction", "x"), ("targets", "y")]
)
def test_the_mode_decides_what_is_read(mode: str, keys: str) -> None:
    sample = Sample(inputs={"x": 1, "extra": "ignored"}, targets={"y": 2}, meta={"id": 7})
    batcher = Batcher(*BOTH, PipelineMode(mode))
    batch = batcher.batch([sample, sample])
    assert [*batch.inputs, *batch.targets] == list(keys)
    assert (batch.size, batch.meta) == (2, [{"id": 7}, {"id": 7}])
    assert (batcher.needs_inputs, batcher.needs_targets) == ("x" in keys, "y" in keys)


@pytest.mark.parametrize(
    ("inputs", "found"), [({"a": 1, "b": 2}, r"\['a', 'b'\]"), (None, "of type NoneType"), ([3], "of type list")]
)
def test_a_missing_key_is_named_with_what_is_there(inputs: Any, found: str) -> None:
    with pytest.raises(ValueError, match=rf"a sample lacks inputs\['x'\]; its inputs are {found}"):
        Batcher(*BOTH, PipelineMode.PREDICTION).batch([Sample(inputs=inputs)])


def stacked(x: Any, y: Any, meta: Any = None) -> Batch:
    return Batcher(*BOTH, PipelineMode.TRAINING).from_stacked(Sample(inputs={"x": x}, targets={"y": y}, meta=meta))


def test_a_stacked_sample_is_cast_and_gets_meta() -> None:
    batch = stacked(np.ones([2, 1]), np.zeros([2, 1], "int8"))
    assert batch.inputs["x"].dtype == batch.targets["y"].dtype == np.float32
    assert batch.meta == [None, None]
    assert stacked([[1]], [[2]], meta=("m",)).meta == ["m"]


@pytest.mark.parametrize(
    ("x", "y", "meta", "message"),
    [
        ([[1]], [[1], [2]], None, r"different numbers of samples, or none: \{'x': 1, 'y': 2\}"),
        ([[1]], [[1]], ["a", "b"], "the meta of a batch has 2 entries, its arrays 1"),
        ([1], [[1]], None, r"inputs\['x'\] has shape \[1\], expected \['batch', 1\]"),
        ([[1e39]], [[1]], None, r"inputs\['x'\] has numbers that are too large for float32"),
    ],
)
def test_stacked_samples_are_checked(x: Any, y: Any, meta: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stacked(x, y, meta)


def test_whole_numbers_of_a_stacked_sample_do_not_wrap_around() -> None:
    with pytest.raises(ValueError, match=r"inputs\['x'\] has numbers from 1 to 4294967296"):
        batcher_of(TensorSpec([1], "int32")).from_stacked(Sample(inputs={"x": np.array([[1], [2**32]])}))
