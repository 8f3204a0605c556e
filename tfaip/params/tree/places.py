"""Flags of the values of a params tree: every place that names a field to people uses them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

from tfaip.params.tree.nodes import children


@dataclass(frozen=True)
class Place:
    """Place of a value in a tree: its flag, or its dotted path if it has none.

    Args:
        prefix: beginning of the flag.
        name: of the field; the rest of the flag.
        path: dotted path, with the name of the root.
        meta: of the field.
    """

    prefix: str
    name: str
    path: str
    meta: Mapping[str, Any]

    @classmethod
    def of_root(cls, root: str) -> Place:
        """Return the place of the root of a tree; its name may be empty."""
        return cls("", root, root, {})

    @property
    def flag(self) -> str:
        """The flag without dashes."""
        return self.prefix + self.name

    @property
    def label(self) -> str:
        """The flag with dashes, or the path if there is no flag."""
        return self.path if self.is_hidden else f"--{self.flag}"

    @property
    def is_hidden(self) -> bool:
        """True if there is no flag."""
        return self.meta.get("mode") == "ignore"

    def below(self, name: str, parent: Any) -> Place:
        """Return the place of a field of the node here, or of an item of the container here.

        Args:
            name: of the field, or index or key of the item.
            parent: the node or container; or the class of the node.
        """
        meta: Mapping[str, Any] = {"separator": self.meta.get("separator", ".")}
        fields = parent.__dataclass_fields__ if is_dataclass(parent) else {}
        if name in fields:
            meta = fields[name].metadata
        prefix = prefix_below(self.prefix, self.name, meta)
        if self.is_hidden:
            meta = {**meta, "mode": "ignore"}
        return Place(prefix, name, f"{self.path}.{name}" if self.path else name, meta)


def place_at(params: Any, root: str, path: str) -> Place:
    """Return the place of the node or value at a path.

    Args:
        params: the root of the tree.
        root: its name, which begins its flags.
        path: dotted path from the root, which may no longer exist; `__cls__` is the class of the node above.
    """
    place, value = Place.of_root(root), params
    for name in filter(None, path.removesuffix("__cls__").split(".")):
        place = place.below(name, value)
        value = (children(value) or {}).get(name)
    return place


def flag_of(params: Any, root: str, path: str) -> str:
    """Return the flag with dashes of the field at a path (see `place_at`), or the path if it has none."""
    return place_at(params, root, path).label


def walk_places(params: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    """Yield every node, container and value of a tree with its place, in the order of the fields.

    Args:
        params: the root of the tree.
        place: that of the root.
    """
    yield place, params
    for name, child in (children(params) or {}).items():
        yield from walk_places(child, place.below(name, params))


def prefix_below(prefix: str, name: str, meta: Mapping[str, Any]) -> str:
    """Return the beginning of the flag of a field.

    Args:
        prefix: beginning of the flag of the node.
        name: of the node; empty for a root without a name.
        meta: of the field: `pai_meta(mode=..., separator=...)`.
    """
    mode = meta.get("mode", "snake")
    if mode == "flat":
        return ""
    return prefix if mode == "ssnake" or not name else f"{prefix}{name}{meta.get('separator', '.')}"
