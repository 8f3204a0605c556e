"""Samples of an object with a length and items, as data sets of Hugging Face and PyTorch are."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from tfaip.data.pipeline.datagenerator import Generator
from tfaip.data.pipeline.definitions import Sample


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
