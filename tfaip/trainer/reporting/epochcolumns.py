"""Columns of the table of epochs: which values are shown, in which groups, and which find no room."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from tfaip.trainer.run.names import EPOCH_MEAN, SCHEDULED_PREFIX, TRAIN, VALIDATION, split_name
from tfaip.util.terminal import fit, text_width

LOSS = "loss"
RATE = "lr"
VALUE_WIDTH = 7
SETTING_WIDTH = 8
# Columns before and after the groups: `epoch*` and ` |    sec`.
EDGE_WIDTH = 15
# Before the cells of a group: ` |`.
BAR_WIDTH = 2
# With the space before it.
_LEAST_COLUMN_WIDTH = VALUE_WIDTH + 1
# Longest header of a column: the first of these with which everything fits.
TITLE_WIDTHS = (24, 16, 12, VALUE_WIDTH)
# Longest header if values are left out.
LEFT_OUT_TITLE_WIDTH = 12


@dataclass(frozen=True)
class Column:
    """Column of the table.

    Args:
        name: of the logged value.
        title: its header, a shortened name.
        width: columns of the terminal for its cells.
    """

    name: str
    title: str
    width: int


@dataclass(frozen=True)
class ColumnGroup:
    """Columns of one kind.

    Args:
        titles: headers, the longest first; the first that fits is shown.
        columns: at least one.
    """

    titles: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def width(self) -> int:
        """Columns of the terminal, without the bar."""
        return sum(column.width + 1 for column in self.columns)


@dataclass(frozen=True)
class Columns:
    """Columns that are shown.

    Args:
        groups: train, validation, LAV, and the rate with what else is scheduled.
        left_out: names of values for which there is no room.
    """

    groups: tuple[ColumnGroup, ...]
    left_out: tuple[str, ...] = ()


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

    def groups(self) -> list[tuple[tuple[str, ...], list[str]]]:
        """Return titles and names of each group.

        Within a group `loss` comes first, then what the training logs too, in its order, then the rest.
        """
        trained = [split_name(name)[1] for name in self._kinds[TRAIN]]
        ranks = {base: rank for rank, base in enumerate([LOSS, *trained])} | {LOSS: 0}
        lav = sorted((kind for kind in self._kinds if kind not in (TRAIN, VALIDATION)), key=_lav_number)
        found: list[tuple[tuple[str, ...], list[str]]] = []
        for kind in (TRAIN, VALIDATION, *lav):
            names = [name for name in self._kinds[kind] if self.shown_as(name) == name]
            names.sort(key=lambda name: ranks.get(split_name(name)[1], len(ranks)))
            if names:
                found.append((_titles(kind, len(lav)), names))
        title = ("scheduled", "sched") if self._scheduled else ("rate",)
        return [*found, (title, [RATE, *self._scheduled])]


def choose_columns(names: LoggedNames, monitor: str, width: int) -> Columns:
    """Return the columns that fit: a function of names and width, never of values.

    If there is no room for all, the monitored value and the rate come first, then the first value
    of each group, the second of each group, and so on; a value that does not fit is left out.

    Args:
        names: of the logged values.
        monitor: name of the value that decides which epoch is the best.
        width: columns of the terminal.
    """
    groups = names.groups()
    everything = {name for _, group in groups for name in group}
    # With hundreds of names it takes seconds to shorten them all, and to try one after the other where none fits.
    has_room = EDGE_WIDTH + len(everything) * _LEAST_COLUMN_WIDTH <= width
    for title_width in TITLE_WIDTHS if has_room else ():
        columns = _shown(groups, everything, title_width)
        if _width(columns) <= width:
            return Columns(columns)
    chosen: set[str] = set()
    taken = EDGE_WIDTH
    for name in _by_preference([group for _, group in groups], [names.shown_as(monitor), RATE]):
        if taken + _LEAST_COLUMN_WIDTH > width:
            break
        with_name = _width(_shown(groups, chosen | {name}, LEFT_OUT_TITLE_WIDTH))
        if with_name <= width:
            chosen.add(name)
            taken = with_name
    left_out = [name for _, group in groups for name in group if name not in chosen]
    return Columns(_shown(groups, chosen, LEFT_OUT_TITLE_WIDTH), tuple(left_out))


def _lav_number(kind: str) -> int:
    return int(kind.removeprefix("lav_l"))


def _titles(kind: str, num_lav: int) -> tuple[str, ...]:
    if kind == VALIDATION:
        return (VALIDATION, "val")
    if kind == TRAIN:
        return (TRAIN,)
    return ("LAV",) if num_lav == 1 else (f"LAV {kind.removeprefix('lav_')}",)


def _by_preference(groups: Sequence[Sequence[str]], first: Iterable[str]) -> list[str]:
    """Return all names: `first`, then by turns the next one of each group."""
    known = {name for group in groups for name in group}
    turns = [name for turn in zip_longest(*groups) for name in turn if name is not None]
    return list(dict.fromkeys([name for name in first if name in known] + turns))


def _shown(
    groups: Sequence[tuple[tuple[str, ...], Sequence[str]]], chosen: Collection[str], title_width: int
) -> tuple[ColumnGroup, ...]:
    shown = []
    for titles, names in groups:
        columns = _columns([name for name in names if name in chosen], title_width, RATE in names)
        if columns:
            shown.append(ColumnGroup(titles, columns))
    return tuple(shown)


def _columns(names: Sequence[str], title_width: int, are_settings: bool) -> tuple[Column, ...]:
    least = SETTING_WIDTH if are_settings else VALUE_WIDTH
    titles: dict[str, str] = {}
    for name in names:
        text = split_name(name)[1]
        if are_settings:
            text = name.removeprefix(SCHEDULED_PREFIX).rpartition(".")[2]
        titles[name] = _distinct(fit(_printable(text), title_width), titles.values(), title_width)
    return tuple(Column(name, title, max(least, text_width(title))) for name, title in titles.items())


def _distinct(title: str, taken: Collection[str], width: int) -> str:
    """Return `title`, with a number at its end if a shortened name equals another one."""
    number, distinct = 1, title
    while distinct in taken:
        number += 1
        distinct = fit(title, width - len(f"~{number}")) + f"~{number}"
    return distinct


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)


def _width(groups: Sequence[ColumnGroup]) -> int:
    return EDGE_WIDTH + sum(BAR_WIDTH + group.width for group in groups)
