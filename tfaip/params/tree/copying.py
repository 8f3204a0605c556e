"""Copies of whole trees of params."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from tfaip.params.tree.nodes import is_node, node_fields

T = TypeVar("T")


def copy_tree(value: T, copies: dict[int, Any] | None = None) -> T:
    """Return a copy of a tree: nodes, lists, tuples and dicts are copied, other values, which may be large, shared.

    Args:
        value: a node, a container of nodes, or a value.
        copies: the copies so far by the id of the original: one node in two places stays one node.

    Raises:
        RecursionError: if the tree contains itself.
    """
    copied: Any = _copy(value, {} if copies is None else copies)
    return copied


def share_tree(value: Any, copies: dict[int, Any]) -> None:
    """Add the nodes of a tree to `copies` as their own copies: `copy_tree` keeps them as they are."""
    if id(value) in copies or not is_node(value):
        return
    copies[id(value)] = value
    for field in node_fields(value):
        share_tree(getattr(value, field.name, None), copies)


def _copy(value: Any, copies: dict[int, Any]) -> Any:
    if id(value) in copies:
        return copies[id(value)]
    if type(value) is list:
        return [_copy(item, copies) for item in value]
    if type(value) is tuple:
        return tuple(_copy(item, copies) for item in value)
    if type(value) is dict:
        return {key: _copy(item, copies) for key, item in value.items()}
    if not is_node(value):
        return value
    copied = copies[id(value)] = copy.copy(value)
    for field in node_fields(value):
        if hasattr(value, field.name):
            # Also in frozen nodes.
            object.__setattr__(copied, field.name, _copy(getattr(value, field.name), copies))
    return copied
