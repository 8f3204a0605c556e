"""Values of other fields as text: what a command line has after the flag of the field."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from tfaip.util.text import shorten


class FieldText(str):
    """Type of a field that holds the value of another field as text.

    The text may name classes and functions, which are imported when the other field is set. The command line and
    Python code may name any, a file only those of trusted packages, see `tfaip.params.trust.check_text`.
    """

    __slots__ = ()


if TYPE_CHECKING:
    FieldValue = Any
else:
    _Scalar = FieldText | bool | int | float | None
    FieldValue = _Scalar | list[_Scalar | list[_Scalar]] | dict[str, _Scalar]
"""Type of the value of another field: text, or a plain value as in a config file."""


def value_text(value: Any) -> str:
    """Return a plain value as it is written on a command line.

    Args:
        value: text, which stays as it is; a number, bool, enum or None; or a list or dict of those.

    Raises:
        TypeError: if it is none of them.
    """
    if isinstance(value, Enum):
        return value_text(value.value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list | tuple):
        return " ".join(map(_word, value))
    if isinstance(value, Mapping):
        return " ".join(_word(f"{key}={value_text(item)}") for key, item in value.items())
    if value is None or isinstance(value, bool | int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    raise TypeError(f"expected text, a number, or a list or dict of them, got {shorten(value)}")


def _word(value: Any) -> str:
    return shlex.quote(value_text(value))
