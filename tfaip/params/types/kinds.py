"""Kinds of declared types, and how messages and `--help` write them."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

from tfaip.params.types.fieldtext import FieldText, FieldValue, FieldValues
from tfaip.params.types.functions import FunctionName

LIST_TYPES = {list, Sequence, Iterable}
SEQUENCE_TYPES = LIST_TYPES | {set, frozenset, tuple}
DICT_TYPES = {dict, Mapping}


def origin_of(declared: Any) -> Any:
    """Return a type without its type arguments: `list` for `list[int]`."""
    return get_origin(declared) or declared


def strip(declared: Any) -> Any:
    """Return the type that a `NewType` names."""
    while hasattr(declared, "__supertype__"):
        declared = declared.__supertype__
    return declared


def is_union(declared: Any) -> bool:
    """Return True for `Union[...]`, `Optional[...]` and `A | B`."""
    return get_origin(declared) in (Union, types.UnionType)


def is_subclass(declared: Any, base: Any) -> bool:
    """Return True if a type is a class derived from `base`; other types are no error."""
    return isinstance(declared, type) and issubclass(declared, base)


def is_node_type(declared: Any) -> bool:
    """Return True for a dataclass, possibly with type arguments."""
    origin = origin_of(declared)
    return isinstance(origin, type) and dataclasses.is_dataclass(origin)


def members_of(declared: Any) -> tuple[list[Any], bool]:
    """Return the types of a union without None, and if None is one of them."""
    members = [strip(member) for member in get_args(declared)]
    return [member for member in members if member is not type(None)], type(None) in members


def expected(declared: Any) -> str:
    """Return a type in words that a user reads: a name, or the choices."""
    if declared is bool:
        return "True or False"
    return "a value" if declared is Any else type_name(declared)


def type_name(declared: Any) -> str:
    """Return a type as it is written, without modules; an enum by its values."""
    arguments = get_args(declared)
    if declared is type(None):
        return "None"
    if declared is FunctionName:
        return "module:function"
    if declared is FieldText or declared == FieldValue:
        return "value"
    if declared == FieldValues:
        return "dict[str, value]"
    if is_union(declared):
        return " | ".join(map(type_name, arguments))
    if get_origin(declared) is Literal:
        return " | ".join(map(repr, arguments))
    if is_subclass(declared, Enum):
        return " | ".join(str(member.value) for member in declared)
    if declared is Ellipsis:  # of tuple[int, ...]
        return "..."
    name: str = getattr(origin_of(declared), "__name__", str(declared))
    return f"{name}[{', '.join(map(type_name, arguments))}]" if arguments else name


@dataclasses.dataclass(frozen=True)
class FieldKind:
    """Kind of a field.

    Args:
        kind: leaf, node, list or dict (of nodes).
        declared: type of the field, or of the items of a list or dict.
        optional: the field may be None.
    """

    kind: str
    declared: Any
    optional: bool


def field_kind(declared: Any) -> FieldKind:
    """Classify the type of a field."""
    declared = inner = strip(declared)
    optional = False
    if is_union(declared):
        members, optional = members_of(declared)
        if len(members) == 1:
            inner = members[0]
    origin, arguments = origin_of(inner), get_args(inner)
    if is_node_type(inner):
        return FieldKind("node", inner, optional)
    if origin in LIST_TYPES and arguments and is_node_type(arguments[0]):
        return FieldKind("list", arguments[0], optional)
    if origin in DICT_TYPES and arguments and arguments[0] is str and is_node_type(arguments[1]):
        return FieldKind("dict", arguments[1], optional)
    return FieldKind("leaf", declared, optional)
