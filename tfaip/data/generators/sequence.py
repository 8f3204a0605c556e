"""Samples given in Python: rows of arrays, and data sets with items, as those of Hugging Face and PyTorch."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tfaip.data.pipeline.datagenerator import (
    DataGenerator,
    DataGeneratorParams,
    Generator,
    columns_of,
    require_columns,
    sample_of,
)
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.errors import UsageError
from tfaip.params import option
from tfaip.params.fields import pai_meta

if TYPE_CHECKING:
    import numpy as np


class SequenceGenerator(Generator):
    """Generator over anything that has `len(items)` and `items[index]`. Override `open_items` and `sample`."""

    def open_items(self) -> Any:
        """Return the object. Called once in each process, when the first sample is needed."""
        raise NotImplementedError(f"override open_items in {type(self).__name__}")

    def sample(self, item: Any) -> Sample:
        """Return the sample of an item."""
        raise NotImplementedError(f"override sample in {type(self).__name__}")

    @cached_property
    def _items(self) -> Any:
        return self.open_items()

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Sample:
        return self.sample(self._items[index])


class DatasetGenerator(SequenceGenerator):
    """The items of a data set that is given in Python.

        params.gen.train = DatasetGenerator(dataset=rows, input_columns=["image"], target_columns=["label"])

    An item is a dict with these columns, a tuple that has a value for each of them in this order, or
    a `Sample`. Override `sample` for others. A data set with a length and an index has random access.
    One that can only be iterated is iterated anew in each pass, and must give the same items again.

    The params of a run are stored without the data set: Python gives it again to continue the run.
    """

    dataset: Any = dataclasses.field(
        default=None, metadata=pai_meta(help="The data set, only from Python", mode="ignore") | {"is_stored": False}
    )
    input_columns: list[str] = option([], "Columns that are inputs", common=True)
    target_columns: list[str] = option([], "Columns that are targets", common=True)

    def open_items(self) -> Any:
        """Return the data set; a subclass may open it here, from fields of its own."""
        name, dataset = type(self).__name__, self.dataset
        if dataset is None:
            raise UsageError(
                f"{name} has no data set, which only Python can give ({name}(dataset=...)) and which is not stored "
                "with a run: continue a run in Python, with create_trainer(params, restore=True)"
            )
        is_iterable = _has_random_access(dataset) or isinstance(dataset, Iterable)
        if not is_iterable or isinstance(dataset, Mapping | Iterator):
            raise UsageError(
                f"the dataset of {name} is a {type(dataset).__name__}: expected one data set of single items, with a "
                "length and an index, or one that begins again with each iter()"
            )
        return dataset

    def sample(self, item: Any) -> Sample:
        """Return the sample of an item; tensors and images become arrays.

        Raises:
            UsageError, ValueError: if the item lacks a column, or has another form.
        """
        if isinstance(item, Sample):
            return item
        values = {name: _value(value) for name, value in self._columns(item).items()}
        return sample_of(values, self, self.mode)

    def _columns(self, item: Any) -> dict[str, Any]:
        """Return the values of an item by column."""
        columns = columns_of(self)
        if isinstance(item, Mapping):
            require_columns(self, self.mode, item, "an item of the data set")
            return {name: item[name] for name in columns if name in item}
        if not isinstance(item, tuple | list):  # the rows of an array, or the letters of a text, are no columns
            raise ValueError(f"an item of the data set is {type(item).__name__}, expected a dict or a tuple")
        if self.mode is PipelineMode.PREDICTION and len(item) == len(self.input_columns):
            columns = list(self.input_columns)  # without targets
        if len(item) != len(columns):
            raise ValueError(
                f"an item of the data set has {len(item)} values, expected {len(columns)}: {', '.join(columns)}"
            )
        return dict(zip(columns, item, strict=True))

    def in_memory(self) -> bool:
        """Return True for a list: workers get its items instead of a copy of all."""
        return isinstance(self._items, list | tuple | _Rows)

    def has_random_access(self) -> bool:
        """Return True if the data set has it."""
        return _has_random_access(self._items)

    def __len__(self) -> int:
        return len(self._items) if hasattr(self._items, "__len__") else DataGenerator.__len__(self)

    def __getitem__(self, index: int) -> Sample:
        return self._numbered(index, self._items[index])

    def generate(self) -> Iterable[Sample]:
        if self.has_random_access():  # a data set of PyTorch may have no other end than its length
            return super().generate()
        return (self._numbered(row, item) for row, item in enumerate(self._items))

    def _numbered(self, row: int, item: Any) -> Sample:
        """Return the sample of an item; its number is its meta unless it has another."""
        sample = self.sample(item)
        return sample.new_meta({"row": row}) if sample.meta is None else sample

    if not TYPE_CHECKING:  # see Part

        def __setattr__(self, name: str, value: Any) -> None:
            is_list = name == "dataset" and isinstance(value, list | tuple)
            super().__setattr__(name, _Rows(value) if is_list else value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a copy that shares the data set, which may be large, or have open files."""
        memo[id(self.dataset)] = self.dataset
        new = copy.copy(self)
        vars(new).update(copy.deepcopy(vars(new), memo))
        return new


class _Rows(Sequence[Any]):
    """A list that is no part of the tree of params, whose walks would visit every number in it."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]


def _has_random_access(dataset: Any) -> bool:
    if any(base.__name__ == "IterableDataset" for base in type(dataset).__mro__):
        return False  # those of PyTorch inherit an index that only raises
    return hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")


def _value(value: Any) -> Any:
    """Return a tensor or an image as an array, other values as they are."""
    import numpy as np  # not at the top: params modules import this one

    is_array = hasattr(value, "__array__") or hasattr(value, "__array_interface__")
    return np.asarray(value) if is_array else value


P = TypeVar("P", bound=DataGeneratorParams)


class ArrayDataGenerator(DataGenerator[P]):
    """Data that fits into memory as arrays. Override `load`.

    Without processors whole batches are cut from the arrays at once.
    """

    def load(self) -> Sample:
        """Return all samples as one. Called once, when the first sample is needed.

        Inputs and targets are dicts of arrays of shape `[number of samples, ...]`, or None; meta is
        a list with one entry per sample, or None.
        """
        raise NotImplementedError(f"override load in {type(self).__name__}")

    @cached_property
    def _loaded(self) -> tuple[Sample, int]:
        """All samples, and their number."""
        data = self.load()
        columns = {**(data.inputs or {}), **(data.targets or {})}
        if data.meta is not None:
            columns["meta"] = data.meta
        sizes = {key: len(column) for key, column in columns.items()}
        if len(set(sizes.values())) != 1:
            raise ValueError(f"{type(self).__name__}.load gave arrays of different length, or none: {sizes}")
        return data, next(iter(sizes.values()))

    def __len__(self) -> int:
        return self._loaded[1]

    def in_memory(self) -> bool:
        return True

    def __getitem__(self, index: int) -> Sample:
        """Return row `index` of each array, as views."""
        sample = self._picked(index)
        if sample.meta is not None:
            sample.meta = sample.meta[index]
        return sample

    def get_batch(self, indices: np.ndarray[Any, Any]) -> Sample:
        """Return the rows at `indices` as one sample, see `BatchAccess`."""
        sample = self._picked(indices)
        if sample.meta is not None:
            sample.meta = [sample.meta[index] for index in indices]
        return sample

    def _picked(self, rows: Any) -> Sample:
        """Return a copy of all samples with only these rows of inputs and targets."""
        sample = self._loaded[0].copy()
        if sample.inputs is not None:
            sample.inputs = {key: array[rows] for key, array in sample.inputs.items()}
        if sample.targets is not None:
            sample.targets = {key: array[rows] for key, array in sample.targets.items()}
        return sample
