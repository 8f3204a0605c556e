"""Positions in the stream of samples, as checkpoints store them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tfaip.data.pipeline.failures import Dropped
from tfaip.util.text import shorten

_ZEROS = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Position:
    """State of the stream after a sample.

    Args:
        pass_index: the pass over the data, from 0.
        consumed: raw samples of this pass that were read.
        emitted: processed samples of this pass that were given out.
        pending: those among them that still wait in a bucket for their batch, by
            `SampleStream.number`.
        failed: number of samples of this pass that failed (`on_error skip:N`).
        dropped: numbers of samples that were left out so far, in all passes: invalid, too long,
            failed. They say nothing about the place and are not compared.
    """

    pass_index: int = 0
    consumed: int = 0
    emitted: int = 0
    pending: tuple[int, ...] = ()
    failed: int = 0
    dropped: Dropped = field(default=_ZEROS, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form; without `failed` and `dropped` if there are none."""
        values = {**asdict(self), "pending": list(self.pending)}
        del values["failed"], values["dropped"]
        if self.failed:
            values["failed"] = self.failed
        if self.dropped != _ZEROS:
            values["dropped"] = list(self.dropped)
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Position:
        """Read the output of `to_dict`.

        Raises:
            ValueError: if a key is missing or unknown, or a value is not a number from 0.
        """
        given = {"failed": 0, "dropped": list(_ZEROS), **values}
        if given.keys() == _DEPTHS.keys():
            with contextlib.suppress(ValueError):  # raised below
                position = cls(**{name: _whole_numbers(given[name], depth) for name, depth in _DEPTHS.items()})
                if len(position.dropped) == len(_ZEROS):
                    return position
        raise ValueError(
            f"a data position needs {list(_DEPTHS)}, each a whole number from 0 (pending: a list, "
            f"dropped: three), got {shorten(dict(values))}"
        )


_DEPTHS = {"pass_index": 0, "consumed": 0, "emitted": 0, "pending": 1, "failed": 0, "dropped": 1}
"""Depth of the nested lists of numbers in the JSON form of a position."""


def _whole_numbers(value: Any, depth: int) -> Any:
    """Return the number, or the nested lists of numbers as tuples."""
    if depth and isinstance(value, list):
        return tuple(_whole_numbers(item, depth - 1) for item in value)
    if depth or type(value) is not int or value < 0:
        raise ValueError(f"{shorten(value)} is no whole number from 0")
    return value
