"""Flags of a command as a shell completes them: names, help and choices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, get_args, get_origin

from tfaip.params.resolution.entries import Entry, Group, Leaf, Node
from tfaip.params.resolution.unknown import all_entries, is_flag
from tfaip.params.types.functions import FunctionName
from tfaip.params.types.kinds import is_subclass, is_union, members_of, strip

# Given instead of the last flag: the parser raises `FlagTable` instead of parsing.
REQUEST = "list_flags_for_completion"


@dataclass(frozen=True)
class Flag:
    """A flag.

    Args:
        name: with dashes.
        help: text.
        choices: values; None: any value, or a file.
        has_keys: values are written `key=value`.
    """

    name: str
    help: str = ""
    choices: Sequence[str] | None = None
    has_keys: bool = False


class FlagTable(Exception):  # noqa: N818
    """The flags that a parser knows after the other flags of a command line.

    Args:
        flags: in the order of `--help`.
    """

    def __init__(self, flags: Sequence[Flag]) -> None:
        super().__init__(f"{len(flags)} flags")
        self.flags = flags


def flag_table(options: Sequence[Leaf], roots: Sequence[Node]) -> FlagTable:
    """Return the flags of options and of resolved trees."""
    entries = [*options, *filter(is_flag, all_entries(roots))]
    flags: list[Flag] = []
    for entry in entries:
        text = str(entry.meta.get("help") or "")
        is_keyed = isinstance(entry, Group) and entry.keyed
        flags.append(Flag(f"--{entry.flag}", text, _choices(entry), is_keyed))
    return FlagTable(flags)


def _choices(entry: Entry) -> list[str] | None:
    if not isinstance(entry, Leaf):
        if entry.choice is None:
            return []
        return [*entry.choice.names(), *(["None"] if entry.optional else [])]
    if entry.meta.get("choices"):
        return [str(choice) for choice in entry.meta["choices"]]
    values = list(dict.fromkeys(_values_of(entry.declared)))
    return None if "" in values else values


def _values_of(declared: Any) -> Iterator[str]:
    """Yield the words of a type that has a few; "" for any word."""
    declared = strip(declared)
    if is_union(declared):
        members, is_optional = members_of(declared)
        for member in members:
            yield from _values_of(member)
        if is_optional:
            yield "None"
    elif declared is bool:
        yield from ("True", "False")
    elif get_origin(declared) is Literal:
        yield from map(str, get_args(declared))
    elif is_subclass(declared, Enum):
        yield from (str(member.value) for member in declared)
    elif get_origin(declared) in (list, set, frozenset, tuple) and get_args(declared):
        yield from _values_of(get_args(declared)[0])
    elif not is_subclass(declared, int | float | FunctionName):
        yield ""
