"""History of a training: the one source for rate control, best model, early stopping, resume and plots."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from ctypes import c_float
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.errors import UsageError
from tfaip.util.chart import Curve, draw
from tfaip.util.reading import RECORDS_BYTES, parse_json, parse_whole_number, read_text
from tfaip.util.text import shorten, shorten_text
from tfaip.util.typing import Logs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Key in the meta of an epoch: marks of what does not compare later epochs with this one, since a resume.
ENDED = "ended"
_MEASURED_ON = re.compile(r"^(?:val_|lav_l\d+_)")
_NO_HISTORY = "not a history (expected epoch -> lr, effective_lr, values, meta)"
# The parser of Python takes about 1.5 kB of memory for each name, number and bracket.
_MOST_WORDS = 300_000
_NUMBER = re.compile(r"float|(np|numpy)\.(float16|float32|float64|int32|int64)")
_NOT_FINITE = re.compile(r"(?:(?:np|numpy|math)\.)?(nan|inf|infinity)", re.IGNORECASE)


def absolute_difference(old: float, new: float, mode: str = "min") -> float:
    """Return by how much `new` is worse than `old`; what is not finite is worse than all that is."""
    if not math.isfinite(new):
        return math.inf
    if not math.isfinite(old):
        return -math.inf
    return old - new if mode == "max" else new - old


def relative_difference(old: float, new: float, mode: str = "min", divide_by_old: bool = False) -> float:
    """Return `absolute_difference` divided by |new|, or by |old|; by 0: 0 if both are equal, else +-inf."""
    difference = absolute_difference(old, new, mode)
    return difference if math.isinf(difference) else quotient(difference, abs(old if divide_by_old else new))


def quotient(number: float, divisor: float) -> float:
    """Return `number / divisor` for a divisor from 0: 0 stays 0, anything else by 0 is +-inf."""
    if divisor > 0 or number == 0:
        return number / (divisor or 1.0)
    return math.copysign(math.inf, number)


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

    @classmethod
    def from_dict(cls, data: Any) -> EpochRecord:
        """Return the record of parsed JSON, else raise TypeError or ValueError."""
        record = cls(**_mapping(data))
        record.lr, record.effective_lr = _rate(record.lr, "lr"), _rate(record.effective_lr, "effective_lr")
        record.values = {name: _number(value, name) for name, value in _mapping(record.values).items()}
        record.meta = dict(_mapping(record.meta))
        return record


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"got {shorten(value)}")
    return value


def _rate(value: Any, name: str) -> float | None:
    rate = None if value is None else _number(value, name)
    if rate is not None and not 0 <= rate < math.inf:
        raise ValueError(f"{name} is {shorten(value)}, expected a finite rate from 0")
    return rate


def _number(value: Any, name: str) -> float:
    if type(value) is float:  # nearly all of them, in files of many thousand numbers
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{shorten(name)} is {shorten(value)}, expected a number")
    return float(value)


class History:
    """Records of epochs, counted from 1. They change only through its methods.

    What a training does with it in each epoch takes a few milliseconds, also after thousands of epochs.
    """

    is_returnn = False
    """True if it was read from a file of RETURNN, which is never replaced."""

    def __init__(self, records: Mapping[int, EpochRecord] | None = None) -> None:
        self._records = dict(sorted((records or {}).items()))  # ascending
        self._has_held = any(record.is_held for record in self._records.values())
        self._lines: dict[int, str] = {}  # texts of epochs that were asked for before

    def __len__(self) -> int:
        return len(self._records)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and self._records == other._records

    def __getitem__(self, epoch: int) -> EpochRecord:
        return self._records[epoch]

    def __contains__(self, epoch: int) -> bool:
        return epoch in self._records

    @property
    def epochs(self) -> list[int]:
        """Recorded epochs, ascending."""
        return list(self._records)

    def names(self) -> list[str]:
        """Return the names of all values, sorted."""
        return sorted({name for record in self._records.values() for name in record.values})

    def record(self, epoch: int, record: EpochRecord) -> None:
        """Set the record of an epoch."""
        is_in_order = epoch in self._records or epoch > next(self._backwards(math.inf), 0)
        self._records[epoch] = record
        self._has_held = self._has_held or record.is_held
        self._lines.pop(epoch, None)
        if not is_in_order:
            self._records = dict(sorted(self._records.items()))

    def set_default_rate(self, epoch: int, rate: float) -> float:
        """Set the learning rate of an epoch unless it has one; return the resulting rate."""
        record = self._records.get(epoch, EpochRecord())
        if record.lr is None:  # else the user has chosen it
            record.lr = rate
            self.record(epoch, record)
        return record.lr

    def set_values(self, epoch: int, values: Mapping[str, float]) -> None:
        """Add values to an epoch, recorded or not; a value of the same name is replaced."""
        record = self._records.get(epoch, EpochRecord())
        record.values.update(values)
        self.record(epoch, record)

    def value(self, epoch: int, name: str) -> float | None:
        """Return a logged value of an epoch, or None if it was not logged there."""
        return self.values(epoch).get(name)

    def values(self, epoch: int) -> Logs:
        """Return a copy of all values of an epoch; empty if there is none."""
        return dict(self._records.get(epoch, EpochRecord()).values)

    def columns(self) -> dict[str, list[float]]:
        """Return the history as a table, e.g. for `pandas.DataFrame`: `epoch`, `lr`, and all values by name.

        Returns:
            Lists of equal length, an item for each epoch; NaN stands for what an epoch does not have.
        """
        table: dict[str, list[float]] = {"epoch": list(self._records)}
        table["lr"] = [math.nan if record.lr is None else record.lr for record in self._records.values()]
        for name in self.names():
            table[name] = [record.values.get(name, math.nan) for record in self._records.values()]
        return table

    def plot(self, *names: str) -> Figure:
        """Draw values by epoch, those of training, validation and LAV in one panel; a notebook shows the figure.

        Args:
            names: the panels: `loss` draws `loss`, `val_loss` and `lav_l0_loss`, and `lr` the rate; none: all of them.

        Raises:
            UsageError: if matplotlib is not installed, or there is no such panel.
        """
        table = {name: column for name, column in self.columns().items() if "loss/mean_epoch" not in name}
        epochs = table.pop("epoch")
        panels: dict[str, dict[str, Curve]] = {}
        # The loss is first, the rate last; in a panel the training is first.
        for name in sorted(table, key=lambda name: (name == "lr", name != "loss", bool(_MEASURED_ON.match(name)))):
            points = [point for point in zip(epochs, table[name], strict=True) if math.isfinite(point[1])]
            panels.setdefault(_MEASURED_ON.sub("", name), {})[name] = points
        if unknown := {*names} - {*panels}:
            expected = shorten_text(", ".join(panels), 200)
            raise UsageError(f"plot: there is no panel {min(unknown)!r}, expected some of: {expected}")
        return draw("epoch", {name: panels[name] for name in names or panels})

    def scores(self, name: str, before: float = math.inf) -> dict[int, float]:
        """Return one value by epoch, ascending, where it was logged; only of epochs below `before`."""
        return {epoch: r.values[name] for epoch, r in self._records.items() if epoch < before and name in r.values}

    def last_epoch(self, before: int) -> int | None:
        """Return the last recorded epoch below `before`, or None."""
        return next(self._backwards(before), None)

    def most_recent_rate(self, epoch: int, exclude_current: bool = True) -> float | None:
        """Return the learning rate of the last epoch that has one, or None.

        Args:
            epoch: last epoch to consider.
            exclude_current: consider only epochs before `epoch`.
        """
        end = epoch if exclude_current else epoch + 1
        rates = (self._records[known].lr for known in self._backwards(end))
        return next((rate for rate in rates if rate is not None), None)

    def epoch_after(self, mark: str) -> int:
        """Return the epoch after the last one whose meta has a mark in `ENDED`; 1 if there is none."""
        marked = (epoch for epoch in self._backwards(math.inf) if mark in str(self._records[epoch].meta.get(ENDED)))
        return next(marked, 0) + 1

    def last_evaluated(self, name: str, count: int, before: int) -> list[int]:
        """Return the last `count` epochs below `before` where a value was logged, ascending.

        Controls call it in each epoch: it takes time only for the epochs that it passes.
        """
        found = (epoch for epoch in self._backwards(before) if name in self._records[epoch].values)
        return list(islice(found, min(count, len(self))))[::-1]

    def error_key(self, epoch: int, names: str | Sequence[str]) -> str | None:
        """Return the first of several names under which a value of an epoch was logged, or None.

        Args:
            names: the monitored values, see `FeedbackParams.monitored`.
        """
        values = self.values(epoch)
        return next((name for name in ([names] if isinstance(names, str) else names) if name in values), None)

    def error(self, epoch: int, names: str | Sequence[str]) -> tuple[str, float] | None:
        """Return the name that `error_key` finds and its value, or None."""
        key = self.error_key(epoch, names)
        return None if key is None else (key, self._records[epoch].values[key])

    def _backwards(self, before: float) -> Iterator[int]:
        """Return the recorded epochs below `before`, the last one first."""
        return (epoch for epoch in reversed(self._records) if epoch < before)

    def relative_error(
        self, old: int, new: int, name: str, mode: str = "min", divide_by_old: bool = False
    ) -> float | None:
        """Return by how much `name` is worse in epoch `new`, see `relative_difference`; None if one has no value."""
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
        """Return the first epoch with the best finite value of `name`, or None if no epoch remains.

        Args:
            name: name of a logged value.
            first: no epoch before it counts.
            last: no epoch after it counts; None: the last recorded one.
            only_last_epochs: of these, only the last n up to `last`, with or without a value.
            only_last_n: of those that have a value that counts, only the last n.
            worst_value: worse values do not count.
            min_distance: only epochs that are better by this than the last one with a value, which need not count.
        """
        last = max(self._records, default=0) if last is None else last
        begin = first if only_last_epochs is None else max(first, last - only_last_epochs + 1)
        sign = -1.0 if mode == "max" else 1.0
        limit = math.inf if worst_value is None else sign * worst_value
        limit = max(limit, c_float(limit).value)  # metrics are rounded to float32
        values = {epoch: value for epoch, value in self.scores(name, last + 1).items() if epoch >= begin}
        scores = {epoch: sign * value if math.isfinite(value) else math.inf for epoch, value in values.items()}
        found = [epoch for epoch, score in scores.items() if score < math.inf and score <= limit]
        if only_last_n is not None:
            found = found[max(len(found) - only_last_n, 0) :]
        if min_distance > 0:
            latest = next(reversed(scores.values()), math.inf)
            found = [epoch for epoch in found if latest - scores[epoch] >= min_distance]
        return min(found, key=scores.__getitem__, default=None)

    def edited(self, file: History, epoch: int) -> History:
        """Return these records with the changes that the user has made in the history file.

        Args:
            file: content of the file, which may lack the last epochs if a process was killed.
            epoch: completed epochs; records of later ones with values are dropped.
        """
        written = max((e for e, r in file._records.items() if r.is_trained), default=0)
        missing = {e: r for e, r in self._records.items() if written < e <= epoch}
        chosen = {e: r for e, r in file._records.items() if e <= epoch or not r.is_trained}
        return History({**chosen, **missing})

    def controlled(self) -> History:
        """Return the records that a rate control reads: all but those of stages that hold the rate."""
        return History({e: r for e, r in self._records.items() if not r.is_held}) if self._has_held else self

    def of_epochs(self, first: int, last: int) -> History:
        """Return the records from one epoch to another one, both included."""
        return History({e: r for e, r in self._records.items() if first <= e <= last})

    def after(self, epoch: int) -> History:
        """Return the records after an epoch (0: all), counted from 1."""
        return self if epoch == 0 else History({e - epoch: r for e, r in self._records.items() if e > epoch})

    def rates_only(self) -> History:
        """Return the rates alone, as choices for epochs to come."""
        return History({e: EpochRecord(r.lr) for e, r in self._records.items() if r.lr is not None})

    def text(self) -> str:
        """Return the JSON text, a line for each epoch."""
        for epoch, r in self._records.items():
            if epoch not in self._lines:
                record = {"lr": r.lr, "effective_lr": r.effective_lr, "values": r.values, "meta": r.meta}
                self._lines[epoch] = f'"{epoch}": {json.dumps(record)}'
        lines = [self._lines[epoch] for epoch in self._records]
        return "{\n" + ",\n".join(lines) + "\n}" if lines else "{}"

    @classmethod
    def parse(cls, text: str) -> History:
        """Return the history of a text in the form of `text`; what is missing in an epoch is empty.

        Raises:
            UsageError: if the text has another form.
        """
        return cls.from_dict(parse_json(text, "history"))

    @classmethod
    def from_dict(cls, data: Mapping[Any, Any], name: str = "history") -> History:
        """Return the history of a parsed text, see `parse`; `name` says in a message what has the text."""
        records: dict[int, EpochRecord] = {}
        for key, value in data.items():
            try:
                epoch = parse_whole_number(key) if isinstance(key, str) else None
                if not epoch:
                    raise ValueError("epochs count from 1 and have at most nine digits")
                records[epoch] = EpochRecord.from_dict(value)
            except (TypeError, ValueError, OverflowError) as error:
                raise UsageError(f"{name}: {_NO_HISTORY}: epoch {shorten(key)}: {error}") from error
        return cls(records)


def read_history(path: str | Path) -> History:
    """Return the history in a `history.json`, or in a `learning_rate_file` of RETURNN, which is never run.

    Raises:
        UsageError: if the file cannot be read, or holds anything else.
    """
    text = read_text(path, RECORDS_BYTES)
    name = shorten_text(str(path), 200)
    is_returnn = "EpochData(" in text
    document = parse_learning_rate_file(text, name) if is_returnn else parse_json(text, name)
    history = History.from_dict(document, name)
    history.is_returnn = is_returnn
    return history


def parse_learning_rate_file(text: str, name: str) -> dict[str, Any]:
    """Return the content of a file of RETURNN, epoch -> EpochData(learningRate=..., error={...}), as records.

    Raises:
        UsageError: if the file holds anything else.
    """
    try:
        if sum(1 for _ in re.finditer(r"\w+|[\[({]", text)) > _MOST_WORDS:
            raise ValueError(f"more than {_MOST_WORDS} words")
        return {
            str(epoch): _record(data) for epoch, data in _literal(ast.parse(text.strip(), mode="eval").body).items()
        }
    except (AttributeError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError) as error:
        reason = shorten_text(re.sub(": <ast.*", "", str(error)) or "nested too deeply", 120)
        expected = "{epoch: EpochData(learningRate=..., error={...})}"
        raise UsageError(f"{name}: not a learning_rate_file of RETURNN (expected {expected}): {reason}") from None


def _literal(node: Any) -> Any:
    """Return the value of a node: `EpochData(...)` is a dict, `nan` and `np.float64(0.5)` are numbers."""
    if isinstance(node, ast.Dict):
        return dict(zip(map(_literal, node.keys), map(_literal, node.values), strict=True))
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        if name == "EpochData" and not node.args:
            return {keyword.arg: _literal(keyword.value) for keyword in node.keywords}
        if _NUMBER.fullmatch(name) and len(node.args) == 1 and not node.keywords:
            return float(_literal(node.args[0]))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_literal(node.operand)
    if isinstance(node, ast.Name | ast.Attribute) and (found := _NOT_FINITE.fullmatch(ast.unparse(node))):
        return float(found[1])
    return ast.literal_eval(node)


def _record(data: dict[str, Any]) -> dict[str, Any]:
    errors, meta = data.get("error") or {}, data.get("meta") or {}
    # RETURNN writes further numbers of an epoch among its scores.
    others = {n: v for n, v in errors.items() if not isinstance(v, int | float) or str(n).startswith(":meta:")}
    values = {str(name): value for name, value in errors.items() if name not in others}
    return {"lr": data.get("learningRate", data.get("learning_rate")), "values": values, "meta": {**others, **meta}}
