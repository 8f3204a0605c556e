"""Nodes and values of a tree by their dotted path."""

from __future__ import annotations

from typing import Any

from tfaip.errors import UsageError
from tfaip.params.names import oldnames
from tfaip.params.names.suggestions import did_you_mean
from tfaip.params.tree.nodes import is_node, items_of, join_path, node_fields
from tfaip.params.tree.places import place_at
from tfaip.util.text import shorten


def get_path(params: Any, path: str) -> Any:
    """Return the node or value at a dotted path; "" is the root.

    Raises:
        UsageError: a part of the path does not exist.
    """
    if not path:
        return params
    value, walked = params, ""
    for part in path.split("."):
        value, walked = _step(value, part, walked), join_path(walked, part)
    return value


def is_hidden(params: Any, path: str) -> bool:
    """Return True if the field at a dotted path, or a node above it, has no flag (`mode="ignore"`)."""
    return place_at(params, "", path).is_hidden


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


def _step(value: Any, part: str, path: str) -> Any:
    if is_node(value):
        part = oldnames.current_name(type(value), part)
        parts = {field.name: getattr(value, field.name) for field in node_fields(value)}
    else:
        parts = items_of(value) or {}
    if part not in parts:
        place = f"{path} ({type(value).__name__})" if path else type(value).__name__
        raise UsageError(f"{place} has no {shorten(part)}{did_you_mean(part, parts)}")
    return parts[part]
