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
    Python code may name any, a file only those of trusted packages, see `tfaip.params.names.textnames.check_text`.
    """

    __slots__ = ()


if TYPE_CHECKING:
    FieldValue = Any
else:
    _Scalar = FieldText | bool | int | float | None
    FieldValue = _Scalar | list[_Scalar | list[_Scalar]] | dict[FieldText, _Scalar]
"""Type of the value of another field: text, or a plain value as in a config file."""

if TYPE_CHECKING:
    FieldValues = dict[str, Any]
else:
    _Inner = FieldValue
    for _ in range(3):
        _Inner = FieldValue | dict[FieldText, _Inner]
    FieldValues = dict[str, _Inner]
"""Type of values of other fields by their paths; a dict may hold the fields below a path, as in a config file."""

_CLASS = "__cls__"


def flat_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by whole paths: of a dict that holds dicts or lists each item, below its key.

    A dict of single values stays, since it may be the value of a field. `__cls__` is the value of the field itself.

    Raises:
        ValueError: if a path is given twice.
    """
    flat: dict[str, Any] = {}
    for key, value in values.items():
        found = {key: value}
        if isinstance(value, Mapping) and any(isinstance(item, Mapping | list | tuple) for item in value.values()):
            found = flat_values({path_below(key, name): item for name, item in value.items()})
        for path, item in found.items():
            if path in flat:
                raise ValueError(f"{path} is given twice")
            flat[path] = item
    return flat


def path_below(path: str, name: str) -> str:
    """Return the path of a field of the node at a path; of its class the path of the node."""
    return path if name == _CLASS else f"{path}.{name}"


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
