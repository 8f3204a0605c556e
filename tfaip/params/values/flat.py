"""Stored params as one dict of dotted paths, or of flags, to compare and to show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tfaip.params.codec import CLASS_KEY
from tfaip.params.declaration.generics import field_types
from tfaip.params.tree.places import Place
from tfaip.params.types.kinds import FieldKind, field_kind, origin_of
from tfaip.params.types.objects import ARGUMENTS, CLASS

_UNKNOWN = FieldKind("leaf", None, optional=False)


class ClassName(str):
    """Stored name of the class of a node: `module:Class`."""

    __slots__ = ()


def flat_params(value: Any, path: str = "") -> dict[str, Any]:
    """Return stored params as dotted path -> value; a list without params in it is a value."""
    if isinstance(value, dict) and value.keys() == {CLASS, ARGUMENTS}:  # an object: its class, and its arguments
        return {path: value[CLASS], **{f"{path}.{name}": item for name, item in value[ARGUMENTS].items()}}
    parts = _parts(value)
    if parts is None:
        return {path: value}
    flat: dict[str, Any] = {}
    for name, item in parts.items():
        below = f"{path}.{name}" if path else str(name)
        flat.update(flat_params(item, below))
    return flat


def flat_flags(stored: Mapping[str, Any], declared: Any, root: str) -> dict[str, Any]:
    """Return stored params as flag -> value, without dashes; what has no flag is named by its dotted path.

    The value of a node whose class can be chosen is its class; that of a list or dict of nodes are theirs. No class
    that is stored is imported: fields of these have the flags that fields have by default.

    Args:
        stored: of the root.
        declared: class of the root; its fields, and those of the classes that it declares, are known.
        root: name of the root, which begins its flags.
    """
    flat: dict[str, Any] = {}
    for flag, path, value in _flags(stored, FieldKind("node", declared, optional=False), Place.of_root(root)):
        flat[path if flag in flat else flag] = value
    return flat


def _flags(value: Any, kind: FieldKind, place: Place) -> Iterator[tuple[str, str, Any]]:
    """Yield flag, dotted path and value of each part of a stored value."""
    path = place.path.partition(".")[2]
    parts = _parts(value)
    if parts is None or (kind.kind == "leaf" and kind is not _UNKNOWN):
        yield path if place.is_hidden else place.flag, path, value
    elif isinstance(value, list) or kind.kind == "dict":
        classes = {name: _class_name(item.get(CLASS_KEY)) for name, item in parts.items() if isinstance(item, dict)}
        yield place.flag, path, list(classes.values()) if isinstance(value, list) else classes
        below = _UNKNOWN if kind is _UNKNOWN else FieldKind("node", kind.declared, optional=False)
        for name, item in parts.items():
            if isinstance(item, dict):
                item = {key: part for key, part in item.items() if key != CLASS_KEY}
            yield from _flags(item, below, place.below(str(name), value))
    else:
        yield from _flags_of_node(parts, kind, place, path)


def _flags_of_node(
    parts: Mapping[Any, Any], kind: FieldKind, place: Place, path: str
) -> Iterator[tuple[str, str, Any]]:
    cls = origin_of(kind.declared) if kind.kind == "node" else None
    types = field_types(kind.declared) if cls is not None else {}
    for name, item in parts.items():
        if name == CLASS_KEY:
            path_of_class = f"{path}.{name}" if path else name
            has_flag = bool(path) and not place.is_hidden and not place.meta.get("fix_dc")
            yield place.flag if has_flag else path_of_class, path_of_class, _class_name(item)
        else:
            below = field_kind(types[name]) if name in types else _UNKNOWN
            yield from _flags(item, below, place.below(str(name), cls))


def _class_name(stored: Any) -> Any:
    return ClassName(stored) if isinstance(stored, str) else stored


def _parts(value: Any) -> dict[Any, Any] | None:
    """Return the parts of a stored node or container of nodes; None for a plain value."""
    if isinstance(value, dict):
        return value
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return dict(enumerate(value))
    return None
