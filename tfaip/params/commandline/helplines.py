"""Lines of `--help`: the flags of resolved trees, each with its section."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfaip.params.commandline.flagtexts import help_text
from tfaip.params.metadata import is_common
from tfaip.params.resolver import Entry, Group, Leaf, Node
from tfaip.params.types.kinds import origin_of
from tfaip.params.unknown import is_flag


@dataclass(frozen=True, eq=False)
class FlagLine:
    """A flag of a tree.

    Args:
        entry: the flag.
        section: the node below whose title the flag is shown.
        holder: the node that has the field; None for the root itself.
        path: Python path, with the name of the root.
    """

    entry: Entry
    section: Node
    holder: Node | None
    path: str

    @property
    def group(self) -> str:
        """The first part of the flag, also of flags that leave it out."""
        return self.section.flag.partition(".")[0]

    @property
    def is_common(self) -> bool:
        """True for an option that most users set."""
        return is_common(self.entry.meta) or (isinstance(self.entry, Leaf) and self.entry.required)

    @property
    def class_names(self) -> list[str]:
        """Names of the class in the heading, and of chosen ones."""
        nodes = [self.section, *((self.entry.items or ()) if isinstance(self.entry, Group) else ())]
        return [origin_of(node.cls).__name__ for node in nodes if node.cls is not None]

    def is_about(self, topic: str) -> bool:
        """Return True if the flag or its help text mentions a topic, or the name of a class begins with it."""
        has_class = any(name.lower().startswith(topic.lower()) for name in self.class_names)
        return has_class or mentions(self.entry, topic)


def flag_lines(node: Node, path: str, holder: Node | None = None) -> Iterator[FlagLine]:
    """Yield the flags of a root, or of a node that is an object; those of nodes below it last."""
    if is_flag(node):
        yield FlagLine(node, node, holder, path)
    yield from _fields(node, path)


def _fields(node: Node, path: str) -> Iterator[FlagLine]:
    # Nodes follow after all flags of this one, so that the flags of a class stay together.
    inner: list[Iterator[FlagLine]] = []
    for entry in node.entries:
        below = f"{path}.{entry.name}"
        if isinstance(entry, Node) and entry.cls is not None:
            inner.append(flag_lines(entry, below, node))
            continue
        yield FlagLine(entry, node, node, below)
        if isinstance(entry, Group):
            for item in entry.items or ():
                key = repr(item.name) if entry.keyed else item.name
                inner.append(_fields(item, f"{below}[{key}]"))
    for lines in inner:
        yield from lines


def declaring_class(cls: type, name: str) -> type:
    """Return the class that introduces a field."""
    for base in reversed(cls.__mro__):
        if name in vars(base).get("__annotations__", {}):
            return base
    return cls


def mentions(entry: Entry, topic: str) -> bool:
    """Return True if the flag contains a text, or a word of the help text begins with it."""
    if topic.lower() in entry.flag.lower():
        return True
    return re.search(rf"\b{re.escape(topic)}", help_text(entry), re.IGNORECASE) is not None


def _nodes(node: Node) -> Iterator[Node]:
    """Yield the nodes of a tree that are objects."""
    if node.cls is None:
        return
    yield node
    for entry in node.entries:
        if isinstance(entry, Node):
            yield from _nodes(entry)
        elif isinstance(entry, Group):
            for item in entry.items or ():
                yield from _nodes(item)


def all_nodes(roots: Sequence[Node]) -> list[Node]:
    return [node for root in roots for node in _nodes(root)]
