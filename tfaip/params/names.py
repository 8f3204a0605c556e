"""Names of params: suggestions for mistyped ones, and the names of tfaip 1.2 and of RETURNN (`names.txt`)."""

import warnings
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tfaip.errors import UsageError

OWN_PACKAGE = "tfaip"
# Class -> its fields with another name today; and its fields that no longer exist, each with what takes its place.
RENAMED_FIELDS: dict[str, dict[str, str]] = {}
REMOVED_FIELDS: dict[str, dict[str, str]] = {}
# `__cls__` of 1.2 -> `__cls__` of today, both as "module:Class".
RENAMED_CLASSES: dict[str, str] = {}
# Option of RETURNN -> flag.
RETURNN_OPTIONS: dict[str, str] = {}


def _read(table: str) -> None:
    for line in table.splitlines():
        name, arrow, new = line.partition(" -> ")
        if line.startswith("#"):
            continue
        if arrow and ":" in name:
            RENAMED_CLASSES[name] = new
        elif arrow and "." not in name:
            RETURNN_OPTIONS[name] = new
        else:
            name, _, note = name.partition(" |")
            cls, _, field = name.partition(".")
            (RENAMED_FIELDS if arrow else REMOVED_FIELDS).setdefault(cls, {})[field] = new or note.strip()


_read(Path(__file__).with_name("names.txt").read_text("utf-8"))


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


def current_name(cls: type, name: str) -> str:
    """Return the present name of a field; warn with a `DeprecationWarning` if `name` is an old one."""
    new = renamed_fields(cls).get(name, name)
    if new != name:
        warn_renamed(f"{cls.__name__}.{name}", new, stacklevel=4)
    return new


def warn_renamed(old: str, new: str, stacklevel: int = 2) -> None:
    """Warn that a name is old."""
    warnings.warn(f"{old} is now called {new}", DeprecationWarning, stacklevel)


@cache
def warn_removed(shown: str, note: str) -> None:
    """Log that a field no longer exists, once for each name."""
    if note:
        from tfaip.util.logging import logger  # 9 ms, and few programs need it

        logger(__name__).warning("%s was removed and has no effect: %s", shown, note)


def by_present_name(cls: type, values: Mapping[str, Any], place: str) -> dict[str, tuple[str, Any]]:
    """Return the present name of each field -> the name that is given, and its value.

    Raises:
        UsageError: a field is given by its old and by its present name.
    """
    found: dict[str, tuple[str, Any]] = {}
    renamed = renamed_fields(cls)
    for name, value in values.items():
        new = renamed.get(name, name)
        if new in found:
            raise UsageError(f"both {place}.{found[new][0]} and {place}.{name} are given: give only {place}.{new}")
        found[new] = name, value
    return found


def current_names(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a constructor by the present names, without those of removed fields, and warn."""
    removed = removed_fields(cls)
    for name in removed.keys() & values.keys():
        warn_removed(f"{cls.__name__}.{name}", removed[name])
    present = by_present_name(cls, {name: values[name] for name in values if name not in removed}, cls.__name__)
    for new, (name, _) in present.items():
        if new != name:
            warn_renamed(f"{cls.__name__}.{name}", new, stacklevel=4)
    return {new: value for new, (_, value) in present.items()}


# Of a list of known names, so that an error stays one line of 300 characters.
_LIST_LIMIT = 140


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names that resemble `name`, best first; case does not matter."""
    import difflib  # 4 ms, and only messages need it

    spelling: dict[str, str] = {}
    for candidate in known:
        spelling.setdefault(candidate.lower(), candidate)
    return [spelling[match] for match in difflib.get_close_matches(name.lower(), spelling)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `"; did you mean a or b?"`, or the known names if none is near, for a message.

    For an option of RETURNN the answer is its name here.
    """
    known = list(known)
    near = nearest(name, known)
    counterpart = RETURNN_OPTIONS.get(name, "").rpartition(".")[2]
    if counterpart in known:
        near = [counterpart]
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; expected one of: {listed(known)}" if known else ""


def listed(known: Iterable[str]) -> str:
    """Return `"a, b, ..."`: the sorted names, as many as a message has room for; none is cut."""
    names = ", ".join(sorted(known))
    if len(names) > _LIST_LIMIT:
        names = names[:_LIST_LIMIT].rpartition(", ")[0] + ", ..."
    return names


def top_package(module: str) -> str:
    """Return `pkg` of `pkg.sub.module`."""
    return module.partition(".")[0]
