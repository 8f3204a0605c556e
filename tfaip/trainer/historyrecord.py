"""Record of one epoch in a history, and its JSON form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfaip.util.reading import is_shallow, parse_whole_number
from tfaip.util.text import shorten
from tfaip.util.typing import Logs


@dataclass(slots=True)
class EpochRecord:
    """Record of one epoch.

    Args:
        lr: the learning rate; None if it is not set yet.
        values: all logged values by name.
        meta: further facts: updates so far, seconds, position of the data, versions, stage.
        effective_lr: mean of the rates of the epoch's updates.
    """

    lr: float | None = None
    values: Logs = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    effective_lr: float | None = None

    @property
    def is_held(self) -> bool:
        """True if the stage of the epoch held the rate: then no control counts its scores."""
        return self.meta.get("rate_control") is False

    @property
    def is_trained(self) -> bool:
        """True if the epoch was trained; else the record is a rate that the user has chosen for it."""
        return bool(self.values or self.meta)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, which later changes of the record do not reach."""
        return {"lr": self.lr, "effective_lr": self.effective_lr, "values": dict(self.values), "meta": dict(self.meta)}

    @classmethod
    def from_dict(cls, data: Any) -> EpochRecord:
        """Return the record of a dictionary in the form of `to_dict`; what is missing is empty.

        Raises:
            TypeError, ValueError: if the data has another form.
        """
        unknown = _mapping(data).keys() - {"lr", "effective_lr", "values", "meta"}
        if unknown:
            raise ValueError(f"unknown {shorten(sorted(unknown))}")
        values, meta = _mapping(data.get("values", {})), _mapping(data.get("meta", {}))
        if not is_shallow(meta):
            raise ValueError("meta is nested too deeply")
        return cls(
            lr=_rate(data.get("lr"), "lr"),
            values={name: _number(value, name) for name, value in values.items()},
            meta=dict(meta),
            effective_lr=_rate(data.get("effective_lr"), "effective_lr"),
        )


def parse_epoch(key: Any) -> int:
    """Return the number of an epoch, which is a text in a file.

    Raises:
        ValueError: if it is not such a number.
    """
    epoch = parse_whole_number(key) if isinstance(key, str) else None
    if epoch is None or epoch < 1:
        raise ValueError("epochs count from 1 and have at most nine digits")
    return epoch


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"got {shorten(value)}")
    return value


def _rate(value: Any, name: str) -> float | None:
    if value is None:
        return None
    rate = _number(value, name)
    if not 0 <= rate < math.inf:
        raise ValueError(f"{name} is {shorten(value)}, expected a finite rate from 0")
    return rate


def _number(value: Any, name: str) -> float:
    if type(value) is float:  # nearly all of them, in files of many thousand numbers
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{shorten(name)} is {shorten(value)}, expected a number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{shorten(name)} is {shorten(value)}, which is too large") from None
