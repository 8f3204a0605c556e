"""Values of a params tree by the names of their flags, in Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.generics import field_types
from tfaip.params.limits import FieldError
from tfaip.params.names import oldnames
from tfaip.params.resolution.choices import full_name
from tfaip.params.resolution.entries import Entry, Group, Node
from tfaip.params.resolution.resolver import Resolver
from tfaip.params.resolution.sources import COMMAND_LINE, DEFAULT, Settings, Source
from tfaip.params.resolution.unknown import refuse_unknown, removed_note
from tfaip.params.tree.nodes import children, is_node, items_of, post_init
from tfaip.params.tree.places import Place, flag_of, walk_places
from tfaip.params.types import NamedObject, field_kind, origin_of
from tfaip.params.values.encoding import encode
from tfaip.params.values.words import Text
from tfaip.util.text import ERROR_LIMIT, shorten, shorten_text

_FIXED = {"fix_dc": True}


def root_of(params: Any) -> str:
    """Return the name that begins the flags of a tree; empty if it is not the tree of a command."""
    return getattr(type(params), "flag_root", "")


def flag_values(params: Any) -> dict[str, Any]:
    """Return the values of a tree by their flags, as for the config of a tracking service.

    Args:
        params: a tree. Flags of one without a command begin with the names of its fields.

    Returns:
        Flag without dashes -> value; the classes that a flag chooses are left out.
    """
    found: dict[str, Any] = {}
    for place, value in _walk(params):
        if place.is_hidden or children(value) is not None:
            continue
        found[place.flag] = value
        if isinstance(value, NamedObject):
            found[place.flag] = str(value.name)
            found.update((f"{place.flag}.{name}", item) for name, item in value.arguments.items())
    return found


def get_flag(params: Any, flag: str) -> Any:
    """Return the value, or the object, that a flag sets.

    Args:
        params: a tree. Flags of one without a command begin with the names of its fields.
        flag: with or without dashes.

    Raises:
        UsageError: if there is no such flag.
    """
    name = _name(flag)
    for place, value in _walk(params):
        if place.flag == name and not place.is_hidden:
            return value
        if isinstance(value, NamedObject) and name.startswith(f"{place.flag}."):
            return value.arguments.get(name.removeprefix(f"{place.flag}."))
        if is_node(value):
            for old, new in oldnames.renamed_fields(type(value)).items():
                if new in (children(value) or {}) and place.below(new, value).prefix + old == name:
                    oldnames.warn_renamed(f"--{name}", f"--{place.below(new, value).flag}")
                    return getattr(value, new)
    settings, roots = _resolve(params, {name: None})
    note = removed_note(name, roots)
    if note is not None:
        raise UsageError(f"--{name} was removed: {note}")
    refuse_unknown(settings, roots)
    raise AssertionError(name)


def set_flags(params: Any, values: Mapping[str, Any]) -> None:
    """Set values by their flags, as a command line does: either all or, after an error, none.

    Args:
        params: a tree; it is changed, and every `__post_init__` runs again. Flags of one without a
            command begin with the names of its fields.
        values: flag, with or without dashes -> a value of the field's type, or the text that would
            follow the flag on a command line. A class is chosen by its name, by itself or by an
            object of it.

    Raises:
        UsageError: an unknown flag, or a value that does not fit; what the command would print.
    """
    named = {_name(flag): value for flag, value in values.items()}
    objects = {flag: value for flag, value in named.items() if children(value) is not None}
    undo: list[tuple[Any, str, Any]] = []
    try:
        for flag, value in objects.items():
            _set_object(params, flag, value, undo)
        settings, roots = _resolve(params, {flag: value for flag, value in named.items() if flag not in objects})
        refuse_unknown(settings, roots)
        for entry, owner in list(_given(roots[0], params)):
            _set(owner, entry.name, entry.construct(), undo)
        _finish(params)
    except BaseException:
        for owner, name, before in reversed(undo):
            setattr(owner, name, before)
        if undo:
            post_init(params)
        raise


def check_flags(params: Any, values: Mapping[str, Any]) -> None:
    """Raise unless values have the types of their flags; no limit is checked, and nothing is set.

    Args:
        params: a tree.
        values: as `set_flags` takes them, without objects.

    Raises:
        UsageError: an unknown flag, or a value of another type.
    """
    refuse_unknown(*_resolve(params, {_name(flag): value for flag, value in values.items()}))


def _walk(params: Any) -> Iterator[tuple[Place, Any]]:
    return walk_places(params, Place.of_root(root_of(params)))


def _name(flag: str) -> str:
    if not isinstance(flag, str):
        raise TypeError(f"expected the name of a flag, got {shorten(flag)}")
    return flag.lstrip("-")


def _set(owner: Any, name: str, value: Any, undo: list[tuple[Any, str, Any]]) -> None:
    undo.append((owner, name, getattr(owner, name)))
    setattr(owner, name, value)


def _finish(params: Any) -> None:
    """Let the nodes share values, and check all limits."""
    try:
        post_init(params)
    except FieldError as error:
        error.name_flags(lambda path: flag_of(params, root_of(params), path))
        raise UsageError(str(error)) from error
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(shorten_text(str(error), ERROR_LIMIT)) from error


def _resolve(params: Any, values: Mapping[str, Any]) -> tuple[Settings, list[Node]]:
    """Return the settings with the given values, and the tree that was resolved from them."""
    plain = {flag: _plain(value, flag) for flag, value in values.items()}
    settings = Settings([Source(COMMAND_LINE, plain)])
    return settings, [Resolver(settings).root(root_of(params), type(params), params, _FIXED)]


def _plain(value: Any, flag: str) -> Any:
    """Return a value as a config file has it; a text as on a command line."""
    if isinstance(value, type):
        return full_name(value)
    if isinstance(value, Text):
        return value
    if isinstance(value, str) and not isinstance(value, Enum):
        return Text(value)
    try:
        return encode(value, None, f"--{flag}")
    except TypeError as error:
        raise UsageError(str(error)) from error


def _given(node: Node, owner: Any) -> Iterator[tuple[Entry, Any]]:
    """Yield each entry that was given, with the object that has the field."""
    for entry in node.entries:
        value = getattr(owner, entry.name)
        if entry.origin != DEFAULT:
            yield entry, owner
        elif isinstance(entry, Node) and is_node(value):
            yield from _given(entry, value)
        elif isinstance(entry, Group):
            items = items_of(value) or {}
            for item in entry.items or ():
                yield from _given(item, items[item.name])


def _set_object(params: Any, flag: str, value: Any, undo: list[tuple[Any, str, Any]]) -> None:
    """Set a node, or a container of nodes, as it is."""
    nodes = [(place, node) for place, node in _walk(params) if is_node(node)]
    for node_place, node in nodes:
        cls: Any = type(node)
        for name, declared in field_types(cls).items():
            place = node_place.below(name, node)
            if place.flag == flag and not place.is_hidden:
                _check_type(value, declared, flag)
                _set(node, name, value, undo)
                return
    refuse_unknown(*_resolve(params, {flag: None}))


def _check_type(value: Any, declared: Any, flag: str) -> None:
    kind = field_kind(declared)
    nodes = [value] if kind.kind == "node" else list((items_of(value) or {}).values())
    expected = origin_of(kind.declared)
    if kind.kind == "leaf" or not all(isinstance(node, expected) for node in nodes):
        wanted = getattr(expected, "__name__", str(expected))
        shown = shorten_text(", ".join(type(node).__name__ for node in nodes))
        raise UsageError(f"--{flag}: expected {wanted}, got {shown}")
