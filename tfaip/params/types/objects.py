"""Objects that params name without importing them: `module:Class`, or the name of a registered class."""

from __future__ import annotations

import re
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.names.trust import Trust, check_module, is_full_name, top_package
from tfaip.params.types.kinds import origin_of
from tfaip.util.text import shorten

_REGISTERED = re.compile(r"[\w.-]{1,100}>\w{1,100}", re.ASCII)


class ObjectName(str):
    """Type of a field that holds the name of a class or function, which is imported when it is used.

    The command line and Python code may name anything, a file only what is in trusted packages.
    """

    __slots__ = ()


class ObjectNameOfFile(ObjectName):
    """Name that a file gives, of a package of which it may only name what is made for params."""

    __slots__ = ()


def is_object_name(name: str) -> bool:
    """Return True for `module:Class` and for `package>Name`."""
    return is_full_name(name) or _REGISTERED.fullmatch(name) is not None


def checked_object_name(name: str, trusted: Trust | None, place: str) -> ObjectName:
    """Return the name of an object if a file may name it; nothing is imported.

    Args:
        name: as in the file.
        trusted: what the file may name; None: the name is no file's, and may be anything.
        place: dotted path, for messages.

    Raises:
        UsageError: if it may not.
    """
    if not is_object_name(name):
        raise UsageError(f"{place}: expected module:Class or package>Name, got {shorten(name)}")
    if trusted is None or ":" not in name:  # registered objects are those of modules that are imported already
        return ObjectName(name)
    check_module(name, trusted, place)
    return ObjectName(name) if top_package(name.partition(":")[0]) in trusted.packages else ObjectNameOfFile(name)


def from_name(value: Any, declared: Any, place: str, trusted: Trust | None = None) -> Any:
    """Return the params that a text means in a field whose class can be given by a name alone; else the value.

    Args:
        value: of the field.
        declared: its type; its `from_name` is called.
        place: flag or dotted path, for messages.
        trusted: what a file may name; None: the name is no file's, and may be anything.
    """
    if not isinstance(value, str) or not is_given_by_name(declared):
        return value
    return origin_of(declared).from_name(value, place, trusted)


def is_given_by_name(declared: Any) -> bool:
    """Return True for a class of params that can be given by a name alone."""
    return hasattr(origin_of(declared), "from_name")
