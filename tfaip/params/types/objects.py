"""Former names of `tfaip.params.types`."""

from tfaip.params.types import (
    ARGUMENTS,
    CLASS,
    NamedObject,
    NameOfFile,
    checked_name,
    object_type,
    parts_of,
    plain_argument,
)

__all__ = [
    "ARGUMENTS",
    "CLASS",
    "NamedObject",
    "NameOfFile",
    "checked_name",
    "object_type",
    "parts_of",
    "plain_argument",
]
