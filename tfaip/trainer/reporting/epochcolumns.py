"""Columns of the table of epochs: the values that are shown, in groups, and those that do not fit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest

from tfaip.trainer.run.names import EPOCH_MEAN, RATE, SCHEDULED_PREFIX, TRAIN, VALIDATION, split_name
from tfaip.util.terminal import cut, text_width

LOSS = "loss"
VALUE_WIDTH = 7
SETTING_WIDTH = 8
# Columns before and after the groups: `epoch*` and ` |    sec`.
EDGE_WIDTH = 15
# Before the cells of a group: ` |`.
BAR_WIDTH = 2
# Longest line of the name of a column.
NAME_WIDTH = 24


@dataclass(frozen=True)
class Column:
    """Column of the table.

    Args:
        value: name of the logged value.
        lines: its name on two lines; the first one may be empty.
        width: columns of the terminal for its cells.
    """

    value: str
    lines: tuple[str, str]
    width: int


@dataclass(frozen=True)
class Columns:
    """Columns that are shown.

    Args:
        groups: title and columns of train, validation, LAV, and of the rate with what else is scheduled.
        left_out: names of values that do not fit.
    """

    groups: tuple[tuple[str, tuple[Column, ...]], ...]
    left_out: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return EDGE_WIDTH + sum(BAR_WIDTH + group_width(columns) for _, columns in self.groups)


def group_width(columns: Iterable[Column]) -> int:
    """Return the columns of the terminal that the cells of a group take."""
    return sum(column.width + 1 for column in columns)


@dataclass
class LoggedNames:
    """Names of the values of a run, in the order in which they appeared.

    Args:
        only_loss: a loss that is `loss` by definition, whatever the values are; None: there is none.
    """

    only_loss: str | None = None
    _kinds: dict[str, list[str]] = field(default_factory=lambda: {TRAIN: [], VALIDATION: []})
    _scheduled: list[str] = field(default_factory=list)

    def add(self, names: Iterable[str]) -> None:
        """Add names of logged values; known ones are ignored."""
        for name in names:
            if name.startswith(SCHEDULED_PREFIX):
                known = self._scheduled
            else:
                known = self._kinds.setdefault(split_name(name)[0], [])
            if name != RATE and name not in known:
                known.append(name)

    def __len__(self) -> int:
        return sum(map(len, self._kinds.values())) + len(self._scheduled)

    def shown_as(self, name: str) -> str:
        """Return the name of the column with this value: `loss` for other names of it."""
        kind, base = split_name(name)
        loss = name.removesuffix(base) + LOSS
        is_loss = base in (EPOCH_MEAN, self.only_loss) and loss in self._kinds.get(kind, [])
        return loss if is_loss else name

    def groups(self) -> list[tuple[str, list[str]]]:
        """Return title and names of each group.

        Within a group `loss` comes first, then what the training logs too, in its order, then the rest.
        """
        trained = [split_name(name)[1] for name in self._kinds[TRAIN]]
        ranks = {base: rank for rank, base in enumerate([LOSS, *trained])} | {LOSS: 0}
        lav = sorted((kind for kind in self._kinds if kind not in (TRAIN, VALIDATION)), key=_lav_number)
        found = []
        for kind in (TRAIN, VALIDATION, *lav):
            names = [name for name in self._kinds[kind] if self.shown_as(name) == name]
            names.sort(key=lambda name: ranks.get(split_name(name)[1], len(trained) + 1))
            if names:
                found.append((_title(kind, len(lav)), names))
        return [*found, ("scheduled" if self._scheduled else "rate", [RATE, *self._scheduled])]


def choose_columns(names: LoggedNames, monitor: str, width: int) -> Columns:
    """Return the columns that fit: a function of names and width, never of values.

    If they do not fit, names take two lines. If that is not enough, the monitored value and the rate come first, then
    the first value of each group, the second of each group, and so on; a value that does not fit is left out.

    Args:
        names: of the logged values.
        monitor: name of the value that decides which epoch is the best.
        width: columns of the terminal.
    """
    groups = names.groups()
    for on_two_lines in (False, True):
        columns = Columns(tuple((title, _columns(group, on_two_lines)) for title, group in groups))
        if columns.width <= width:
            return columns
    by_name = {column.value: (title, column) for title, group in columns.groups for column in group}
    turns = [name for turn in zip_longest(*(group for _, group in groups)) for name in turn if name is not None]
    chosen: set[str] = set()
    begun: set[str] = set()
    left = width - EDGE_WIDTH
    for name in dict.fromkeys([names.shown_as(monitor), RATE, *turns]):
        if name not in by_name:  # the monitored value, before it is logged
            continue
        title, column = by_name[name]
        needed = column.width + 1 + (0 if title in begun else BAR_WIDTH)
        if needed <= left:
            left -= needed
            chosen.add(name)
            begun.add(title)
    shown = [(title, tuple(column for column in group if column.value in chosen)) for title, group in columns.groups]
    left_out = tuple(name for name in by_name if name not in chosen)
    return Columns(tuple((title, group) for title, group in shown if group), left_out)


def _title(kind: str, num_lav: int) -> str:
    if kind in (TRAIN, VALIDATION):
        return kind
    return "LAV" if num_lav == 1 else f"LAV {kind.removeprefix('lav_')}"


def _lav_number(kind: str) -> int:
    return int(kind.removeprefix("lav_l"))


def _columns(names: list[str], on_two_lines: bool) -> tuple[Column, ...]:
    are_settings = RATE in names
    columns = []
    for name in names:
        text = split_name(name)[1]
        if are_settings:
            text = name.removeprefix(SCHEDULED_PREFIX).rpartition(".")[2]
        text = "".join(character if character.isprintable() else "?" for character in text)
        lines = _two_lines(text) if on_two_lines else ("", cut(text, NAME_WIDTH))
        least = SETTING_WIDTH if are_settings else VALUE_WIDTH
        columns.append(Column(name, lines, max(least, *map(text_width, lines))))
    return tuple(columns)


def _two_lines(text: str) -> tuple[str, str]:
    """Return a long name on two lines, divided between words, or within the only one."""
    if text_width(text) <= VALUE_WIDTH:
        return "", text
    places = [place for place in range(1, len(text)) if not text[place - 1].isalnum()]
    if places:
        place = min(places, key=lambda place: max(place, len(text) - place))
        lines = text[:place], text[place:]
    else:
        place = (len(text) + 1) // 2
        lines = f"{text[:place]}-", text[place:]
    return cut(lines[0], NAME_WIDTH), cut(lines[1], NAME_WIDTH)
