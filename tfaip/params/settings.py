"""Settings of a params tree: every value that a command line, a file, a stage or a program sets is set here.

A setting has a flag, a value and its origin. The flags are those of the command that has the tree; those of another
tree begin with the names of its fields.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

from tfaip.errors import UsageError
from tfaip.params.choices import full_name
from tfaip.params.codec import Text, encode
from tfaip.params.limits import FieldError
from tfaip.params.names import renamed_fields, warn_renamed
from tfaip.params.resolver import Node, Resolver, set_field
from tfaip.params.sources import COMMAND_LINE, DEFAULT, Setting, Settings, Source
from tfaip.params.tree import Place, children, copy_tree, diff, is_node, node_fields, nodes_of, post_init, walk_places
from tfaip.params.types import NamedObject
from tfaip.params.unknown import all_entries, refuse_unknown, removed_note
from tfaip.util.text import shorten, shorten_text

T = TypeVar("T")

_FIXED = {"fix_dc": True}
_NO_ORIGINS: Mapping[str, str] = {}


def root_of(params: Any) -> str:
    """Return the name that begins the flags of a tree; empty if it is not the tree of a command."""
    return getattr(type(params), "flag_root", "")


def apply(tree: T, settings: Iterable[Setting], trusted: Iterable[str] = ()) -> tuple[T, dict[str, str]]:
    """Return a copy of a tree with other values, and the origin of each flag that was given.

    Classes are chosen before their fields are set, whatever the order. Of two settings the later one wins; a later
    choice of a class drops the fields of the former class that its own source does not set. Values that are not
    given stay the same objects, and a node in two places stays one node. `__post_init__` runs once, at the end.

    Args:
        tree: stays as it is.
        settings: in order; those of one origin that follow each other are one source.
        trusted: packages that files may name classes and functions of.

    Raises:
        UsageError: an unknown flag, or a value that does not fit; what the command would print.
    """
    sources = [
        Source(origin, {setting.path: setting.value for setting in given})
        for origin, given in groupby(settings, lambda setting: setting.origin)
    ]
    root = _resolve(copy_tree(tree), sources, trusted)
    return build(root), origins_of(root)


def differences(old: Any, new: Any, root: str | None = None) -> list[Setting]:
    """Return the settings with which `apply` makes one tree equal to another; what has no flag is left out.

    Args:
        old: a tree.
        new: another tree of the same class; params of other classes, and lists of other lengths, are its own objects.
        root: name of the root; None: that of the command.
    """
    return list(_differences(old, new, Place.of_root(root_of(new) if root is None else root)))


def _differences(old: Any, new: Any, place: Place) -> Iterator[Setting]:
    before, after = children(old), children(new)
    if place.is_hidden:
        return
    if type(old) is type(new) and before is not None and after is not None and before.keys() == after.keys():
        for name, value in after.items():
            yield from _differences(before[name], value, place.below(name, new))
    elif diff(old, new):
        value = new
        if after is None:
            with contextlib.suppress(TypeError):  # it cannot be stored, and is taken as it is
                value = encode(new)
        yield Setting(place.flag, value)


def origins_of(root: Node) -> dict[str, str]:
    """Return the origin of each flag of a resolved tree that was given."""
    return {entry.flag: entry.origin for entry in all_entries([root]) if entry.origin != DEFAULT}


def build(root: Node) -> Any:
    """Build the objects of a resolved tree, and check them.

    Raises:
        UsageError: if one of them refuses its values.
    """
    built = root.construct()
    check(built, root.flag, origins_of(root))
    return built


def check(params: Any, root: str, origins: Mapping[str, str] = _NO_ORIGINS) -> None:
    """Check all limits of a tree and run every `__post_init__`, children first, so that nodes can share values.

    Args:
        params: the root of the tree.
        root: name of the root, which begins its flags.
        origins: flag -> where its value comes from, for messages.

    Raises:
        FieldError: if a value is not allowed, or a `__post_init__` fails; the message names the flag.
    """
    try:
        post_init(params)
    except FieldError as error:
        error.name_flags(partial(_label, params, Place.of_root(root), origins))
        raise


@contextlib.contextmanager
def flags_of(params: Any, root: str, path: str = "") -> Iterator[None]:
    """Context that adds its flag to the error of a field of a tree.

    Args:
        params: the root of the tree.
        root: name of the root, which begins its flags.
        path: dotted path of the object that the block checks, if it is not the root.
    """
    try:
        yield
    except FieldError as error:
        if not error.flags:  # else a context within this one knew more
            if path:
                error.move_below(path)
            error.name_flags(lambda field: _label(params, Place.of_root(root), _NO_ORIGINS, field) or field)
        raise


def _label(value: Any, place: Place, origins: Mapping[str, str], path: str) -> str | None:
    """Return the flag of a field at a path, with the file that gives its value; None if there is no such field."""
    for name in path.split("."):
        parts = children(value) or {}
        if name not in parts and name != "*":
            return None
        place, value = place.below(name, value), parts.get(name)
    origin = origins.get(place.flag, DEFAULT)
    return place.label if origin in (COMMAND_LINE, DEFAULT) else f"{place.flag} in {shorten_text(origin)}"


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
            for old, new in renamed_fields(type(value)).items():
                if new in (children(value) or {}) and place.below(new, value).prefix + old == name:
                    warn_renamed(f"--{name}", f"--{place.below(new, value).flag}")
                    return getattr(value, new)
    note = removed_note(name, [_resolve(params, [])])
    if note is not None:
        raise UsageError(f"--{name} was removed: {note}")
    _resolve(params, [Source(COMMAND_LINE, {name: None})])
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
    nodes = [node for tree in (params, *values.values()) for node in nodes_of(tree)]
    names = [(node, field.name) for node in nodes for field in node_fields(node) if hasattr(node, field.name)]
    before = [(node, name, getattr(node, name)) for node, name in names]
    try:
        build(_resolve(params, [_source_of(values)]))
    except BaseException:
        for node, name, value in before:
            if getattr(node, name, None) is not value:
                set_field(node, name, value)
        raise


def check_flags(params: Any, values: Mapping[str, Any]) -> None:
    """Raise unless values have the types of their flags; no limit is checked, and nothing is set.

    Args:
        params: a tree.
        values: as `set_flags` takes them.

    Raises:
        UsageError: an unknown flag, or a value of another type.
    """
    _resolve(params, [_source_of(values)])


def _walk(params: Any) -> Iterator[tuple[Place, Any]]:
    return walk_places(params, Place.of_root(root_of(params)))


def _name(flag: str) -> str:
    if not isinstance(flag, str):
        raise TypeError(f"expected the name of a flag, got {shorten(flag)}")
    return flag.lstrip("-")


def _resolve(params: Any, sources: Sequence[Source], trusted: Iterable[str] = ()) -> Node:
    """Return a tree with the settings that are given; `construct` sets them in it."""
    settings = Settings(sources)
    root = Resolver(settings, trusted).root(root_of(params), type(params), params, _FIXED)
    refuse_unknown(settings, [root])
    return root


def _source_of(values: Mapping[str, Any]) -> Source:
    """Return values of a Python program as a command line gives them."""
    return Source(COMMAND_LINE, {_name(flag): _given(value, _name(flag)) for flag, value in values.items()})


def _given(value: Any, flag: str) -> Any:
    """Return a value as a config file has it; a text as on a command line; params as they are."""
    if children(value) is not None:
        return value
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
