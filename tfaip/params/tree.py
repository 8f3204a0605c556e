"""The params tree as a whole."""

from __future__ import annotations

import dataclasses
from typing import Any

from tfaip.params.meta import ensure_dataclass


def is_node(value: Any) -> bool:
    """Whether `value` is a node of a params tree: an instance of a dataclass."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def post_init(params: Any) -> None:
    """Run every `__post_init__` of the tree again, children first, so that shared values are passed on."""
    for child in _children(params):
        post_init(child)
    if is_node(params) and hasattr(params, "__post_init__"):
        params.__post_init__()


def _children(value: Any) -> list[Any]:
    if is_node(value):
        return [getattr(value, field.name) for field in dataclasses.fields(ensure_dataclass(type(value)))]
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple | set | frozenset) else []
