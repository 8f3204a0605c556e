"""Nodes of a tree of params: its parts, all its values, its checks.

Nodes are the instances of dataclasses. Lists, tuples and dicts that contain nodes belong to the
tree, with the index or the key as a part of the path; those without nodes are values like any
other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from tfaip.params.limits import FieldAdvice, FieldError, check_fields
from tfaip.params.names.trust import top_package
from tfaip.util.text import ERROR_LIMIT, shorten_text


def is_node(value: Any) -> bool:
    """Return True for a node of a params tree: an instance of a dataclass."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def node_fields(node: Any) -> tuple[dataclasses.Field[Any], ...]:
    """Return the dataclass fields of a node, or of a class of nodes."""
    cls = node if isinstance(node, type) else type(node)
    return dataclasses.fields(cls)


def values_of(node: Any) -> dict[str, Any]:
    """Return the values of the fields of a node by name."""
    return {field.name: getattr(node, field.name) for field in node_fields(node)}


def field_default(field: dataclasses.Field[Any]) -> Any:
    """Return the default that the class gives to a field, or `MISSING`."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def has_default(field: dataclasses.Field[Any]) -> bool:
    """Return True if the class gives a default to a field, which is not made here."""
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


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
        return values_of(value)
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
        yield from walk(child, join_path(path, name))


def nodes_of(params: Any) -> Iterator[Any]:
    """Yield all nodes of a tree, the outermost first."""
    if is_node(params):
        yield params
    for child in (children(params) or {}).values():
        yield from nodes_of(child)


def packages_of(params: Any) -> set[str]:
    """Return the top-level packages of the classes of all nodes of a tree."""
    return {top_package(type(node).__module__) for node in nodes_of(params)}


def post_init(params: Any, path: str = "") -> None:
    """Check all limits of a tree and run every `__post_init__` again, children first, to share values.

    Args:
        params: the root of the tree, or what is at a path.
        path: dotted path, for errors.

    Raises:
        FieldError: if a value is not allowed, or a `__post_init__` fails; its path begins at the root.
    """
    for name, child in (children(params) or {}).items():
        post_init(child, join_path(path, name))
    if not is_node(params):
        return
    try:
        if hasattr(params, "__post_init__"):
            params.__post_init__()
        check_fields(params)  # also of a class whose __post_init__ does not call the inherited one
    except FieldError as error:
        if path:
            error.move_below(path)
        raise
    except (TypeError, ValueError, OverflowError) as error:
        node = join_path(path, "*")
        raise FieldAdvice(f"{{{node}}}: {shorten_text(str(error), ERROR_LIMIT)}", node) from error


def join_path(path: str, part: str) -> str:
    """Return the dotted path of a part of what is at a dotted path."""
    return f"{path}.{part}" if path else part
