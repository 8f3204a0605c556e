"""From params to the plain values of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from numbers import Integral, Real
from pathlib import Path, PurePath
from typing import Any

from tfaip.params.names.trust import class_name
from tfaip.params.resource import Resource
from tfaip.params.tree.nodes import is_node
from tfaip.params.types import NamedObject
from tfaip.params.values.jsonoptions import JsonOptions, options_of
from tfaip.util.text import shorten

CLASS_KEY = "__cls__"


def encode(value: Any, directory: Path | None = None, place: str = "params") -> Any:
    """Return a node or value as JSON has it: dicts, lists, numbers, strings, booleans, None.

    Args:
        value: a node, or anything that a field may hold.
        directory: of the file that will hold the result; resources below it are written relative to
            it.
        place: dotted path, for messages.

    Raises:
        TypeError: a value that params cannot store.
    """
    if is_node(value):
        cls: Any = type(value)
        encoded = {CLASS_KEY: class_name(cls)}
        for name, options in options_of(cls).items():
            _encode_field(options, getattr(value, name), directory, f"{place}.{name}", encoded)
        return encoded
    if isinstance(value, Mapping):
        encoded = {}
        for key, item in value.items():
            encoded[encode_key(key, place)] = encode(item, directory, f"{place}.{key}")
        return encoded
    if isinstance(value, list | tuple):
        return [encode(item, directory, f"{place}.{index}") for index, item in enumerate(value)]
    if isinstance(value, set | frozenset):
        # Sorted, so that equal params give equal files.
        items = [encode(item, directory, place) for item in value]
        return sorted(items, key=lambda item: (str(type(item)), item))
    if isinstance(value, NamedObject):
        return encode(value.stored(), directory, place)
    return _scalar(value, directory, place)


def _encode_field(options: JsonOptions, value: Any, directory: Path | None, place: str, into: dict[str, Any]) -> None:
    """Add the value of a field to the encoded node."""
    if options.is_excluded(value):
        return
    if options.name in into:
        raise TypeError(f"{place} is stored as {options.name!r}, which another field has: give it another field_name")
    if options.encoder is not None:
        try:
            value = options.encoder(value)
        except Exception as error:  # code of the user may raise anything
            raise TypeError(f"{place}: its encoder refuses the value: {type(error).__name__}: {error}") from error
    into[options.name] = encode(value, directory, place)


def encode_key(key: Any, place: str) -> str:
    """Return a key of a dict as a string, as JSON requires.

    Raises:
        TypeError: it is neither a string nor a number.
    """
    plain = _scalar(key, None, place)
    if plain is None or isinstance(plain, list):
        raise TypeError(f"{place}: key {shorten(key)} cannot be stored, expected a string or a number")
    return plain if isinstance(plain, str) else repr(plain)


def _scalar(value: Any, directory: Path | None, place: str) -> Any:
    if isinstance(value, Enum):
        return encode(value.value, directory, place)
    if value is None or isinstance(value, bool | str):
        return value
    # Also those of NumPy.
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, Resource):
        return value.stored(directory)
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(
        f"{place} is a {type(value).__module__}.{type(value).__qualname__}, which params cannot store: "
        "use numbers, strings, enums, paths, lists, dicts or dataclasses"
    )
