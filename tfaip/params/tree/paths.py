"""Nodes and values of a tree by their dotted path."""

from __future__ import annotations

from typing import Any

from tfaip.errors import UsageError
from tfaip.params.names import oldnames
from tfaip.params.names.suggestions import did_you_mean
from tfaip.params.tree.nodes import is_node, items_of, join_path, values_of
from tfaip.params.tree.places import place_at
from tfaip.util.text import shorten


def get_path(params: Any, path: str) -> Any:
    """Return the node or value at a dotted path; "" is the root.

    Raises:
        UsageError: a part of the path does not exist.
    """
    value, walked = params, ""
    for part in path.split(".") if path else []:
        if is_node(value):
            part = oldnames.current_name(type(value), part)
            parts = values_of(value)
        else:
            parts = items_of(value) or {}
        if part not in parts:
            place = f"{walked} ({type(value).__name__})" if walked else type(value).__name__
            raise UsageError(f"{place} has no {shorten(part)}{did_you_mean(part, parts)}")
        value, walked = parts[part], join_path(walked, part)
    return value


def is_hidden(params: Any, path: str) -> bool:
    """Return True if the field at a dotted path, or a node above it, has no flag (`mode="ignore"`)."""
    return place_at(params, "", path).is_hidden
