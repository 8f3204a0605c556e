"""Fields of params in tfaip 1.2 that were renamed, whose old names stay accepted, or removed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any

from tfaip.params.names.formernames import REMOVED_FIELDS, RENAMED_FIELDS
from tfaip.util.logging import logger


def renamed_fields(cls: type) -> dict[str, str]:
    """Return old name -> present name of all renamed fields of a class and its bases."""
    return _of_class(cls, RENAMED_FIELDS)


def removed_fields(cls: type) -> dict[str, str]:
    """Return the fields that a class and its bases had, each with what to know of it."""
    return _of_class(cls, REMOVED_FIELDS)


def _of_class(cls: type, table: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        found.update(table.get(base.__name__, {}))
    # A subclass may have a field of its own with the name.
    fields = getattr(cls, "__dataclass_fields__", {})
    return {name: text for name, text in found.items() if name not in fields}


def current_name(cls: type, name: str, stacklevel: int = 3) -> str:
    """Return the present name of a field; warn with a `DeprecationWarning` if `name` is an old one.

    Args:
        cls: class that has the field.
        name: old or present name.
        stacklevel: which caller the warning shows, counted from here.
    """
    new = renamed_fields(cls).get(name)
    if new is None:
        return name
    warn_renamed(f"{cls.__name__}.{name}", new, stacklevel + 1)
    return new


def warn_renamed(old: str, new: str, stacklevel: int = 2) -> None:
    """Warn that a name is old."""
    warnings.warn(f"{old} is now called {new}", DeprecationWarning, stacklevel)


@cache
def warn_removed(shown: str, note: str) -> None:
    """Log that a field no longer exists, once for each name."""
    if note:
        logger(__name__).warning("%s was removed and has no effect: %s", shown, note)


def current_names(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` with old field names replaced by the present ones, and without removed fields.

    Raises:
        TypeError: a field is given by its old and by its present name.
    """
    removed = removed_fields(cls)
    for name in removed.keys() & values.keys():
        warn_removed(f"{cls.__name__}.{name}", removed[name])
    values = {name: value for name, value in values.items() if name not in removed}
    if not renamed_fields(cls).keys() & values.keys():
        return dict(values)
    renamed: dict[str, Any] = {}
    for name, value in values.items():
        new = current_name(cls, name, stacklevel=4)
        if new in renamed or (new != name and new in values):
            raise TypeError(f"{cls.__name__} got both {name!r} (the old name) and {new!r}: give only {new!r}")
        renamed[new] = value
    return renamed
