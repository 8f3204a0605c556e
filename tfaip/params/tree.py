"""Trees of params: their nodes, values, copies, differences and places.

Nodes are the instances of dataclasses. Lists, tuples and dicts that contain nodes belong to the tree, with the index or
the key as a part of the path; those without nodes are values like any other.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from tfaip.errors import UsageError
from tfaip.params.fields import FieldAdvice, FieldError, Shared, check_fields, copied, shared_of
from tfaip.params.names import current_name, did_you_mean
from tfaip.params.types import field_kind, resolve_annotation
from tfaip.util.text import ERROR_LIMIT, shorten, shorten_text

_SEQUENCES = list | tuple | set | frozenset
_CONTAINERS = Mapping | _SEQUENCES


def is_node(value: Any) -> bool:
    """Return True for a node of a params tree: an instance of a dataclass."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def node_fields(node: Any) -> tuple[dataclasses.Field[Any], ...]:
    """Return the dataclass fields of a node, or of a class of nodes."""
    cls = node if isinstance(node, type) else type(node)
    return dataclasses.fields(cls)


def values_of(node: Any) -> dict[str, Any]:
    """Return the values of the fields of a node by name, without those that are not set yet."""
    return {field.name: getattr(node, field.name) for field in node_fields(node) if hasattr(node, field.name)}


def field_default(field: dataclasses.Field[Any]) -> Any:
    """Return the default that the class gives to a field, or `MISSING`."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def has_default(field: dataclasses.Field[Any]) -> bool:
    """Return True if the class gives a default to a field, which is not made here."""
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def make_node(cls: Any, values: Mapping[str, Any]) -> Any:
    """Return a node with values, and defaults for other fields; `__post_init__` is left to the caller."""
    node = cls.__new__(cls)
    for field in node_fields(cls):
        if field.name in values or has_default(field):
            value = values[field.name] if field.name in values else field_default(field)
            object.__setattr__(node, field.name, value)  # also in frozen nodes
    return node


def items_of(value: Any) -> dict[str, Any] | None:
    """Return the items of a dict, list, tuple or set by key or index as text; None for others."""
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, _SEQUENCES):
        return {str(index): item for index, item in enumerate(value)}
    return None


def children(value: Any) -> dict[str, Any] | None:
    """Return the parts of a node, or of a container of nodes, by name; None for a plain value."""
    if is_node(value):
        return values_of(value)
    return items_of(value) if _holds_nodes(value) else None


def _holds_nodes(value: Any) -> bool:
    """Return True for a container of nodes, or of such containers; only the first ones are looked at."""
    if not isinstance(value, _CONTAINERS):
        return False
    items = islice(value.values() if isinstance(value, Mapping) else value, 10)
    return any(is_node(item) or (item is not value and _holds_nodes(item)) for item in items)


def nodes_of(params: Any) -> Iterator[Any]:
    """Yield all nodes of a tree, each once, the outermost first."""
    return (node for _, node in nodes_by_path(params))


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


class Place(NamedTuple):
    """Place of a value in a tree: its flag, or its dotted path if it has none.

    Args:
        prefix: beginning of the flag.
        name: of the field; the rest of the flag.
        path: dotted path, with the name of the root.
        meta: of the field.
    """

    prefix: str
    name: str
    path: str
    meta: Mapping[str, Any]

    @classmethod
    def of_root(cls, root: str) -> Place:
        """Return the place of the root of a tree; its name may be empty."""
        return cls("", root, root, {})

    @property
    def flag(self) -> str:
        """The flag without dashes."""
        return self.prefix + self.name

    @property
    def label(self) -> str:
        """The flag with dashes, or the path if there is no flag."""
        return self.path if self.is_hidden else f"--{self.flag}"

    @property
    def is_hidden(self) -> bool:
        """True if there is no flag."""
        return self.meta.get("mode") == "ignore"

    def below(self, name: str, parent: Any) -> Place:
        """Return the place of a field of the node here, or of an item of the container here.

        Args:
            name: of the field, or index or key of the item.
            parent: the node or container; or the class of the node.
        """
        meta: Mapping[str, Any] = {"separator": self.meta.get("separator", ".")}
        fields = parent.__dataclass_fields__ if is_dataclass(parent) else {}
        if name in fields:
            meta = fields[name].metadata
        mode, prefix = meta.get("mode", "snake"), self.prefix
        if mode == "flat":
            prefix = ""
        elif mode != "ssnake" and self.name:
            prefix = f"{self.flag}{meta.get('separator', '.')}"
        if self.is_hidden:
            meta = {**meta, "mode": "ignore"}
        return Place(prefix, name, f"{self.path}.{name}" if self.path else name, meta)


def place_at(params: Any, root: str, path: str) -> Place:
    """Return the place of the node or value at a path.

    Args:
        root: its name, which begins its flags.
        path: dotted path from the root, which may no longer exist; `__cls__` is the class of the node above.
    """
    place, value = Place.of_root(root), params
    for name in filter(None, path.removesuffix("__cls__").split(".")):
        place = place.below(name, value)
        value = (children(value) or {}).get(name)
    return place


def flag_of(params: Any, root: str, path: str) -> str:
    """Return the flag with dashes of the field at a path (see `place_at`), or the path if it has none."""
    return place_at(params, root, path).label


def walk_places(params: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    """Yield every node, container and value of a tree with its place, in the order of the fields."""
    yield place, params
    for name, child in (children(params) or {}).items():
        yield from walk_places(child, place.below(name, params))


def get_path(params: Any, path: str) -> Any:
    """Return the node or value at a dotted path; "" is the root.

    Raises:
        UsageError: a part of the path does not exist.
    """
    value, walked = params, ""
    for part in path.split(".") if path else []:
        if is_node(value):
            part = current_name(type(value), part)
            parts = values_of(value)
        else:
            parts = items_of(value) or {}
        if part not in parts:
            place = f"{walked} ({type(value).__name__})" if walked else type(value).__name__
            raise UsageError(f"{place} has no {shorten(part)}{did_you_mean(part, parts)}")
        value, walked = parts[part], join_path(walked, part)
    return value


T = TypeVar("T")


class _Absent:
    def __repr__(self) -> str:
        return "(absent)"


ABSENT = _Absent()


class Change(NamedTuple):
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


def diff(old: Any, new: Any, path: str = "") -> list[Change]:
    """Return what differs between two trees; another class counts as a change of the node."""
    old_parts, new_parts = children(old), children(new)
    if old_parts is None and new_parts is None:
        return [] if same(old, new) else [Change(path, old, new)]
    changes = []
    if old_parts is not None and new_parts is not None:
        if type(old) is not type(new):
            changes.append(Change(path, type(old), type(new)))
    elif items_of(old) is None or items_of(new) is None:  # a node, or a container of nodes, and a value
        changes.append(Change(path, *(type(value) if is_node(value) else value for value in (old, new))))
    before = old_parts or items_of(old) or {}
    after = new_parts or items_of(new) or {}
    for name in dict.fromkeys([*before, *after]):
        changes += diff(before.get(name, ABSENT), after.get(name, ABSENT), join_path(path, name))
    return changes


def same(old: Any, new: Any) -> bool:
    """Return True if two values are equal, and so are all items in them; NaN is equal to itself, and True is not 1."""
    if old is new:
        return True
    if isinstance(old, list | tuple) and type(old) is type(new) and len(old) == len(new):
        return bool(old == new) or all(map(same, old, new))
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return old.keys() == new.keys() and all(same(item, new[key]) for key, item in old.items())
    both_nan = isinstance(old, float) and isinstance(new, float) and old != old and new != new
    return both_nan or ((type(old) is bool) == (type(new) is bool) and bool(old == new))


def _shown(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else repr(value)


def fill_shared(params: Any, source: Any, strict: bool = True) -> None:
    """Set the shared attributes of all nodes of a tree.

    Args:
        source: params of the scenario, or of its data, where the values are.
        strict: raise if a value cannot be found; otherwise it stays as it is.

    Raises:
        UsageError: if there is no such value, or several.
    """
    for node, attribute, value in _shared_values(params, source, strict):
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
    if any(_shared_values(params, source)):
        params = copied(params)
        fill_shared(params, source)
    return params


def _shared_values(params: Any, source: Any, strict: bool = True) -> Iterator[tuple[Any, Shared, Any]]:
    """Yield each shared attribute that has another value than the one in the source, with its node and this value."""
    for path, node in nodes_by_path(params):
        for attribute in shared_of(node.__class__).values():
            given = vars(node).get(attribute.name)
            with contextlib.nullcontext() if strict else contextlib.suppress(UsageError):
                value = _find(attribute, node, path, source, given)
                if value is not given:
                    yield node, attribute, value


def nodes_by_path(params: Any) -> Iterator[tuple[str, Any]]:
    """Yield the nodes of a tree with their dotted paths, each once, parents first."""
    seen = set()
    waiting = deque([("", params)])
    while waiting:
        path, value = waiting.popleft()
        parts = children(value)
        if parts is None or id(value) in seen:
            continue
        seen.add(id(value))
        if is_node(value):
            yield path, value
            parts = values_of(value)  # whoever got the node may have changed it
        waiting.extend((join_path(path, name), part) for name, part in parts.items())


def _find(attribute: Shared, node: Any, path: str, source: Any, given: Any = None) -> Any:
    """Return the node of the source that a shared attribute means; if there is none, what was given."""
    declared, data = declared_class(attribute), getattr(source, "data", None)
    for first in (data, source):
        if isinstance(first, declared) and first is not node:
            return first
    parts = nodes_by_path(source)
    found = [(name, part) for name, part in parts if part is not node and isinstance(part, declared)]
    if len(found) == 1:
        return found[0][1]
    if not found and given is not None:
        return given
    place = f"{type(node).__name__}.{attribute.name}"
    if path:
        place = f"{place} ({path}.{attribute.name})"
    known = " and ".join(f"{name} ({type(other).__name__})" for name, other in found[:3])
    data = source if data is None else data
    reason = f"has several times, at {known}" if found else f"does not have; its data are {type(data).__name__}"
    raise UsageError(f"{place} is shared: {attribute.kind}, which the scenario {reason}")


@functools.cache
def declared_class(attribute: Shared) -> type:
    """Return the class that a shared attribute is annotated with."""
    declared: type = field_kind(resolve_annotation(attribute.declared, attribute.owner)).declared
    return declared
