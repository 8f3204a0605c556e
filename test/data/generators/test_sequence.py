"""Rows of arrays, and data sets of other libraries."""

import copy
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

from test.data.support import epoch, make_pipeline, row
from tfaip import PipelineMode, Sample
from tfaip.data.generators.sequence import ArrayDataGenerator, DatasetGenerator
from tfaip.data.pipeline.datagenerator import RawDataGeneratorParams
from tfaip.errors import UsageError


class Arrays(ArrayDataGenerator[Any]):
    loads = 0

    def load(self) -> Sample:
        self.loads += 1
        return self.params


def arrays(**parts: Any) -> Arrays:
    return Arrays(PipelineMode.TRAINING, Sample(**parts))


def test_rows_are_samples_and_batches_are_rows_in_any_order() -> None:
    made = arrays(inputs={"x": np.array([[1], [2], [3]])}, targets={"y": np.array([4, 5, 6])}, meta=["a", "b", "c"])
    assert made.has_random_access()
    assert len(made) == 3
    sample, batch = made[1], made.get_batch(np.array([2, 0, 2]))
    assert (sample.inputs["x"].tolist(), sample.targets["y"], sample.meta) == ([2], 5, "b")
    assert (batch.inputs["x"].tolist(), batch.targets["y"].tolist()) == ([[3], [1], [3]], [6, 4, 6])
    assert batch.meta == ["c", "a", "c"]
    assert made.loads == 1
    for part in ("inputs", "targets"):
        (alone,) = arrays(**{part: {"x": np.zeros([1, 1])}}).generate()
        assert (alone.meta, alone.inputs is None, alone.targets is None) == (None, part != "inputs", part == "inputs")
    for parts, sizes in [
        ({"inputs": {"x": np.zeros(3)}, "targets": {"y": np.zeros(2)}}, "{'x': 3, 'y': 2}"),
        ({"inputs": {"x": np.zeros(3)}, "meta": ["a"]}, "{'x': 3, 'meta': 1}"),
        ({}, "{}"),
    ]:
        with pytest.raises(ValueError, match="arrays of different length, or none: " + sizes):
            len(arrays(**parts))


COLUMNS: dict[str, Any] = {"input_columns": ["x"], "target_columns": ["y"]}


class Tensor:
    """As a tensor: no array, but it can be made one."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return np.asarray(self._values, dtype)


class Rows:
    """Rows as dicts of plain values, with a column that nobody asks for; only the length says where they end."""

    def __len__(self) -> int:
        return 9

    def __getitem__(self, index: int) -> Any:
        return {"x": row(index % 9).inputs["x"].tolist(), "y": index % 9, "text": "unused"}


class Pairs(Rows):
    """Rows as tuples of tensors."""

    def __getitem__(self, index: int) -> Any:
        return Tensor(row(index).inputs["x"]), Tensor(index)


class IterableDataset(Rows):
    """As a stream of PyTorch: it inherits an index that only raises."""

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        return iter(LIST)


class Stream:
    """As a stream of Hugging Face: without a length."""

    def __iter__(self) -> Iterator[Any]:
        return iter(LIST)


class Handle(Rows):
    """As a data set with an open file."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("cannot pickle an open file")


LIST = [Rows()[index] for index in range(9)]
EXPECTED = [row(value).new_meta({"row": value}) for value in range(9)]


@pytest.mark.parametrize(
    "dataset",
    [
        *[pytest.param(rows, marks=pytest.mark.slow) for rows in (Rows(), Pairs())],
        *[IterableDataset(), Stream(), LIST, EXPECTED, [(item["x"], item["y"]) for item in LIST]],
    ],
)
def test_equal_samples_with_any_number_of_workers_and_from_any_position(dataset: Any) -> None:
    def made(source: Any, workers: int, *place: Any) -> list[Any]:
        return epoch(make_pipeline(source, num_processes=workers, batch_size=4), *place)

    source, expected = DatasetGenerator(dataset=dataset, **COLUMNS), made(EXPECTED, 0)
    assert made(source, 0) == made(source, 2) == expected
    assert made(source, 0, expected[2][1], 48) == expected[3:]


def test_copies_share_the_data_set_and_files_do_not_have_it() -> None:
    params = DatasetGenerator(dataset=Handle(), **COLUMNS)
    other = copy.deepcopy({"train": params})["train"]
    assert other == params
    assert other.dataset is params.dataset
    assert other.input_columns is not params.input_columns
    assert DatasetGenerator.from_dict(params.to_dict()) == DatasetGenerator(**COLUMNS)


def test_the_length_is_that_of_the_data_set() -> None:
    assert len(DatasetGenerator(dataset=IterableDataset(), **COLUMNS).create(PipelineMode.TRAINING)) == 9
    with pytest.raises(TypeError, match="not known"):
        len(DatasetGenerator(dataset=Stream(), **COLUMNS).create(PipelineMode.TRAINING))
    for params in (DatasetGenerator(dataset=Rows(), **COLUMNS), RawDataGeneratorParams(samples=Rows())):
        assert len(list(islice(params.create(PipelineMode.EVALUATION).generate(), 20))) == 9


class Numbers(DatasetGenerator):
    """Opens a data set of its own, whose items have another form."""

    count: int = 3

    def open_items(self) -> Any:
        return range(self.count)

    def sample(self, item: Any) -> Sample:
        return Sample(inputs={"x": [item, item]}, meta="own")


def test_items_of_another_form() -> None:
    samples = list(Numbers().create(PipelineMode.PREDICTION).generate())
    assert [(sample.inputs, sample.meta) for sample in samples] == [({"x": [n, n]}, "own") for n in range(3)]


@pytest.mark.parametrize(
    ("dataset", "columns", "message"),
    [
        (None, COLUMNS, r"has no data set, which only Python can give .* create_trainer\(params, r"),
        (iter(LIST), COLUMNS, r"is a list_iterator: .* one that begins again with each iter\(\)$"),
        (7, COLUMNS, "is a int: expected one data set of single items, with a length and an index"),
        ([{"a": 1, "b": 2}], COLUMNS, "has no column x, y: it has 'a', 'b'"),
        ([(1, 2, 3)], COLUMNS, "has 3 values, expected 2: x, y"),
    ],
)
def test_what_is_no_data_set(dataset: Any, columns: dict[str, Any], message: str) -> None:
    with pytest.raises((UsageError, ValueError), match=message):
        DatasetGenerator(dataset=dataset, **columns).create(PipelineMode.TRAINING)[0]  # type: ignore[index]
