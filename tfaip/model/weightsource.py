"""Sources of weights, named arrays, and the matching of their names with paths. Needs no backend."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tfaip.model.structure.axis import Structure

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Source:
    """Named arrays to take values from.

    Args:
        description: their origin, for messages.
        arrays: the arrays by name.
        aliases: further names -> the name in `arrays`, for sources that do not name weights as the toolkit does.
        by_tail: also find an array by the last parts of its names (see `match_tails`).
        structure: of the weights by their names in `arrays`, if the graph that they belong to is known.
    """

    description: str
    arrays: Mapping[str, np.ndarray]
    aliases: Mapping[str, str] = field(default_factory=dict)
    by_tail: bool = False
    structure: Structure = field(default_factory=dict)


@dataclass(frozen=True)
class Match:
    """Array of a target.

    Args:
        name: name of the array; None: it is ambiguous.
        candidates: if it is ambiguous: the possible arrays, or the other targets of the only array.
    """

    name: str | None
    candidates: tuple[str, ...] = ()


def match_tails(targets: Sequence[str], names: Mapping[str, str], used: Set[str]) -> dict[str, Match]:
    """Match paths by the longest common tail, e.g. `graph/features/kernel` and `net/features/kernel`.

    A tail contains at least the names of a layer and of a weight, or it is the whole path of a target; a
    number (index in a list) is not the name of a layer. If several arrays share the longest tail with a
    target, or several targets with an array, all of them are ambiguous.
    """
    by_tail = _by_tail(names, max((target.count("/") + 1 for target in targets), default=0))
    nearest = {target: found for target in targets if (found := _nearest(target, by_tail)) is not None}
    longest: dict[str, int] = defaultdict(int)
    for length, arrays in nearest.values():
        for array in arrays:
            longest[array] = max(longest[array], length)
    matches: dict[str, Match] = {}
    for target, found in nearest.items():
        length, arrays = found
        array = min(arrays)
        if len(arrays) > 1:
            matches[target] = Match(None, tuple(sorted(arrays)))
        elif array not in used and length == longest[array]:
            rivals = [other for other, (size, of) in nearest.items() if size == length and array in of]
            rivals.remove(target)
            matches[target] = Match(None, tuple(sorted(rivals))) if rivals else Match(array)
    return matches


def _by_tail(names: Mapping[str, str], longest: int) -> dict[str, set[str]]:
    """Map the tails of every name, of at most `longest` parts, to the arrays that have them."""
    by_tail: dict[str, set[str]] = defaultdict(set)
    for name, array in names.items():
        # No more of the name is looked at: all tails of one with many parts would fill the memory.
        end = "/".join(name.rsplit("/", longest)[-longest:])
        for tail in _tails(end):
            by_tail[tail].add(array)
    return by_tail


def _nearest(target: str, by_tail: Mapping[str, set[str]]) -> tuple[int, set[str]] | None:
    """Return the length of the longest tail that a target shares with arrays, and these arrays."""
    for tail in _tails(target):
        layers = tail.split("/")[:-1]
        names_a_layer = any(not layer.isdecimal() for layer in layers)
        if tail in by_tail and (names_a_layer or tail == target):
            return len(layers) + 1, by_tail[tail]
    return None


def _tails(path: str) -> list[str]:
    """Return the path and all its tails, the longest first."""
    parts = path.split("/")
    return ["/".join(parts[start:]) for start in range(len(parts))]
