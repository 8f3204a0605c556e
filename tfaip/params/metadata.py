"""Metadata of a field: what its flag is, its help text, its choices."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

_COMMON_KEY = "common"
# Mark of the options that most users set. `--help` shows them, and those that the scenario itself declares.
COMMON = {_COMMON_KEY: True}


class Metadata(dict[str, Any]):
    """Metadata of a field.

    Hashed by identity, because `Annotated[float, limits(low=0)] | None` needs a hash of it.
    """

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __or__(self, other: Any) -> Metadata:  # type: ignore[override]
        return Metadata({**self, **other})


def pai_meta(
    *,
    help: str | None = None,  # noqa: A002
    separator: str = ".",
    mode: str = "snake",
    required: bool | None = None,
    nargs: str = "*",
    choices: Sequence[Any] | None = None,
    disable_subclass_check: bool = False,
    enforce_choices: bool | None = None,
    fix_dc: bool = False,
    tuple_like: bool = False,
) -> Metadata:
    """Return the metadata of a field, for `dataclasses.field(metadata=...)`.

    Args:
        help: text for `--help`.
        separator: between the flag of a node and the flags of its fields.
        mode: "snake": the flag begins with that of the node; "ssnake": with that of the node above;
            "flat": with nothing; "ignore": there is no flag.
        required: the value must be given.
        nargs: "+" if a list must have at least one value, otherwise "*".
        choices: allowed values, or params classes that may be chosen.
        disable_subclass_check: accept classes that do not derive from the type of the field.
        enforce_choices: accept nothing but the choices; None: only if they are values.
        fix_dc: the class cannot be chosen.
        tuple_like: the flag of the node takes the values of its first fields; the class cannot be
            chosen.

    Raises:
        ValueError: an argument has no meaning, or the choices are not unique.
    """
    # As strict as `paiargparse`, for which scenarios of many years are written.
    if separator not in "/._-+":
        raise ValueError(f"pai_meta(separator={separator!r}): expected one of / . _ - +")
    if mode not in {"snake", "ssnake", "flat", "ignore"}:
        raise ValueError(f"pai_meta(mode={mode!r}): expected snake, ssnake, flat or ignore")
    if nargs not in {"*", "+"}:
        raise ValueError(f"pai_meta(nargs={nargs!r}): expected * or +")
    if enforce_choices and choices is None:
        raise ValueError("pai_meta(enforce_choices=True) needs choices")
    if choices:
        are_classes = _are_classes(choices)
        if enforce_choices is None:
            enforce_choices = not are_classes
    return Metadata(
        help=help,
        separator=separator,
        mode=mode,
        required=required,
        nargs=nargs,
        choices=choices,
        disable_subclass_check=disable_subclass_check,
        enforce_choices=enforce_choices,
        fix_dc=fix_dc or tuple_like,
        tuple_like=tuple_like,
    )


def _are_classes(choices: Sequence[Any]) -> bool:
    """Return True if the choices are params classes, False if they are values."""
    classes = [choice for choice in choices if dataclasses.is_dataclass(choice)]
    if classes and len(classes) < len(choices):
        raise ValueError("pai_meta(choices=...) mixes params classes and values")
    keys = [getattr(choice, "__name__", choice) for choice in choices] if classes else choices
    if len(set(keys)) < len(keys):
        raise ValueError(f"pai_meta(choices=...) must be unique, got {', '.join(map(str, keys))}")
    return bool(classes)


def is_common(meta: Mapping[str, Any]) -> bool:
    """Return True if the metadata of a field have the mark of common options."""
    return bool(meta.get(_COMMON_KEY))
