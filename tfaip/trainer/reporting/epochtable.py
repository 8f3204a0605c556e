"""Table of the epochs of a run, one row after the other, for people who watch it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tfaip.trainer.reporting.epochcolumns import (
    SETTING_WIDTH,
    VALUE_WIDTH,
    Columns,
    LoggedNames,
    choose_columns,
    group_width,
)
from tfaip.trainer.run.names import RATE, SCHEDULED_PREFIX
from tfaip.util.terminal import BOLD, GREEN, align_right, cut, styled, terminal_width
from tfaip.util.typing import Logs

ROWS_PER_HEADER = 20
LEAST_WIDTH = 20
_EPOCH_WIDTH = 5
_SECONDS_WIDTH = 6
_SHORT_TITLES = {"validation": "val", "scheduled": "sched"}


@dataclass(frozen=True)
class EpochResult:
    """Results of an epoch.

    Args:
        epoch: from 1.
        values: all logged values by name, those that follow a schedule included, and the learning rate as `lr`.
        seconds: duration of the epoch.
        is_best: True if it is the best epoch so far.
    """

    epoch: int
    values: Logs
    seconds: float
    is_best: bool = False


class EpochTable:
    """Table whose columns follow from the names of the values and the width of the terminal.

    The header is printed before the first row, again every 20 rows, and when the columns change.
    Each stage has a table of its own, since its model may log other values.

    Args:
        names: names of values that are known before the first epoch.
        monitor: name of the value that decides which epoch is the best.
        complete: where all values are, to mention if there is no room for some.
        stage: name of the stage; None: the run has only one.
        last_epoch: the largest number of an epoch that there may be.
    """

    def __init__(
        self,
        names: LoggedNames,
        monitor: str,
        complete: str,
        stage: str | None = None,
        last_epoch: int = 0,
    ) -> None:
        self._names = names
        self._monitor = monitor
        self._complete = complete
        self._stage = stage
        self._epoch_width = max(_EPOCH_WIDTH, len(str(last_epoch)))
        self._columns: Columns | None = None
        self._chosen_for = (0, 0)
        self._rows = 0

    def add(self, result: EpochResult) -> str:
        """Return the lines of an epoch: its row, after a header if there must be one."""
        self._names.add(result.values)
        width = terminal_width()
        columns = self._choose_columns(width)
        is_new = columns != self._columns
        lines = self._notes(columns, width) if is_new else []
        if is_new or self._rows == ROWS_PER_HEADER:
            lines += [styled(line, BOLD) for line in _header(columns, self._epoch_width)]
            self._rows = 0
        self._columns = columns
        self._rows += 1
        return "\n".join([*lines, _row(columns, result, self._epoch_width)])

    def _choose_columns(self, width: int) -> Columns:
        """Return the columns; names are only added, so that a new choice needs more of them or another width."""
        chosen_for = (width, len(self._names))
        if self._columns is not None and chosen_for == self._chosen_for:
            return self._columns
        self._chosen_for = chosen_for
        return choose_columns(self._names, self._monitor, width - self._epoch_width + _EPOCH_WIDTH)

    def _notes(self, columns: Columns, width: int) -> list[str]:
        """Return what must be known to read columns that are new."""
        notes = []
        if self._columns is None:
            notes += [] if self._stage is None else [f"stage {self._stage}"]
            loss = "" if self._names.only_loss is None else f"; loss is {self._names.only_loss}"
            notes.append(f"* new best {self._names.shown_as(self._monitor)}{loss}")
        if columns.left_out:
            notes.append(f"{len(columns.left_out)} more in {self._complete}: {', '.join(columns.left_out)}")
        return [cut(note, max(width, LEAST_WIDTH)) for note in notes]


def value_text(value: float) -> str:
    """Return a number with 3 to 4 significant digits: `0.5700`, `0.00570`, `5.70e-4`, `12.35`, `1.24e8`.

    Exactly zero is `0`. The text fits into a column, for which small negative numbers may get fewer digits.
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}".replace("-0", "0")
    decimals = 3 - math.floor(math.log10(abs(value)))
    text = f"{value:.{min(max(decimals, 0), 4 if decimals < 6 else 5)}f}"
    if decimals <= 6 and len(text) <= VALUE_WIDTH:
        return text
    return _with_exponent(value)


def setting_text(value: float) -> str:
    """Return a rate, or another number that is set: up to three digits, without zeros at the end (`3.1e-05`);
    whole numbers up to seven digits in full.
    """
    if float(value).is_integer() and abs(value) < 10**7:
        return f"{value:.0f}"
    texts = (f"{value:.{digits}g}" for digits in (3, 2, 1))
    return next((text for text in texts if len(text) <= SETTING_WIDTH), f"{value:.0e}")


def _with_exponent(value: float) -> str:
    """Return a number in the form `5.70e-4`, with as many digits as fit."""
    text = ""
    for decimals in (2, 1, 0):
        mantissa, exponent = f"{value:.{decimals}e}".split("e")
        text = f"{mantissa}e{int(exponent)}"
        if len(text) <= VALUE_WIDTH:
            break
    return text


def seconds_text(seconds: float) -> str:
    """Return a duration with one decimal below 1000 s."""
    return f"{seconds:.1f}" if seconds < 999.95 else f"{seconds:.0f}"


def _header(columns: Columns, epoch_width: int) -> list[str]:
    titles, rule = " " * (epoch_width + 1), "-" * (epoch_width + 1)
    names = [titles, f"{'epoch':>{epoch_width}} "]
    for title, group in columns.groups:
        width = group_width(group)
        shown = title if len(title) < width else _SHORT_TITLES.get(title, title)
        titles += f" | {shown:^{width - 1}}"
        for number in (0, 1):
            names[number] += " |" + "".join(f" {align_right(column.lines[number], column.width)}" for column in group)
        rule += f"-+{'-' * width}"
    first = [f"{names[0]} |"] if any(column.lines[0] for _, group in columns.groups for column in group) else []
    return [
        f"{titles} |",
        *first,
        f"{names[1]} | {'sec':>{_SECONDS_WIDTH}}",
        f"{rule}-+{'-' * (_SECONDS_WIDTH + 1)}",
    ]


def _row(columns: Columns, result: EpochResult, epoch_width: int) -> str:
    mark = styled("*", GREEN) if result.is_best else " "
    cells = [f"{result.epoch:>{epoch_width}}{mark}"]
    for _, group in columns.groups:
        cells.append("".join(f" {_cell(column.value, result):>{column.width}}" for column in group))
    cells.append(f"{seconds_text(result.seconds):>{_SECONDS_WIDTH + 1}}")
    return " |".join(cells)


def _cell(name: str, result: EpochResult) -> str:
    """Return the text of a value; nothing if the epoch has none, as without validation."""
    if name not in result.values:
        return ""
    value = result.values[name]
    is_setting = name == RATE or name.startswith(SCHEDULED_PREFIX)
    return setting_text(value) if is_setting else value_text(value)
