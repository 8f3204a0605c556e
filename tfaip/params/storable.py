"""Checks that params can be stored and read again, before a training begins with them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.codec import Decoder, encode
from tfaip.params.generics import field_types
from tfaip.params.resource import Resource
from tfaip.params.settings import check
from tfaip.params.tree import Place, children, diff, flag_of, is_node, node_fields
from tfaip.params.types import NamedObject, load_function, type_name
from tfaip.util.text import shorten, shorten_text


def prepare(params: Any, root: str) -> None:
    """Run `post_init` and `conform`; a `__post_init__` may fail on a value of a wrong type.

    Args:
        params: the root of the tree.
        root: name of the root, which begins its flags.

    Raises:
        UsageError: a value does not fit its field.
        FieldError: a field does not keep its limits; the message names the flag.

    """
    try:
        check(params, root)
    # What a `__post_init__` raises for a value of a wrong type.
    except (ArithmeticError, AttributeError, RecursionError, TypeError, ValueError):
        conform(params, root)
        check(params, root)
    conform(params, root)


def conform(params: Any, root: str) -> None:
    """Check every value of a tree against the type of its field.

    A value that the type can hold without loss is replaced: an int by a float, 3.0 by an int, 0 and
    1 by a bool, a tuple by a list, the value of an enum by its member, a path by its text.
    Functions that are given by name are imported. A required field must not be empty.

    Args:
        params: the root of the tree.
        root: name of the root, which begins its flags.

    Raises:
        UsageError: a value does not fit; the message names the flag of its field.
    """
    _conform_node(params, Place.of_root(root))


def require_readable(params: Any, cls: Any, root: str) -> None:
    """Encode a tree as a file would hold it, decode it, and compare.

    Args:
        params: the root of the tree, after `conform`.
        cls: declared class of the root, with which it will be read.
        root: name of the root, for messages.

    Raises:
        UsageError: something cannot be stored, or would be read as something else; the message
            names the field.
    """
    try:
        encoded = encode(params, None, root)
    except (AttributeError, TypeError) as error:
        raise UsageError(str(error)) from error
    # Only a real round trip shows what a `__post_init__` changes when it runs again.
    decoded = _OWN.decode(encoded, cls, root)
    for change in diff(params, decoded):
        if not _is_lossless(change.old, change.new):
            raise UsageError(
                f"{flag_of(params, root, change.path)} is {shorten(change.old)}, but would be read from a file as "
                f"{shorten(change.new)}: __post_init__ must give the same values when it runs again"
            )


class _OwnValues(Decoder):
    """Decoder of what the running program has encoded: its functions are imported."""

    def _check_function(self, name: str, place: str) -> None:
        load_function(name, place)


_OWN = _OwnValues(None)


def _conform_node(node: Any, place: Place, above: tuple[Any, ...] = ()) -> None:
    """Check the fields of a node and everything below it; `above` are the nodes that hold it."""
    if any(node is other for other in above):
        raise UsageError(f"{place.label} contains itself: give it a copy")
    cls: Any = type(node)
    types_of = field_types(cls)
    for field in node_fields(node):
        if not hasattr(node, field.name):
            continue  # declared with init=False, and not set yet
        value, below = getattr(node, field.name), place.below(field.name, node)
        # None, if the type allows it, means that there is deliberately no value.
        if field.metadata.get("required") and isinstance(value, str | list | tuple | dict) and not value:
            raise UsageError(f"{below.label} is required, and empty: give it a value")
        try:
            parts = children(value)
            conformed = _conformed(value, types_of[field.name], below) if parts is None else value
        except RecursionError as error:
            raise UsageError(f"{below.label} contains itself, or is nested too deeply") from error
        found = [(below, value)]
        if not is_node(value):
            found = [(below.below(name, value), part) for name, part in (parts or {}).items()]
        for part_place, part in found:
            if is_node(part):
                _conform_node(part, part_place, (*above, node))
        if conformed is not value:
            # A frozen node keeps its value, which means the same.
            with contextlib.suppress(dataclasses.FrozenInstanceError):
                setattr(node, field.name, conformed)


def _conformed(value: Any, declared: Any, place: Place) -> Any:
    try:
        encoded = encode(value, None, place.label)
    except TypeError:
        return value  # it can be used, but not stored: `require_readable` finds it
    decoded = _OWN.decode(encoded, declared, place.label)
    if not _is_lossless(value, decoded):
        raise UsageError(
            f"{place.label} is {shorten(value)}, but would be read from a file as {shorten(decoded)}: change the "
            f"value, or the type of the field ({shorten_text(type_name(declared))})"
        )
    # The object itself stays, if possible: it may be shared.
    return value if _is_identical(value, decoded) else decoded


def _is_lossless(value: Any, decoded: Any) -> bool:
    """Return True if both mean the same, even if their types differ."""
    if isinstance(value, list | tuple) and isinstance(decoded, list | tuple):
        return len(value) == len(decoded) and all(map(_is_lossless, value, decoded))
    if isinstance(value, Mapping) and isinstance(decoded, Mapping):
        return list(value) == list(decoded) and all(map(_is_lossless, value.values(), decoded.values()))
    if isinstance(decoded, NamedObject):
        return value in (decoded, decoded.name)
    if isinstance(decoded, Enum):
        return bool(value in (decoded, decoded.value, decoded.name)) or type(decoded)._missing_(value) is decoded
    if isinstance(decoded, Resource | PurePath) or isinstance(value, PurePath):
        return str(decoded) == str(value) or decoded == type(decoded)(value)
    both_nan = value != value and decoded != decoded
    return bool(value == decoded) or both_nan


def _is_identical(value: Any, decoded: Any) -> bool:
    """Return True if the values are equal and their types are, too."""
    if type(value) is not type(decoded):
        return False
    if isinstance(value, list | tuple):
        return all(map(_is_identical, value, decoded))
    if isinstance(value, dict):
        pairs = zip([*value, *value.values()], [*decoded, *decoded.values()], strict=True)
        return all(_is_identical(a, b) for a, b in pairs)
    return True
