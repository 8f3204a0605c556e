"""Weights of two models that differ in what is around their layers, matched by the last parts of their paths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass


@dataclass(frozen=True)
class Match:
    """The array of a target.

    Args:
        name: of the array; None: it is ambiguous.
        candidates: if it is ambiguous: the arrays that may be meant, or the further targets of the only one.
    """

    name: str | None
    candidates: tuple[str, ...] = ()


def match_tails(targets: Sequence[str], names: Mapping[str, str], used: Set[str]) -> dict[str, Match]:
    """Match paths by the longest common tail, e.g. `graph/features/kernel` and `net/features/kernel`.

    A tail is the name of a layer and that of a weight at least, or the whole path of a target; a number (of a list)
    is no name of a layer. If several arrays share the longest tail with a target, or several targets with an array,
    all of them are ambiguous.

    Args:
        targets: paths that have no array yet.
        names: names of arrays -> array; an array may have several.
        used: arrays that other targets have. They are given to no target, but make it ambiguous as others do.

    Returns:
        the match of every target that shares a tail with an array.
    """
    by_tail = _by_tail(names)
    nearest = {target: found for target in targets if (found := _nearest(target, by_tail))}
    claims: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for target, (length, arrays) in nearest.items():
        for array in arrays:
            claims[array].append((length, target))
    matches: dict[str, Match] = {}
    for target, (length, arrays) in nearest.items():
        if len(arrays) > 1:
            matches[target] = Match(None, tuple(sorted(arrays)))
            continue
        (array,) = arrays
        longest = max(length for length, _ in claims[array])
        rivals = sorted(other for size, other in claims[array] if size == longest)
        if array in used or length < longest:
            continue
        matches[target] = Match(array) if len(rivals) == 1 else Match(None, tuple(r for r in rivals if r != target))
    return matches


def _by_tail(names: Mapping[str, str]) -> dict[str, set[str]]:
    """Map every tail of every name to the arrays that have it."""
    by_tail: dict[str, set[str]] = defaultdict(set)
    for name, array in names.items():
        for tail in _tails(name):
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
