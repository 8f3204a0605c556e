"""The plan of a transfer: for every target weight where its values come from, or why it keeps its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from tfaip.errors import UsageError
from tfaip.trainer.transfer.names import NameRules

if TYPE_CHECKING:
    import numpy as np

Shape = tuple[int, ...]


class Outcome(StrEnum):
    """What happens to a target weight."""

    LOADED = "loaded"
    EXCLUDED = "skipped: excluded"
    SHAPE_DIFFERS = "skipped: shape differs"
    NOT_FOUND = "left fresh: not in the source"


@dataclass(frozen=True)
class Source:
    """Named arrays to take values from.

    Args:
        description: where they come from, for messages.
        arrays: the arrays by name.
        aliases: further names -> the name in `arrays`, for sources that do not name weights as the toolkit does.
    """

    description: str
    arrays: Mapping[str, np.ndarray]
    aliases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One target weight.

    Args:
        target: its path.
        shape: its shape.
        outcome: what happens to it.
        source: the array that it takes, or whose shape differs: its place in the sources, and its name there.
        source_shape: the shape of that array.
    """

    target: str
    shape: Shape
    outcome: Outcome
    source: tuple[int, str] | None = None
    source_shape: Shape | None = None


@dataclass(frozen=True)
class Transfer:
    """A planned transfer.

    Args:
        sources: where values come from.
        rows: one per target weight, in the order of the target.
    """

    sources: Sequence[Source]
    rows: Sequence[Row]

    def arrays(self) -> dict[str, np.ndarray]:
        """The values of the loaded weights, by target path."""
        return {
            row.target: self.sources[row.source[0]].arrays[row.source[1]]
            for row in self.rows
            if row.outcome is Outcome.LOADED and row.source is not None
        }

    def with_outcome(self, *outcomes: Outcome) -> list[Row]:
        """The rows with one of these outcomes."""
        return [row for row in self.rows if row.outcome in outcomes]

    def unused(self) -> list[tuple[int, str]]:
        """Arrays that no row names: the place of their source, and their name there."""
        used = {row.source for row in self.rows}
        everything = [(i, name) for i, source in enumerate(self.sources) for name in sorted(source.arrays)]
        return [entry for entry in everything if entry not in used]


def plan_transfer(targets: Mapping[str, Shape], sources: Sequence[Source], rules: NameRules) -> Transfer:
    """Find values for target weights.

    A target takes the first array that has its name and its shape: sources in their order, in each one names before
    aliases.

    Args:
        targets: shapes of the target weights by path.
        sources: where to look.
        rules: what takes part, under which names.

    Raises:
        UsageError: `rename` gives two arrays of a source the same name.
    """
    found_names = [_renamed(source, rules) for source in sources]
    return Transfer(sources, [_row(path, shape, sources, found_names, rules) for path, shape in targets.items()])


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
    """All names under which arrays of a source are found -> their own names."""
    found: dict[str, str] = {}
    for name in source.arrays:
        new = rules.renamed_source(name)
        if new in found:
            raise UsageError(
                f"{source.description}: after renaming, both {found[new]!r} and {name!r} are called {new!r}: "
                "change the substitutions"
            )
        found[new] = name
    for alias, name in source.aliases.items():
        found.setdefault(rules.renamed_source(alias), name)
    return found
