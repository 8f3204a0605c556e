"""Objects that params describe by a class and its arguments: `{class, arguments}`. Nothing is imported here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, get_args

from tfaip.errors import UsageError
from tfaip.params.names.trust import Trust, check_module, is_full_name, top_package
from tfaip.params.types.kinds import is_subclass, strip
from tfaip.util.text import shorten

CLASS, ARGUMENTS = "class", "arguments"


class NamedObject:
    """Type of a field that holds the name of a class or function, and arguments; it is imported when it is used.

    The command line and Python code may name anything, a file only what is in trusted packages. The arguments are
    flags below that of the field.

    Args:
        name: a plain name, or `module:Class`.
        arguments: numbers, texts, True, False, None, and lists of these.
    """

    __slots__ = ("arguments", "name")
    # Help text of all fields of the type: which names there are.
    choices: ClassVar[str] = "module:Class"

    def __init__(self, name: str, /, **arguments: Any) -> None:
        self.name, self.arguments = name, arguments

    # Without a hash it is copied as a default, so that each field has its own.
    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.stored() == other.stored()

    def __repr__(self) -> str:
        given = [f"{name}={value!r}" for name, value in self.arguments.items()]
        return f"{type(self).__name__}({', '.join([repr(str(self.name)), *given])})"

    def stored(self) -> Any:
        """Return what a file has for it: the name, or `{class, arguments}`."""
        return {CLASS: str(self.name), ARGUMENTS: self.arguments} if self.arguments else str(self.name)


class NameOfFile(str):
    """Name that a file gives, of a package of which it may only name what is made for params."""

    __slots__ = ()


def object_type(declared: Any) -> type[NamedObject] | None:
    """Return the type of the objects that a field, or a list in it, may hold; None: it holds no objects."""
    declared = strip(declared)
    if is_subclass(declared, NamedObject):
        found: type[NamedObject] = declared
        return found
    return next(filter(None, map(object_type, get_args(declared))), None)


def checked_name(name: str, trusted: Trust | None, place: str) -> str:
    """Return the name of an object if a file may name it.

    Args:
        name: as in the file.
        trusted: what the file may name; None: the name is no file's, and may be anything.
        place: flag or dotted path, for messages.

    Raises:
        UsageError: if it may not.
    """
    if not is_full_name(name) and not (name.isidentifier() and name.isascii()):
        raise UsageError(f"{place}: expected the name of a class or module:Class, got {shorten(name)}")
    if trusted is None or ":" not in name:
        return str(name)
    check_module(name, trusted, place)
    return str(name) if top_package(name.partition(":")[0]) in trusted.packages else NameOfFile(name)


def parts_of(value: Any, place: str) -> tuple[str, dict[str, Any]]:
    """Return name and arguments of a stored object.

    Raises:
        UsageError: if it has another form.
    """
    stored = {CLASS: value} if isinstance(value, str) else value
    if isinstance(stored, Mapping) and {CLASS} <= stored.keys() <= {CLASS, ARGUMENTS}:
        name, arguments = stored[CLASS], stored.get(ARGUMENTS, {})
        if isinstance(name, str) and isinstance(arguments, Mapping):
            return name, {str(key): plain_argument(item, f"{place}.{key}") for key, item in arguments.items()}
    raise UsageError(f"{place}: expected a class, or {{class: ..., arguments: {{...}}}}, got {shorten(value)}")


def plain_argument(value: Any, place: str) -> Any:
    """Return the value of an argument: Keras would import what a dict names.

    Raises:
        UsageError: if it is not a number, text, bool, None, or list of these.
    """
    if isinstance(value, list | tuple):
        return [plain_argument(item, place) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise UsageError(f"{place}: expected a number, a text, True, False, None or a list of these, got {shorten(value)}")
