"""Plan of a transfer: the source of each target weight, or the reason why it keeps its own values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from tfaip.errors import UsageError
from tfaip.trainer.transfer.names import NameRules
from tfaip.trainer.transfer.tails import Match, match_tails
from tfaip.util.text import shorten

if TYPE_CHECKING:
    import numpy as np

Shape = tuple[int, ...]


class Outcome(StrEnum):
    """Decision on a target weight."""

    LOADED = "loaded"
    EXCLUDED = "skipped: excluded"
    SHAPE_DIFFERS = "skipped: shape differs"
    NOT_FOUND = "left fresh: not in the source"
    AMBIGUOUS = "left fresh: ambiguous"


@dataclass(frozen=True)
class Source:
    """Named arrays to take values from.

    Args:
        description: their origin, for messages.
        arrays: the arrays by name.
        aliases: further names -> the name in `arrays`, for sources that do not name weights as the toolkit does.
        by_tail: also find an array by the last parts of its names (see `tails.py`).
    """

    description: str
    arrays: Mapping[str, np.ndarray]
    aliases: Mapping[str, str] = field(default_factory=dict)
    by_tail: bool = False


@dataclass(frozen=True)
class Row:
    """Target weight and the decision on it.

    Args:
        target: its path.
        shape: its shape.
        outcome: the decision.
        source: the array that it takes, or whose shape differs: index of the source, and name there.
        source_shape: the shape of that array.
        candidates: the paths that it may belong to, or that may belong to it, if that is ambiguous.
    """

    target: str
    shape: Shape
    outcome: Outcome
    source: tuple[int, str] | None = None
    source_shape: Shape | None = None
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Transfer:
    """Planned transfer.

    Args:
        sources: origins of the values.
        rows: one per target weight, in the order of the target.
    """

    sources: Sequence[Source]
    rows: Sequence[Row]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the values of the loaded weights by target path."""
        arrays: dict[str, np.ndarray] = {}
        for row in self.rows:
            if row.outcome is Outcome.LOADED and row.source is not None:
                index, name = row.source
                arrays[row.target] = self.sources[index].arrays[name]
        return arrays

    def with_outcome(self, *outcomes: Outcome) -> list[Row]:
        """Return the rows with one of these outcomes."""
        return [row for row in self.rows if row.outcome in outcomes]

    def unused(self) -> list[tuple[int, str]]:
        """Return the arrays that no row names, as index of the source and name there."""
        used = {row.source for row in self.rows}
        unused = []
        for index, source in enumerate(self.sources):
            for name in sorted(source.arrays):
                if (index, name) not in used:
                    unused.append((index, name))
        return unused


def plan_transfer(targets: Mapping[str, Shape], sources: Sequence[Source], rules: NameRules) -> Transfer:
    """Find values for target weights.

    A target takes the first array that has its name and its shape; sources are searched in order, names
    before aliases. A target that no source names is matched by the last parts of its name, in sources
    with `by_tail`.

    Args:
        targets: shapes of the target weights by path.
        sources: origins of values, in order of preference.
        rules: selection and names of the weights.

    Raises:
        UsageError: if `rename` gives two arrays of a source the same name.
    """
    found_names = [_renamed(source, rules) for source in sources]
    rows = [_row(path, shape, sources, found_names, rules) for path, shape in targets.items()]
    for place, source in enumerate(sources):
        if source.by_tail:
            rows = _found_by_tail(rows, place, source, found_names[place], rules)
    return Transfer(sources, rows)


def _found_by_tail(
    rows: Sequence[Row], place: int, source: Source, names: Mapping[str, str], rules: NameRules
) -> list[Row]:
    """Return the rows, with arrays of one source matched by tail for targets that were not found by name."""
    missing = {rules.wanted_name(row.target): row for row in rows if row.outcome is Outcome.NOT_FOUND}
    used = {row.source[1] for row in rows if row.source is not None and row.source[0] == place}
    matches = match_tails(list(missing), names, used)
    result = []
    for row in rows:
        match = matches.get(rules.wanted_name(row.target)) if row.outcome is Outcome.NOT_FOUND else None
        result.append(row if match is None else _row_of_match(row, place, source, match))
    return result


def _row_of_match(row: Row, place: int, source: Source, match: Match) -> Row:
    if match.name is None:
        return replace(row, outcome=Outcome.AMBIGUOUS, candidates=match.candidates)
    shape = source.arrays[match.name].shape
    outcome = Outcome.LOADED if shape == row.shape else Outcome.SHAPE_DIFFERS
    return replace(row, outcome=outcome, source=(place, match.name), source_shape=shape)


def _row(
    path: str, shape: Shape, sources: Sequence[Source], found_names: Sequence[Mapping[str, str]], rules: NameRules
) -> Row:
    if not rules.selects(path):
        return Row(path, shape, Outcome.EXCLUDED)
    wanted = rules.wanted_name(path)
    candidates = [(i, names[wanted]) for i, names in enumerate(found_names) if wanted in names]
    if not candidates:
        return Row(path, shape, Outcome.NOT_FOUND)
    shapes = [sources[i].arrays[name].shape for i, name in candidates]
    if shape in shapes:
        return Row(path, shape, Outcome.LOADED, candidates[shapes.index(shape)], shape)
    return Row(path, shape, Outcome.SHAPE_DIFFERS, candidates[0], shapes[0])


def _renamed(source: Source, rules: NameRules) -> dict[str, str]:
    """Map all names under which arrays of a source are found to their own names."""
    found: dict[str, str] = {}
    for name in source.arrays:
        new = rules.renamed_source(name)
        if new in found:
            raise UsageError(
                f"{source.description}: after renaming, both {shorten(found[new])} and {shorten(name)} are called "
                f"{shorten(new)}: change the substitutions"
            )
        found[new] = name
    for alias, name in source.aliases.items():
        found.setdefault(rules.renamed_source(alias), name)
    return found
