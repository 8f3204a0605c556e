"""Options of dataclasses_json for a field: `metadata={"dataclasses_json": {...}}`, as its `config(...)` gives them.

`field_name`, `letter_case`, `encoder`, `decoder` and `exclude` mean what they mean there, for JSON, the params of a
run and config files alike; the library is not needed for them. Unknown keys stay errors, whatever `undefined` says.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.tree.nodes import node_fields
from tfaip.util.text import ERROR_LIMIT, shorten_text

_KEY = "dataclasses_json"


@dataclasses.dataclass(frozen=True)
class JsonOptions:
    """Options of one field.

    Args:
        name: key in JSON.
        encoder: makes the value of JSON; None: as params are stored.
        decoder: makes the value of the field from that of JSON; None: as its type says.
        exclude: returns True for a value that is not stored; None: every value is.
    """

    name: str
    encoder: Callable[[Any], Any] | None = None
    decoder: Callable[[Any], Any] | None = None
    exclude: Callable[[Any], bool] | None = None

    def is_excluded(self, value: Any) -> bool:
        """Return True if a value is not stored."""
        return self.exclude is not None and bool(self.exclude(value))


@cache
def options_of(cls: Any) -> Mapping[str, JsonOptions]:
    """Return the options of all fields of a dataclass, by the name of the field."""
    found: dict[str, JsonOptions] = {}
    # Of `@dataclass_json(letter_case=...)`.
    of_class = (getattr(cls, "dataclass_json_config", None) or {}).get("letter_case")
    for field in node_fields(cls):
        given = field.metadata.get(_KEY) or {}
        letter_case = given.get("letter_case") or of_class
        name = letter_case(field.name) if letter_case is not None else field.name
        found[field.name] = JsonOptions(name, given.get("encoder"), given.get("decoder"), given.get("exclude"))
    return found


def decode_with(decoder: Callable[[Any], Any], value: Any, place: str) -> Any:
    """Call the decoder of a field.

    Raises:
        UsageError: if it refuses the value.
    """
    try:
        return decoder(value)
    except Exception as error:  # code of the user may raise anything
        reason = shorten_text(f"{type(error).__name__}: {error}", ERROR_LIMIT)
        raise UsageError(f"{place}: its decoder refuses the value: {reason}") from error
