"""Short form of a field: default, help text, limits and flag in one call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypedDict, TypeVar, Unpack

from tfaip.params.declaration.defaults import default_field
from tfaip.params.limits import limits
from tfaip.params.metadata import COMMON, pai_meta

T = TypeVar("T")


class _NotGiven:
    def __repr__(self) -> str:
        return "<not given>"


class _FlagOptions(TypedDict, total=False):
    """Further arguments of `pai_meta`."""

    mode: str
    separator: str
    required: bool | None
    nargs: str
    enforce_choices: bool | None
    disable_subclass_check: bool
    fix_dc: bool
    tuple_like: bool


_NOT_GIVEN: Final = _NotGiven()
_NO_MEANINGS: Mapping[Any, str] = {}
# As other libraries call them.
_OTHER_NAMES = {name: "; did you mean low?" for name in ("min", "ge", "minimum")}
_OTHER_NAMES |= {name: "; did you mean high?" for name in ("max", "le", "maximum")}


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
    common: bool = False,
    **flag: Unpack[_FlagOptions],
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
        common: `--help` shows the option, as one that most users set.
        flag: further arguments of `pai_meta`, among them `mode`: "ignore" makes no flag.

    Raises:
        TypeError: if there is no such argument.
        ValueError: if an argument has no meaning, or both `default` and `factory` are given.
    """
    for name in flag:
        if name not in _FlagOptions.__annotations__:
            raise TypeError(f"option() has no argument {name!r}{_OTHER_NAMES.get(name) or _near_name(name)}")
    metadata = pai_meta(help=help or None, choices=choices, **flag)
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


def _near_name(name: str) -> str:
    from inspect import signature

    from tfaip.params.names.suggestions import did_you_mean

    return did_you_mean(name, [*list(signature(option).parameters)[:-1], *_FlagOptions.__annotations__])
