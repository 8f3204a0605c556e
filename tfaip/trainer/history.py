"""What happened in every epoch: the one source for the best model, resume, summaries and plots."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfaip.errors import TfaipError
from tfaip.util.typing import Logs


@dataclass
class EpochRecord:
    """One epoch.

    Args:
        lr: the learning rate.
        values: everything that was logged, by name.
        meta: anything else that describes the epoch (updates so far, seconds).
    """

    lr: float
    values: Logs = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)


class History:
    """Records of epochs, counted from 1."""

    def __init__(self, records: Mapping[int, EpochRecord] | None = None) -> None:
        self._records = dict(sorted((records or {}).items()))

    def __len__(self) -> int:
        return len(self._records)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and self._records == other._records

    def __getitem__(self, epoch: int) -> EpochRecord:
        return self._records[epoch]

    @property
    def epochs(self) -> list[int]:
        """The recorded epochs, ascending."""
        return list(self._records)

    def record(self, epoch: int, record: EpochRecord) -> None:
        """Set the record of an epoch."""
        self._records[epoch] = record
        self._records = dict(sorted(self._records.items()))

    def value(self, epoch: int, name: str) -> float | None:
        """A logged value of an epoch; None if it was not logged there."""
        record = self._records.get(epoch)
        return None if record is None else record.values.get(name)

    def best_epoch(self, name: str, mode: str) -> int | None:
        """The first epoch with the best finite value of `name`; None if there is no such value.

        Args:
            name: name of a logged value.
            mode: "min" or "max".
        """
        sign = -1.0 if mode == "max" else 1.0
        scores = {e: sign * r.values[name] for e, r in self._records.items() if name in r.values}
        finite = {epoch: score for epoch, score in scores.items() if math.isfinite(score)}
        return min(finite, key=finite.__getitem__) if finite else None

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form: epoch (as text) -> {lr, values, meta}."""
        return {str(e): {"lr": r.lr, "values": dict(r.values), "meta": dict(r.meta)} for e, r in self._records.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> History:
        """Inverse of `to_dict`.

        Raises:
            TfaipError: the data has another form.
        """
        try:
            return cls({int(e): EpochRecord(r["lr"], dict(r["values"]), dict(r["meta"])) for e, r in data.items()})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise TfaipError(f"not a history (expected epoch -> lr, values, meta): {error!r}") from error
