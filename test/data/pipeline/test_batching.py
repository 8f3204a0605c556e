from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tfaip.data.pipeline.batching import Batch, Batcher
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.specs import TensorSpec


def stack(values: list[Any], spec: TensorSpec, padding: Any = 0) -> np.ndarray[Any, Any]:
    batcher = Batcher({"x": spec}, {}, {"x": padding}, PipelineMode.PREDICTION)
    return batcher.batch([Sample(inputs={"x": value}) for value in values]).inputs["x"]


def test_equal_shapes_are_stacked_and_cast() -> None:
    batch = stack([np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])], TensorSpec([1, 2], "float32"))
    assert batch.dtype == np.float32
    np.testing.assert_array_equal(batch, [[[1, 2]], [[3, 4]]])


def test_variable_dimensions_are_padded_to_the_longest_of_the_batch() -> None:
    values = [np.ones([1, 3]), 2 * np.ones([2, 1])]
    batch = stack(values, TensorSpec([None, None], "float32"), padding=-1)
    expected = [[[1, 1, 1], [-1, -1, -1]], [[2, -1, -1], [2, -1, -1]]]
    np.testing.assert_array_equal(batch, np.array(expected, "float32"))


def test_only_variable_dimensions_are_padded() -> None:
    with pytest.raises(ValueError, match=r"inputs\['x'\] has shape \[4, 2\], expected \[None, 3\]"):
        stack([np.ones([4, 3]), np.ones([4, 2])], TensorSpec([None, 3]))


def test_padding_may_be_nan_and_fit_each_type() -> None:
    batch = stack([[1.0], [1.0, 2.0]], TensorSpec([None]), padding=float("nan"))
    np.testing.assert_array_equal(batch, [[1, np.nan], [1, 2]])
    batch = stack([[1], [1, 2]], TensorSpec([None], "uint8"), padding=255)
    np.testing.assert_array_equal(batch, [[1, 255], [1, 2]])


def test_padding_that_is_not_of_the_type_is_refused(subtests: pytest.Subtests) -> None:
    for padding, dtype in [(-1, "uint8"), (0.5, "int32"), (float("nan"), "int32"), (0, "string")]:
        with (
            subtests.test(padding=padding),
            pytest.raises(ValueError, match=r"padding value of inputs\['x'\] is .* expected one value of type"),
        ):
            stack([], TensorSpec([None], dtype), padding)


def test_a_number_fits_only_the_shape_of_one_value() -> None:
    np.testing.assert_array_equal(stack([3, np.int8(4)], TensorSpec([1], "int32")), [[3], [4]])
    for shape in ([2], [None], [1, 1]):
        with pytest.raises(ValueError, match=r"has shape \[\], expected"):
            stack([3], TensorSpec(shape, "int32"))


def test_casts_that_lose_values_are_refused(subtests: pytest.Subtests) -> None:
    for value, dtype, allowed in [
        ([True], "int32", True),
        ([200], "uint8", True),
        ([1], "bool", True),
        ([1.0], "int32", True),
        ([1.5], "int32", False),
        ([np.nan], "int32", False),
        ([0.5], "bool", False),
        ([None], "float32", False),
        ([1.0], "complex64", True),
        ([1 + 2j], "float32", False),
        ([np.datetime64("2020-01-01")], "int32", False),
    ]:
        with subtests.test(value=value):
            if allowed:
                assert stack([value], TensorSpec([1], dtype)).dtype == dtype
            else:
                with pytest.raises(TypeError, match=rf"inputs\['x'\] (has dtype .*|is \[.*\]), expected {dtype}"):
                    stack([value], TensorSpec([1], dtype))


def test_a_value_that_does_not_fit_names_its_sample() -> None:
    samples = [Sample(inputs={"x": [x]}, meta={"line": line}) for line, x in enumerate([1.0, "three", 2.0])]
    batcher = Batcher({"x": TensorSpec([1], "float32")}, {}, {"x": 0}, PipelineMode.PREDICTION)
    with pytest.raises(TypeError, match=r"expected float32 as .*; the meta of the sample: {'line': 1}$"):
        batcher.batch(samples)


BOTH = ({"x": TensorSpec([1])}, {"y": TensorSpec([1])}, {"x": 0, "y": 0})


def test_the_mode_decides_what_is_read(subtests: pytest.Subtests) -> None:
    for mode, inputs, targets in [
        (PipelineMode.TRAINING, {"x"}, {"y"}),
        (PipelineMode.EVALUATION, {"x"}, {"y"}),
        (PipelineMode.PREDICTION, {"x"}, set()),
        (PipelineMode.TARGETS, set(), {"y"}),
    ]:
        with subtests.test(mode=mode):
            sample = Sample(inputs={"x": 1, "extra": "ignored"}, targets={"y": 2}, meta={"id": 7})
            batcher = Batcher(*BOTH, mode)
            batch = batcher.batch([sample, sample])
            assert (batch.inputs.keys(), batch.targets.keys()) == (inputs, targets)
            assert (batch.size, batch.meta) == (2, [{"id": 7}, {"id": 7}])
            assert (batcher.needs_inputs, batcher.needs_targets) == (bool(inputs), bool(targets))


def test_a_missing_key_is_named_with_what_is_there(subtests: pytest.Subtests) -> None:
    for inputs, found in [({"a": 1, "b": 2}, r"\['a', 'b'\]"), (None, "of type NoneType"), ([3], "of type list")]:
        with subtests.test(inputs=inputs):
            batcher = Batcher(*BOTH, PipelineMode.PREDICTION)
            with pytest.raises(ValueError, match=rf"a sample lacks inputs\['x'\]; its inputs are {found}"):
                batcher.batch([Sample(inputs=inputs)])


def test_whole_numbers_do_not_wrap_around(subtests: pytest.Subtests) -> None:
    for value, dtype, message in [
        ([[300], [0]], "uint8", "numbers from 0 to 300, expected 0 to 255 for uint8 as in the layer specs"),
        ([[0], [2**40]], "int32", "numbers from 0 to 1099511627776, expected -2147483648 to 2147483647"),
        ([np.array([200], "uint8")], "int8", "numbers from 200 to 200"),
        ([[0.0], [2.0**31]], "int32", "numbers from 0 to 2147483648, expected -2147483648 to 2147483647"),
        ([[1.0], [-2.0]], "bool", "numbers from -2 to 1, expected 0 to 1 for bool"),
    ]:
        with subtests.test(value=value):
            with pytest.raises(ValueError, match=message):
                stack(value, TensorSpec([None], dtype))
            with pytest.raises(ValueError, match="numbers from"):
                stack([value], TensorSpec([None, None], dtype))
            assert stack([[255], [0, 7]], TensorSpec([None], "uint8")).tolist() == [[255, 0], [0, 7]]


def test_whole_numbers_of_different_types_do_not_wrap_around() -> None:
    values = [np.array([5], "int64"), np.array([2**40], "uint64")]  # NumPy joins them as float64
    with pytest.raises(ValueError, match="numbers from 1099511627776 to 1099511627776, expected -2147483648"):
        stack(values, TensorSpec([1], "int32"))


def test_large_numbers_do_not_become_infinite(subtests: pytest.Subtests) -> None:
    for value, dtype in [([1e39], "float32"), ([7e4], "float16"), ([70_000], "float16")]:
        with subtests.test(value=value):
            message = rf"inputs\['x'\] has numbers that are too large for {dtype} as in the layer specs"
            spec, nested = TensorSpec([None], dtype), TensorSpec([None, None], dtype)
            for values, wanted in (([[1], value], spec), ([[1, 2], value], spec), ([[[1, 2], value]], nested)):
                with pytest.raises(ValueError, match=message):
                    stack(values, wanted)
            with pytest.raises(ValueError, match=message):
                Batcher({"x": spec}, {}, {"x": 0}, PipelineMode.PREDICTION).from_stacked(Sample(inputs={"x": [value]}))
            # What is infinite already may stay so.
            assert stack([[np.inf]], spec).tolist() == stack([np.array([np.inf])], spec).tolist() == [[np.inf]]


def test_whole_numbers_of_a_stacked_sample_do_not_wrap_around() -> None:
    batcher = Batcher({"x": TensorSpec([1], "int32")}, {}, {"x": 0}, PipelineMode.PREDICTION)
    with pytest.raises(ValueError, match=r"inputs\['x'\] has numbers from 1 to 4294967296"):
        batcher.from_stacked(Sample(inputs={"x": np.array([[1], [2**32]])}))


def stacked(x: Any, y: Any, meta: Any = None) -> Batch:
    return Batcher(*BOTH, PipelineMode.TRAINING).from_stacked(Sample(inputs={"x": x}, targets={"y": y}, meta=meta))


def test_a_stacked_sample_is_cast_and_gets_meta() -> None:
    batch = stacked(np.ones([2, 1]), np.zeros([2, 1], "int8"))
    assert batch.inputs["x"].dtype == batch.targets["y"].dtype == np.float32
    assert batch.meta == [None, None]
    assert stacked([[1]], [[2]], meta=("m",)).meta == ["m"]


def test_stacked_samples_are_checked(subtests: pytest.Subtests) -> None:
    for x, y, meta, message in [
        ([[1]], [[1], [2]], None, r"different numbers of samples: \{'x': 1, 'y': 2\}"),
        ([[1]], [[1]], ["a", "b"], "the meta of a batch has 2 entries, its arrays 1"),
        ([1], [[1]], None, r"inputs\['x'\] has shape \[1\], expected \['batch', 1\]"),
        (1, [[1]], None, r"inputs\['x'\] has shape \[\]"),
    ]:
        with subtests.test(x=x), pytest.raises(ValueError, match=message):
            stacked(x, y, meta)


def test_ragged_rows_are_padded() -> None:
    # Two samples: rows of 2 and 1 numbers, and three rows of 0, 1 and 3 numbers.
    batch = stack([[[1, 2], [3]], [[], [4], [5, 6, 7]]], TensorSpec([None, None], "int32"), padding=9)
    assert batch.tolist() == [[[1, 2, 9], [3, 9, 9], [9, 9, 9]], [[9, 9, 9], [4, 9, 9], [5, 6, 7]]]


def test_an_empty_list_is_of_any_type() -> None:
    assert stack([[], [1]], TensorSpec([None], "int32"), padding=7).tolist() == [[7], [1]]
    assert stack([[], ["a"]], TensorSpec([None], "string"), padding="").tolist() == [[""], ["a"]]


def test_ragged_rows_may_be_arrays() -> None:
    rows = [np.ones([2, 2]), np.ones([2, 3])]
    batch = stack([rows], TensorSpec([None, 2, None]), padding=-1)
    assert batch.tolist() == [[[[1, 1, -1]] * 2, [[1, 1, 1]] * 2]]
    objects = np.empty(2, dtype=object)
    objects[:] = [np.array([1.0]), np.array([2.0, 3.0])]
    assert stack([objects], TensorSpec([None, None]), padding=0).tolist() == [[[1, 0], [2, 3]]]


def test_a_single_text() -> None:
    for value in ("ab", np.array("ab"), np.array("ab", object), ["ab"]):
        assert stack([value], TensorSpec([1], "string"), padding="").tolist() == [["ab"]]


def test_ragged_text() -> None:
    words = [[["a", "bc"], ["d"]], [["e"]]]
    batch = stack(words, TensorSpec([None, None], "string"), padding="-")
    assert batch.tolist() == [[["a", "bc"], ["d", "-"]], [["e", "-"], ["-", "-"]]]


def test_ragged_rows_are_checked(subtests: pytest.Subtests) -> None:
    for value, spec, error, message in [
        ([[1, 2], [3]], TensorSpec([None, 3]), ValueError, r"has shape \[2, 2\], expected \[None, 3\]"),
        ([[1, 2], [3]], TensorSpec([None]), ValueError, r"nested deeper than the layer specs \(\[None\]\)"),
        ([[1, 2], [3.5]], TensorSpec([None, None], "int32"), TypeError, "float64 with fractions, expected int32"),
        ([[1, 2], ["a"]], TensorSpec([None, None]), TypeError, "expected float32"),
        ([[1, 2], 3], TensorSpec([None, None]), ValueError, "has rows of different depth"),
        ([[1, 2], None], TensorSpec([None, None]), ValueError, "has rows of different depth"),
    ]:
        with subtests.test(value=value), pytest.raises(error, match=message):
            stack([value], spec, padding=0)
