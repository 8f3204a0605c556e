"""Entries of a resolved params tree: one per flag, with its value and origin."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.fields import help_of
from tfaip.params.limits import FieldError
from tfaip.params.resolution.choices import ClassChoice
from tfaip.params.resolution.sources import COMMAND_LINE, DEFAULT
from tfaip.params.values.decoding import build
from tfaip.util.text import shorten_text

MISSING = dataclasses.MISSING


@dataclasses.dataclass
class _Entry:
    """Part of a tree of flags.

    Args:
        flag: without dashes; of a node of a fixed class only the beginning of the flags of its
            fields.
        name: of the field.
        meta: what `pai_meta` gave.
        origin: of the value, or of the choice of classes.
        owner: class that has the field; None for a root.
    """

    flag: str
    name: str
    meta: Mapping[str, Any]
    origin: str = dataclasses.field(default=DEFAULT, kw_only=True)
    owner: type | None = dataclasses.field(default=None, kw_only=True)

    @property
    def help(self) -> str:
        """The help text; the source of the class is read if it is not in the metadata."""
        text = str(self.meta.get("help") or "") if self.owner is None else help_of(self.owner, self.name)
        return text.strip()


@dataclasses.dataclass
class Leaf(_Entry):
    """Flag with a value.

    Args:
        declared: resolved type.
        value: resolved; `MISSING` if there is none.
        required: there must be a value, but none is given.
    """

    declared: Any
    value: Any
    required: bool = False

    def construct(self) -> Any:
        """Return the value."""
        # A default belongs to the class, or to the instance that supplies the defaults.
        return copy.deepcopy(self.value)


@dataclasses.dataclass
class Node(_Entry):
    """Dataclass of the tree.

    Args:
        cls: chosen class, possibly with type arguments; None for no node at all.
        declared: resolved type, without None.
        choice: classes that can be chosen; None if the class is fixed.
        optional: True if there may be no node.
        required: a class must be chosen, but none is.
        entries: its fields.
        hidden: values of fields that have no flag.
    """

    cls: Any
    declared: Any
    choice: ClassChoice | None
    optional: bool = False
    required: bool = False
    entries: list[Entry] = dataclasses.field(default_factory=list)
    hidden: dict[str, Any] = dataclasses.field(default_factory=dict)

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
        try:
            return build(self.cls, values, f"--{self.flag}.*")
        except UsageError as error:
            if isinstance(error.__cause__, FieldError):
                raise self.usage_error(error.__cause__) from error.__cause__
            raise

    def usage_error(self, error: FieldError) -> UsageError:
        """Return the error of a field below this node with its flag, and with the file that gave the value."""
        error.name_flags(self._shown_flag)
        return UsageError(str(error))

    def _shown_flag(self, path: str) -> str | None:
        entry: Entry | None = self
        for name in path.split("."):
            below: Sequence[Entry] = []
            if isinstance(entry, Node):
                below = entry.entries
            elif isinstance(entry, Group):
                below = entry.items or []
            entry = next((item for item in below if item.name == name), None)
        if entry is None:
            return None
        given_in_file = entry.origin not in (COMMAND_LINE, DEFAULT)
        return f"{entry.flag} in {shorten_text(entry.origin)}" if given_in_file else f"--{entry.flag}"


@dataclasses.dataclass
class Group(_Entry):
    """List or dict of dataclasses.

    Args:
        choice: classes that can be chosen for its items.
        items: by index or key; None for no container at all.
        keyed: True for a dict.
        optional: True if there may be no container.
    """

    choice: ClassChoice
    items: list[Node] | None
    keyed: bool
    optional: bool = False

    def construct(self) -> Any:
        """Build all objects."""
        if self.items is None:
            return None
        if self.keyed:
            return {item.name: item.construct() for item in self.items}
        return [item.construct() for item in self.items]


Entry = Leaf | Node | Group


def walk_entries(entry: Entry) -> Iterator[Entry]:
    """Yield an entry and all below it, in order; of the items of a group only their fields."""
    yield entry
    if isinstance(entry, Node):
        for inner in entry.entries:
            yield from walk_entries(inner)
    elif isinstance(entry, Group):
        for item in entry.items or ():
            for inner in item.entries:
                yield from walk_entries(inner)
