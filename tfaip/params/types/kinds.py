"""Former names of `tfaip.params.types`."""

from tfaip.params.types import (
    DICT_TYPES,
    LIST_TYPES,
    SEQUENCE_TYPES,
    FieldKind,
    expected,
    field_kind,
    is_node_type,
    is_subclass,
    is_union,
    members_of,
    origin_of,
    strip,
    type_name,
)

__all__ = [
    "DICT_TYPES",
    "LIST_TYPES",
    "SEQUENCE_TYPES",
    "FieldKind",
    "expected",
    "field_kind",
    "is_node_type",
    "is_subclass",
    "is_union",
    "members_of",
    "origin_of",
    "strip",
    "type_name",
]
