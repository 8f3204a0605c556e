"""Whole trees of params: visit, read and set by dotted path, compare, share values.

Nodes are the instances of dataclasses. Lists, tuples and dicts that contain nodes belong to the
tree, with the index or the key as a part of the path; those without nodes are values like any
other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from tfaip.errors import UsageError
from tfaip.params import names
from tfaip.params.limits import FieldError, check_fields
from tfaip.params.names import did_you_mean
from tfaip.params.trust import top_package
from tfaip.util.text import shorten


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


def is_node(value: Any) -> bool:
    """Return True for a node of a params tree: an instance of a dataclass."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def node_fields(node: Any) -> tuple[dataclasses.Field[Any], ...]:
    """Return the dataclass fields of a node, or of a class of nodes."""
    cls = node if isinstance(node, type) else type(node)
    return dataclasses.fields(cls)


def items_of(value: Any) -> dict[str, Any] | None:
    """Return the items of a dict, list or tuple by key or index as text; None for others."""
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, list | tuple):
        return {str(index): item for index, item in enumerate(value)}
    return None


def children(value: Any) -> dict[str, Any] | None:
    """Return the parts of a node, or of a container of nodes, by name; None for a plain value."""
    if is_node(value):
        return {field.name: getattr(value, field.name) for field in node_fields(value)}
    items = items_of(value) or {}
    has_nodes = any(children(item) is not None for item in items.values())
    return items if has_nodes else None


def walk(params: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value of the tree with its dotted path, in the order of the fields."""
    parts = children(params)
    if parts is None:
        yield path, params
        return
    for name, child in parts.items():
        yield from walk(child, _join(path, name))


def packages_of(params: Any) -> set[str]:
    """Return the top-level packages of the classes of all nodes of a tree."""
    found = {top_package(type(params).__module__)} if is_node(params) else set()
    return found.union(*map(packages_of, (children(params) or {}).values()))


def get_path(params: Any, path: str) -> Any:
    """Return the node or value at a dotted path; "" is the root.

    Raises:
        UsageError: a part of the path does not exist.
    """
    if not path:
        return params
    value, walked = params, ""
    for part in path.split("."):
        value, walked = _step(value, part, walked), _join(walked, part)
    return value


def is_hidden(params: Any, path: str) -> bool:
    """Return True if the field at a dotted path has no flag (`mode="ignore"`)."""
    parent, _, name = path.rpartition(".")
    try:
        node = get_path(params, parent)
    except UsageError:
        return False
    if not is_node(node):
        return False
    return any(field.name == name and field.metadata.get("mode") == "ignore" for field in node_fields(node))


def set_path(params: Any, path: str, value: Any) -> None:
    """Set the node or value at a dotted path; the value is not checked against its type.

    Raises:
        UsageError: a part of the path does not exist.
    """
    parent_path, _, last = path.rpartition(".")
    parent = get_path(params, parent_path)
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
        changes += diff(before.get(name, ABSENT), after.get(name, ABSENT), _join(path, name))
    return changes


def post_init(params: Any) -> None:
    """Check all limits of a tree and run every `__post_init__` again, children first, to share values.

    Raises:
        FieldError: if a value is not allowed; its path begins at `params`.
    """
    for name, child in (children(params) or {}).items():
        try:
            post_init(child)
        except FieldError as error:
            error.move_below(name)
            raise
    if is_node(params):
        if hasattr(params, "__post_init__"):
            params.__post_init__()
        check_fields(params)  # also of a class whose __post_init__ does not call the inherited one


def _step(value: Any, part: str, path: str) -> Any:
    if is_node(value):
        part = names.current_name(type(value), part)
        parts = {field.name: getattr(value, field.name) for field in node_fields(value)}
    else:
        parts = items_of(value) or {}
    if part not in parts:
        place = f"{path} ({type(value).__name__})" if path else type(value).__name__
        raise UsageError(f"{place} has no {shorten(part)}{did_you_mean(part, parts)}")
    return parts[part]


def _join(path: str, part: str) -> str:
    return f"{path}.{part}" if path else part


def _equal(old: Any, new: Any) -> bool:
    # NaN is not equal to itself, and True is equal to 1.
    both_nan = isinstance(old, float) and isinstance(new, float) and old != old and new != new
    return both_nan or (type(old) is bool) == (type(new) is bool) and old == new


def _summary(value: Any) -> Any:
    return type(value) if is_node(value) else value


def _shown(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else repr(value)
