"""The flags of a params tree, as far as its classes are chosen: one entry per flag, with its value and origin."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

from tfaip.params.choices import ClassChoice
from tfaip.params.decoding import DICT_TYPES, LIST_TYPES, build, is_node_type, is_union, strip
from tfaip.params.sources import DEFAULT

MISSING = dataclasses.MISSING


@dataclasses.dataclass
class Leaf:
    """One flag with a value.

    Args:
        flag: without dashes.
        name: of the field.
        declared: resolved type.
        meta: what `pai_meta` gave.
        value: resolved; `MISSING` if there is none.
        origin: of the value.
        required: there must be a value, and nobody gave one.
    """

    flag: str
    name: str
    declared: Any
    meta: Mapping[str, Any]
    value: Any
    origin: str = DEFAULT
    required: bool = False

    def construct(self) -> Any:
        """The value; the default is copied, it is not ours."""
        return copy.deepcopy(self.value)


@dataclasses.dataclass
class Node:
    """A dataclass of the tree.

    Args:
        flag: the flag that chooses its class, if `choice` is set; otherwise the prefix of its fields.
        name: of the field.
        meta: what `pai_meta` gave.
        cls: chosen class, possibly with type arguments; None for no node at all.
        declared: resolved type, without None.
        choice: what may be chosen; None if the class is fixed.
        optional: whether there may be no node.
        origin: of the choice.
        entries: its fields.
        hidden: values of fields that have no flag.
        required: a class must be chosen, and nobody chose one.
    """

    flag: str
    name: str
    meta: Mapping[str, Any]
    cls: Any
    declared: Any
    choice: ClassChoice | None
    optional: bool = False
    origin: str = DEFAULT
    entries: list[Entry] = dataclasses.field(default_factory=list)
    hidden: dict[str, Any] = dataclasses.field(default_factory=dict)
    required: bool = False

    def construct(self) -> Any:
        """Build the object.

        Raises:
            UsageError: its constructor refuses the values.
        """
        if self.cls is None:
            return None
        values = copy.deepcopy(self.hidden)
        for entry in self.entries:
            if not isinstance(entry, Leaf) or entry.value is not MISSING:
                values[entry.name] = entry.construct()
        return build(self.cls, values, f"--{self.flag}.*")


@dataclasses.dataclass
class Group:
    """A list or dict of dataclasses.

    Args:
        flag: the flag that chooses its classes.
        name: of the field.
        meta: what `pai_meta` gave.
        choice: what its entries may be.
        entries: by index or key; None for no container at all.
        keyed: whether it is a dict.
        optional: whether there may be no container.
        origin: of the choice.
    """

    flag: str
    name: str
    meta: Mapping[str, Any]
    choice: ClassChoice
    entries: list[Node] | None
    keyed: bool
    optional: bool = False
    origin: str = DEFAULT

    def construct(self) -> Any:
        """Build all objects."""
        if self.entries is None:
            return None
        if self.keyed:
            return {entry.name: entry.construct() for entry in self.entries}
        return [entry.construct() for entry in self.entries]


Entry = Leaf | Node | Group


@dataclasses.dataclass(frozen=True)
class FieldType:
    """What kind of entry a field is: `kind` is leaf, node, list or dict; `declared` the type of it or of its items."""

    kind: str
    declared: Any
    optional: bool


def field_kind(declared: Any) -> FieldType:
    """Classify the type of a field."""
    declared = strip(declared)
    inner, optional = declared, False
    if is_union(declared):
        members = [strip(member) for member in get_args(declared) if member is not type(None)]
        optional = len(members) < len(get_args(declared))
        inner = members[0] if len(members) == 1 else declared
    origin, arguments = get_origin(inner) or inner, get_args(inner)
    if is_node_type(inner):
        return FieldType("node", inner, optional)
    if origin in LIST_TYPES and arguments and is_node_type(arguments[0]):
        return FieldType("list", arguments[0], optional)
    if origin in DICT_TYPES and arguments and arguments[0] is str and is_node_type(arguments[1]):
        return FieldType("dict", arguments[1], optional)
    return FieldType("leaf", declared, optional)


def prefix_below(prefix: str, name: str, meta: Mapping[str, Any]) -> str:
    """Return the beginning of the flag of a field.

    Args:
        prefix: what the flag of the node begins with.
        name: of the node.
        meta: of the field: `pai_meta(mode=..., separator=...)`.
    """
    mode = meta.get("mode", "snake")
    if mode == "flat":
        return ""
    return prefix if mode == "ssnake" else f"{prefix}{name}{meta.get('separator', '.')}"


def field_default(field: dataclasses.Field[Any]) -> Any:
    """The default that the class gives to a field, or `MISSING`."""
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def walk_entries(entry: Entry) -> Iterator[Entry]:
    """An entry and all below it, in order; the items of a group are represented by their fields."""
    yield entry
    if isinstance(entry, Node):
        for inner in entry.entries:
            yield from walk_entries(inner)
    elif isinstance(entry, Group):
        for item in entry.entries or ():
            for inner in item.entries:
                yield from walk_entries(inner)
