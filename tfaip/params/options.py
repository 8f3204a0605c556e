"""Short form of a field: default, help text, limits and flag in one call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from tfaip.params.common import COMMON
from tfaip.params.declaration import pai_meta
from tfaip.params.defaults import default_field
from tfaip.params.limits import limits

T = TypeVar("T")


class _NotGiven:
    def __repr__(self) -> str:
        return "<not given>"


_NOT_GIVEN: Final = _NotGiven()
_NO_MEANINGS: Mapping[Any, str] = {}


# Declared as a function that returns the value, not as a field specifier of `dataclass_transform`:
# type checkers then compare the default with the annotation, and see that there is one although it
# is no keyword argument.
def option(
    default: T | _NotGiven = _NOT_GIVEN,
    help: str = "",  # noqa: A002
    *,
    factory: Callable[[], T] | None = None,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    finite: bool = False,
    also: Mapping[Any, str] = _NO_MEANINGS,
    choices: Sequence[Any] | None = None,
    text: Callable[[Any], str | None] | None = None,
    mode: str = "snake",
    separator: str = ".",
    required: bool | None = None,
    nargs: str = "*",
    enforce_choices: bool | None = None,
    disable_subclass_check: bool = False,
    fix_dc: bool = False,
    tuple_like: bool = False,
    common: bool = False,
) -> T:
    """Declare a field of a params class: `height: int = option(16, "Height in pixels", low=1)`.

    Args:
        default: value of the field. Lists, dicts, sets and params are copied for each object.
        help: text for `--help`.
        factory: function that makes the default, instead of `default`.
        low: smallest allowed number; this and the following as in `tfaip.params.limits.limits`.
        high: largest allowed number.
        above: every allowed number is larger.
        below: every allowed number is smaller.
        finite: any finite number, if there is no end.
        also: further values with their meaning: `{-1: "automatic"}`.
        choices: allowed values, or params classes that may be chosen.
        text: for a text: returns in words what is allowed instead, or None.
        mode: of the flag; this and the following as in `pai_meta`. "ignore": there is no flag.
        separator: between the flag of a node and the flags of its fields.
        required: the value must be given.
        nargs: "+" if a list must have at least one value.
        enforce_choices: accept nothing but the choices; None: only if they are values.
        disable_subclass_check: accept classes that do not derive from the type of the field.
        fix_dc: the class cannot be chosen.
        tuple_like: the flag of the node takes the values of its first fields.
        common: `--help` shows the option, as one that most users set.

    Raises:
        ValueError: if an argument has no meaning, or both `default` and `factory` are given.
    """
    metadata = pai_meta(
        help=help or None,
        separator=separator,
        mode=mode,
        required=required,
        nargs=nargs,
        choices=choices,
        disable_subclass_check=disable_subclass_check,
        enforce_choices=enforce_choices,
        fix_dc=fix_dc,
        tuple_like=tuple_like,
    )
    if common:
        metadata |= COMMON
    values = tuple(choices or ()) if metadata["enforce_choices"] else ()
    if any(map(dataclasses.is_dataclass, values)):
        values = ()
    has_limits = values or finite or also or text or (low, high, above, below) != (None,) * 4
    if has_limits:
        metadata |= limits(
            low=low, high=high, above=above, below=below, finite=finite, also=also, choices=values, text=text
        )
    field: Any
    if factory is not None:
        if not isinstance(default, _NotGiven):
            raise ValueError(f"option({default!r}, factory=...): give a default or a factory")
        field = dataclasses.field(default_factory=factory, metadata=metadata)
    elif isinstance(default, _NotGiven):
        field = dataclasses.field(metadata=metadata)
    else:
        field = default_field(default, metadata=metadata)
    return field
