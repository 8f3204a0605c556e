"""Samples that are the rows of arrays in memory: the fastest source."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from tfaip.data.pipeline.datagenerator import DataGenerator, DataGeneratorParams
from tfaip.data.pipeline.definitions import Sample

if TYPE_CHECKING:
    import numpy as np

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
