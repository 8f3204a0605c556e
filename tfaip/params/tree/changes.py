"""Differences between two trees of params."""

from __future__ import annotations

import dataclasses
from typing import Any

from tfaip.params.tree.nodes import children, is_node, items_of, join_path


class _Absent:
    def __repr__(self) -> str:
        return "(absent)"


ABSENT = _Absent()


@dataclasses.dataclass(frozen=True)
class Change:
    """Difference between two trees.

    Args:
        path: dotted path of the value, or of the node whose class differs.
        old: value or class before; `ABSENT` if there was none.
        new: value or class after; `ABSENT` if there is none.
    """

    path: str
    old: Any
    new: Any

    def text(self, name: str) -> str:
        """Return the difference in words, with a name for the path."""
        return f"{name}: {_shown(self.old)} -> {_shown(self.new)}"

    def __str__(self) -> str:
        return self.text(self.path)


def diff(old: Any, new: Any, path: str = "") -> list[Change]:
    """Return what differs between two trees; another class counts as a change of the node."""
    old_parts, new_parts = children(old), children(new)
    if old_parts is None and new_parts is None:
        return [] if _equal(old, new) else [Change(path, old, new)]
    changes = []
    if old_parts is not None and new_parts is not None:
        if type(old) is not type(new):
            changes.append(Change(path, type(old), type(new)))
    elif items_of(old) is None or items_of(new) is None:  # a node, or a container of nodes, and a value
        changes.append(Change(path, _summary(old), _summary(new)))
    before = old_parts or items_of(old) or {}
    after = new_parts or items_of(new) or {}
    for name in dict.fromkeys([*before, *after]):
        changes += diff(before.get(name, ABSENT), after.get(name, ABSENT), join_path(path, name))
    return changes


def _equal(old: Any, new: Any) -> bool:
    if isinstance(old, list | tuple) and type(old) is type(new) and len(old) == len(new):
        return bool(old == new) or all(map(_equal, old, new))
    # NaN is not equal to itself, and True is equal to 1.
    both_nan = isinstance(old, float) and isinstance(new, float) and old != old and new != new
    return both_nan or (type(old) is bool) == (type(new) is bool) and old == new


def _summary(value: Any) -> Any:
    return type(value) if is_node(value) else value


def _shown(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else repr(value)
