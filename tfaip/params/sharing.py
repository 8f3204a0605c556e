"""Filling in of what params share: see `tfaip.params.fields`."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from tfaip.errors import UsageError
from tfaip.params.fields import Shared, copied, shared_of
from tfaip.params.generics import resolve_annotation
from tfaip.params.tree import is_node, items_of, node_fields
from tfaip.params.types import members_of, strip

T = TypeVar("T")


def fill_shared(params: Any, source: Any, strict: bool = True) -> None:
    """Set the shared attributes of all nodes of a tree.

    Args:
        params: root of the tree.
        source: params of the scenario, or of its data, where the values are.
        strict: raise if a value cannot be found; otherwise it stays as it is.

    Raises:
        UsageError: if there is no such value, or several.
    """
    for path, node, attribute in _holders(params):
        try:
            value = _find(attribute, node, path, source)
        except UsageError:
            if strict:
                raise
            continue
        if vars(node).get(attribute.name) is not value:
            setattr(node, attribute.name, value)


def with_shared(params: T, source: Any) -> T:
    """Return params with their shared attributes, a copy if these must be changed.

    What the source does not have may have been given by hand.

    Args:
        params: of a generator or of processors, which may belong to no tree.
        source: as in `fill_shared`.

    Raises:
        UsageError: if there is no such value, or several.
    """
    changes = False
    for path, node, attribute in _holders(params):
        value = vars(node).get(attribute.name)
        found = _find(attribute, node, path, source, value)
        changes = changes or found is not value
    if not changes:
        return params
    params = copied(params)
    for path, node, attribute in _holders(params):
        setattr(node, attribute.name, _find(attribute, node, path, source, vars(node).get(attribute.name)))
    return params


def _holders(params: Any) -> Iterator[tuple[str, Any, Shared]]:
    """Yield each node that has a shared attribute, with its path."""
    for path, node in _nodes(params):
        for attribute in shared_of(type(node)).values():
            yield path, node, attribute


def _nodes(params: Any) -> Iterator[tuple[str, Any]]:
    """Yield the nodes of a tree with their dotted paths, each once, parents first."""
    seen = set()
    waiting = deque([("", params)])
    while waiting:
        path, node = waiting.popleft()
        if not is_node(node) or id(node) in seen:
            continue
        seen.add(id(node))
        yield path, node
        for field in node_fields(node):
            below = f"{path}.{field.name}" if path else field.name
            value = getattr(node, field.name, None)
            items = items_of(value) if _holds_nodes(value) else None
            if items is None:
                waiting.append((below, value))
            else:
                waiting.extend((f"{below}.{name}", item) for name, item in items.items())


def _holds_nodes(value: Any) -> bool:
    """Return True for a container of nodes; fast for one of a million samples."""
    if isinstance(value, Mapping):
        value = list(value.values())
    return isinstance(value, list | tuple) and any(map(is_node, value[:1]))


def _find(attribute: Shared, node: Any, path: str, source: Any, given: Any = None) -> Any:
    """Return the node of the source that a shared attribute means; if there is none, what was given."""
    declared = declared_class(attribute)
    data = getattr(source, "data", None)
    for first in (data, source):
        if isinstance(first, declared) and first is not node:
            return first
    found = [(name, other) for name, other in _nodes(source) if isinstance(other, declared) and other is not node]
    if len(found) == 1:
        return found[0][1]
    if not found and given is not None:
        return given
    place = f"{type(node).__name__}.{attribute.name}"
    if path:
        place = f"{place} ({path}.{attribute.name})"
    if found:
        names = " and ".join(f"{name} ({type(other).__name__})" for name, other in found[:3])
        raise UsageError(f"{place} is shared: {declared.__name__}, which the scenario has several times, at {names}")
    data = source if data is None else data
    raise UsageError(
        f"{place} is shared: {declared.__name__}, which the scenario does not have; its data are {type(data).__name__}"
    )


@functools.cache
def declared_class(attribute: Shared) -> type:
    """Return the class that a shared attribute is annotated with.

    Raises:
        TypeError: if it is annotated with something else.
    """
    declared = strip(resolve_annotation(attribute.declared, attribute.owner))
    members, _ = members_of(declared)
    if len(members) == 1:
        declared = members[0]
    if not isinstance(declared, type):
        raise TypeError(
            f"{attribute.owner.__qualname__}.{attribute.name} = shared() is annotated with {attribute.declared}, "
            "expected a class of params"
        )
    return declared
