"""The params tree as a whole: visit, read and set by dotted path, compare, share values.

Nodes are the instances of dataclasses. Lists, tuples and dicts that contain nodes belong to the tree, with
the index or the key as a part of the path; those without nodes are values like any other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from tfaip.errors import UsageError
from tfaip.params import renames
from tfaip.params.meta import ensure_dataclass
from tfaip.params.names import did_you_mean
from tfaip.util.text import shorten


class _Absent:
    def __repr__(self) -> str:
        return "(absent)"


ABSENT = _Absent()


@dataclasses.dataclass(frozen=True)
class Change:
    """One difference between two trees.

    Args:
        path: dotted path of the value, or of the node whose class differs.
        old: value or class before; `ABSENT` if there was none.
        new: value or class after; `ABSENT` if there is none.
    """

    path: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.path}: {_shown(self.old)} -> {_shown(self.new)}"


def is_node(value: Any) -> bool:
    """Whether `value` is a node of a params tree: an instance of a dataclass."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def node_fields(node: Any) -> tuple[dataclasses.Field[Any], ...]:
    """The dataclass fields of a node, or of a class of nodes."""
    return dataclasses.fields(ensure_dataclass(node if isinstance(node, type) else type(node)))


def children(value: Any) -> dict[str, Any] | None:
    """The parts directly below a node, or a container of nodes, by path part; None for a plain value."""
    if is_node(value):
        return {field.name: getattr(value, field.name) for field in node_fields(value)}
    items = _items(value)
    return items if items and any(children(item) is not None for item in items.values()) else None


def walk(params: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of the tree with its dotted path, in the order of the fields."""
    parts = children(params)
    if parts is None:
        yield path, params
        return
    for name, child in parts.items():
        yield from walk(child, _join(path, name))


def get_path(params: Any, path: str) -> Any:
    """The node or value at a dotted path.

    Raises:
        UsageError: a part of the path does not exist.
    """
    value, walked = params, ""
    for part in path.split("."):
        value, walked = _step(value, part, walked), _join(walked, part)
    return value


def is_hidden(params: Any, path: str) -> bool:
    """Whether the field at a dotted path has no flag (`mode="ignore"`): its value is derived, not chosen."""
    parent, _, name = path.rpartition(".")
    try:
        node = get_path(params, parent) if parent else params
    except UsageError:
        return False
    fields = {field.name: field for field in node_fields(node)} if is_node(node) else {}
    return name in fields and fields[name].metadata.get("mode") == "ignore"


def set_path(params: Any, path: str, value: Any) -> None:
    """Set the node or value at a dotted path; the value is not checked against its type.

    Raises:
        UsageError: a part of the path does not exist.
    """
    parent_path, _, last = path.rpartition(".")
    parent = get_path(params, parent_path) if parent_path else params
    _step(parent, last, parent_path)
    if isinstance(parent, list):
        parent[int(last)] = value
    elif isinstance(parent, dict):
        parent[next(key for key in parent if str(key) == last)] = value
    elif isinstance(parent, tuple):
        raise UsageError(f"{parent_path} is a tuple, its entries cannot be set: set {parent_path} as a whole")
    else:
        setattr(parent, last, value)


def diff(old: Any, new: Any, path: str = "") -> list[Change]:
    """What differs between two trees; another class counts as a change of the node."""
    old_parts, new_parts = children(old), children(new)
    if old_parts is None and new_parts is None:
        return [] if _equal(old, new) else [Change(path, old, new)]
    if old_parts is None or new_parts is None:
        changed = not (isinstance(old, list | tuple | dict) and isinstance(new, list | tuple | dict))
        start = [Change(path, _summary(old), _summary(new))] if changed else []
    else:
        start = [Change(path, type(old), type(new))] if type(old) is not type(new) else []
    old_parts = _items(old) if old_parts is None else old_parts
    new_parts = _items(new) if new_parts is None else new_parts
    for name in dict.fromkeys([*old_parts, *new_parts]):
        before, after = old_parts.get(name, ABSENT), new_parts.get(name, ABSENT)
        start += diff(before, after, _join(path, name))
    return start


def post_init(params: Any) -> None:
    """Run every `__post_init__` of the tree again, children first, so that shared values are passed on."""
    for child in (children(params) or {}).values():
        post_init(child)
    if is_node(params) and hasattr(params, "__post_init__"):
        params.__post_init__()


def _items(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, list | tuple):
        return {str(index): item for index, item in enumerate(value)}
    return {}


def _step(value: Any, part: str, path: str) -> Any:
    if is_node(value):
        part = renames.current_name(type(value), part)
        parts = {field.name: getattr(value, field.name) for field in node_fields(value)}
    else:
        parts = _items(value)
    if part not in parts:
        place = f"{path} ({type(value).__name__})" if path else type(value).__name__
        raise UsageError(f"{place} has no {shorten(part)}{did_you_mean(part, parts)}")
    return parts[part]


def _join(path: str, part: str) -> str:
    return f"{path}.{part}" if path else part


def _equal(old: Any, new: Any) -> bool:
    both_nan = isinstance(old, float) and isinstance(new, float) and old != old and new != new
    return both_nan or (type(old) is bool) == (type(new) is bool) and old == new


def _summary(value: Any) -> Any:
    return type(value) if is_node(value) else value


def _shown(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else repr(value)
