"""What happened in every epoch: the one source for rate control, best model, early stopping, resume and plots."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfaip.errors import TfaipError, UsageError
from tfaip.trainer.scores import absolute_difference, relative_difference
from tfaip.util.typing import Logs


@dataclass
class EpochRecord:
    """One epoch.

    Args:
        lr: the learning rate; None if nobody has set it.
        values: everything that was logged, by name.
        meta: anything else that describes the epoch: updates so far, seconds, position of the data, versions.
        effective_lr: mean of the rates of the epoch's updates.
    """

    lr: float | None = None
    values: Logs = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    effective_lr: float | None = None


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

    def names(self) -> list[str]:
        """The names of all values, sorted."""
        return sorted({name for record in self._records.values() for name in record.values})

    def record(self, epoch: int, record: EpochRecord) -> None:
        """Set the record of an epoch."""
        self._records[epoch] = record
        self._records = dict(sorted(self._records.items()))

    def set_default_rate(self, epoch: int, rate: float) -> float:
        """Set the learning rate of an epoch, unless it has one; returns the one that it has now."""
        record = self._records.get(epoch, EpochRecord())
        if record.lr is None:
            record.lr = rate
            self.record(epoch, record)
        return record.lr

    def set_values(self, epoch: int, values: Mapping[str, float]) -> None:
        """Add values to an epoch, which may be known already; a value of the same name is replaced."""
        record = self._records.get(epoch, EpochRecord())
        record.values.update(values)
        self.record(epoch, record)

    def value(self, epoch: int, name: str) -> float | None:
        """A logged value of an epoch; None if it was not logged there."""
        return self.values(epoch).get(name)

    def values(self, epoch: int) -> Logs:
        """A copy of all values of an epoch; empty if there is none."""
        record = self._records.get(epoch)
        return {} if record is None else dict(record.values)

    def scores(self, name: str, before: int | None = None) -> dict[int, float]:
        """One value by epoch, ascending, where it was logged; only of epochs below `before`, if given."""
        return {
            epoch: record.values[name]
            for epoch, record in self._records.items()
            if name in record.values and (before is None or epoch < before)
        }

    def last_epoch(self, before: int) -> int | None:
        """The last recorded epoch below `before`; None if there is none."""
        return max((epoch for epoch in self._records if epoch < before), default=None)

    def most_recent_rate(self, epoch: int, exclude_current: bool = True) -> float | None:
        """The learning rate of the last epoch that has one.

        Args:
            epoch: where to look from, backwards.
            exclude_current: begin with the epoch before `epoch`.
        """
        last = epoch - 1 if exclude_current else epoch
        rates = [r.lr for e, r in self._records.items() if e <= last and r.lr is not None]
        return rates[-1] if rates else None

    def absolute_error(self, old: int, new: int, name: str, mode: str = "min") -> float | None:
        """How much worse the value `name` of epoch `new` is than that of epoch `old`; None if one of them has none."""
        a, b = self.value(old, name), self.value(new, name)
        return None if a is None or b is None else absolute_difference(a, b, mode)

    def relative_error(
        self, old: int, new: int, name: str, mode: str = "min", divide_by_old: bool = False
    ) -> float | None:
        """The same divided by the absolute value of epoch `new`, or of epoch `old`.

        See `tfaip.trainer.scores.relative_difference` about zeros, and numbers that are not finite.
        """
        a, b = self.value(old, name), self.value(new, name)
        return None if a is None or b is None else relative_difference(a, b, mode, divide_by_old)

    def best_epoch(
        self,
        name: str,
        mode: str,
        *,
        first: int = 1,
        last: int | None = None,
        only_last_epochs: int | None = None,
        only_last_n: int | None = None,
        worst_value: float | None = None,
        min_distance: float = 0.0,
    ) -> int | None:
        """The first epoch with the best finite value of `name`; None if none remains.

        Args:
            name: name of a logged value.
            mode: "min" or "max".
            first: no epoch before it.
            last: no epoch after it; None: the last recorded one.
            only_last_epochs: of these, only so many epochs up to `last`, whether they have the value or not.
            only_last_n: of those that have a value that counts, only so many last ones.
            worst_value: worse values do not count.
            min_distance: only epochs that are better by so much than the last one of those that remain.
        """
        last = max(self._records, default=0) if last is None else last
        begin = first if only_last_epochs is None else max(first, last - only_last_epochs + 1)
        sign = -1.0 if mode == "max" else 1.0
        limit = math.inf if worst_value is None else sign * worst_value
        found = {epoch: sign * value for epoch, value in self.scores(name).items() if begin <= epoch <= last}
        counting = [(epoch, score) for epoch, score in found.items() if math.isfinite(score) and score <= limit]
        if only_last_n is not None:
            counting = counting[max(len(counting) - only_last_n, 0) :]
        if counting and min_distance > 0:
            latest = counting[-1][1]
            counting = [(epoch, score) for epoch, score in counting if latest - score >= min_distance]
        return min(counting, key=lambda pair: pair[1])[0] if counting else None

    def until(self, epoch: int) -> History:
        """The records up to `epoch`, and those of later epochs that hold nothing but a rate that somebody chose."""
        return History({e: r for e, r in self._records.items() if e <= epoch or not (r.values or r.meta)})

    def edited(self, file: History, epoch: int) -> History:
        """These records of a run, as somebody may have edited them in its history file.

        Args:
            file: what the file holds. A process that was killed may have written fewer epochs than its checkpoint.
            epoch: completed epochs; what the file records of later ones is dropped.
        """
        written = max((e for e, r in file._records.items() if r.values or r.meta), default=0)
        missing = {e: r for e, r in self._records.items() if written < e <= epoch}
        return History({**file.until(epoch)._records, **missing})

    def rates_only(self) -> History:
        """The rates alone: chosen for epochs that are still to come."""
        return History({e: EpochRecord(r.lr) for e, r in self._records.items() if r.lr is not None})

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form: epoch (as text) -> {lr, effective_lr, values, meta}."""
        return {
            str(e): {"lr": r.lr, "effective_lr": r.effective_lr, "values": dict(r.values), "meta": dict(r.meta)}
            for e, r in self._records.items()
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> History:
        """Inverse of `to_dict`; what is missing in an epoch is empty.

        Raises:
            TfaipError: the data has another form.
        """
        try:
            return cls({_epoch(key): _record(value) for key, value in data.items()})
        except (AttributeError, TypeError, ValueError) as error:
            raise TfaipError(f"not a history (expected epoch -> lr, effective_lr, values, meta): {error}") from error


def read_history(path: str | Path) -> History:
    """Read a `history.json`.

    Args:
        path: of the file.

    Raises:
        UsageError: the file cannot be read, or holds something else.
    """
    path = Path(path)
    try:
        return History.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, TfaipError) as error:
        raise UsageError(f"{path}: {error}") from error


def _epoch(key: str) -> int:
    epoch = int(key)
    if epoch < 1:
        raise ValueError(f"epoch {key}: epochs count from 1")
    return epoch


def _record(data: Mapping[str, Any]) -> EpochRecord:
    unknown = sorted(set(data) - {"lr", "effective_lr", "values", "meta"})
    if unknown:
        raise ValueError(f"unknown {', '.join(unknown)}")
    values = {name: _number(value) for name, value in data.get("values", {}).items()}
    rates = {name: None if data.get(name) is None else _rate(data[name]) for name in ("lr", "effective_lr")}
    return EpochRecord(rates["lr"], values, dict(data.get("meta", {})), rates["effective_lr"])


def _rate(value: Any) -> float:
    if not 0 <= _number(value) < math.inf:
        raise ValueError(f"learning rate {value}")
    return float(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return float(value)
