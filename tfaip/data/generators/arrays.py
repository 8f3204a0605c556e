"""Samples that are the rows of arrays in memory: the fastest source."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.definitions import Sample

if TYPE_CHECKING:
    import numpy as np

P = TypeVar("P", bound=DataGeneratorParams)
Columns: TypeAlias = tuple[tuple[str, Any], ...] | None


class ArrayDataGenerator(DataGenerator[P]):
    """Data that fits into memory as arrays. Override `load`.

    Without processors whole batches are cut from the arrays at once.
    """

    def load(self) -> Sample:
        """All samples as one. Called once, when the first sample is needed.

        Inputs and targets are dicts of arrays of shape `[number of samples, ...]`, or None; meta is a list
        with one entry per sample, or None.
        """
        raise NotImplementedError(f"override load in {type(self).__name__}")

    @cached_property
    def _data(self) -> Sample:
        data = self.load()
        sizes = {key: len(array) for part in (data.inputs, data.targets) for key, array in (part or {}).items()}
        if data.meta is not None:
            sizes["meta"] = len(data.meta)
        if len(set(sizes.values())) != 1:
            raise ValueError(f"{type(self).__name__}.load gave arrays of different length, or none: {sizes}")
        return data

    @cached_property
    def _columns(self) -> tuple[Columns, Columns, Any]:
        """The parts in the form that is read fastest."""
        inputs, targets = (None if p is None else tuple(p.items()) for p in (self._data.inputs, self._data.targets))
        return inputs, targets, self._data.meta

    @cached_property
    def _size(self) -> int:
        data = self._data
        columns = [*(data.inputs or {}).values(), *(data.targets or {}).values()]
        return len(columns[0] if columns else data.meta)

    def __len__(self) -> int:
        return self._size

    def in_memory(self) -> bool:
        return True

    def __getitem__(self, index: int) -> Sample:
        """The row `index` of each array, as views."""
        inputs, targets, meta = self._columns
        return Sample(
            inputs=None if inputs is None else {key: array[index] for key, array in inputs},
            targets=None if targets is None else {key: array[index] for key, array in targets},
            meta=None if meta is None else meta[index],
        )

    def get_batch(self, indices: np.ndarray[Any, Any]) -> Sample:
        """The rows at `indices` as one sample with a leading dimension, see `BatchAccess`."""
        data = self._data
        return Sample(
            inputs=_pick(data.inputs, indices),
            targets=_pick(data.targets, indices),
            meta=None if data.meta is None else [data.meta[index] for index in indices],
        )


def _pick(part: dict[str, Any] | None, rows: Any) -> dict[str, Any] | None:
    return None if part is None else {key: array[rows] for key, array in part.items()}
