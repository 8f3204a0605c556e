"""Resolver of settings against params classes: chosen classes, their flags, and values."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import MISSING
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.fields import COMMON, is_common
from tfaip.params.generics import field_types
from tfaip.params.names import oldnames
from tfaip.params.names.suggestions import one_of
from tfaip.params.names.trust import Trust
from tfaip.params.resolution.choices import ClassChoice
from tfaip.params.resolution.entries import Entry, Group, Leaf, Node
from tfaip.params.resolution.given import carried_values, chosen_class, chosen_names, converted, with_arguments
from tfaip.params.resolution.sources import COMMAND_LINE, DEFAULT, Hit, Settings
from tfaip.params.tree.nodes import field_default, items_of, node_fields, values_of
from tfaip.params.tree.places import prefix_below
from tfaip.params.types import field_kind, object_type, origin_of
from tfaip.params.values.words import Words

NO_META: Mapping[str, Any] = {}


@dataclasses.dataclass(frozen=True)
class _Place:
    """Place of an entry.

    Args:
        prefix: beginning of its flag.
        name: of the field; the rest of the flag.
        meta: what `pai_meta` gave.
        lowest: sources of a lower rank are ignored.
        owner: class that has the field.
    """

    prefix: str
    name: str
    meta: Mapping[str, Any]
    lowest: int = 0
    owner: type | None = None

    @property
    def flag(self) -> str:
        return self.prefix + self.name

    @property
    def old_names(self) -> list[str]:
        """Old names of the field."""
        renamed = {} if self.owner is None else oldnames.renamed_fields(self.owner)
        return [old for old, new in renamed.items() if new == self.name]

    def below(self, field: dataclasses.Field[Any], owner: type) -> _Place:
        """Return the place of a field of the node here."""
        meta = _with_common(owner, field)
        return _Place(prefix_below(self.prefix, self.name, meta), field.name, meta, self.lowest, owner)


class Resolver:
    """Resolver of one command: walks down from the roots and looks up each flag in the settings.

    Args:
        settings: all sources.
        trusted: packages that config files may name classes and functions of.
    """

    def __init__(self, settings: Settings, trusted: Iterable[str] = ()) -> None:
        self.settings = settings
        self._given = Trust.of(trusted)
        self._claimed: set[str] = set()
        self._trusted = self._given

    def root(self, name: str, declared: Any, default: Any, meta: Mapping[str, Any] = NO_META) -> Node:
        """Resolve a tree.

        Args:
            name: of the root; its flags begin with it.
            declared: class of the root.
            default: instance that supplies the defaults; None: those of the class.
            meta: as `pai_meta` gives it.

        Raises:
            UsageError: an unknown class, or a value of the wrong type.
            TypeError: two fields share a flag.
        """
        place = _Place("", name, meta)
        # The code of these packages runs already; a config file may name more of their classes.
        trusted = self._given if default is None else self._trusted.and_code_of(type(default))
        self._trusted = trusted.and_code_of(declared)
        return self._node(place, declared, MISSING if default is None else default, optional=False)

    def _node(self, place: _Place, declared: Any, default: Any, optional: bool, selected: type | None = None) -> Node:
        choice = None
        if not place.meta.get("fix_dc"):
            also = [] if default is MISSING or default is None else [type(default)]
            choice = ClassChoice(declared, place.meta, also)
        node = Node(place.flag, place.name, place.meta, None, declared, choice, optional, owner=place.owner)
        values = self._choose_class(node, place, default, selected)
        if node.cls is not None:
            if node.cls is origin_of(declared):
                node.cls = declared  # with its type arguments
            self._add_fields(node, place, values)
            if place.meta.get("tuple_like"):
                self._set_like_tuple(node, place)
        return node

    def _choose_class(self, node: Node, place: _Place, default: Any, selected: type | None) -> Mapping[str, Any]:
        """Set the class of a node: the given, selected or default one; return the values that its fields begin with."""
        declared, choice = node.declared, node.choice
        hit = None if choice is None else self.settings.choice(place.flag, place.lowest)
        if choice is not None and hit is not None:
            node.origin = hit.origin
            node.cls = chosen_class(node, choice, hit, self._trusted_by(hit))
            # A lower source may have set fields of the class that was chosen there.
            self.settings.replace(f"{place.flag}.", hit.rank)
            return carried_values(default, declared, node.cls)
        if selected is not None:
            node.cls = selected
        elif default is MISSING:
            # The class of an abstract one that is taken if none is chosen.
            node.cls = getattr(origin_of(declared), "__default_choice__", declared)
            node.required = inspect.isabstract(origin_of(node.cls))
            if node.required:
                node.cls = None
        elif default is not None:
            node.cls = type(default)
            return values_of(default)
        return {}

    def _add_fields(self, node: Node, place: _Place, values: Mapping[str, Any]) -> None:
        cls = origin_of(node.cls)
        types_of = field_types(node.cls)
        for field in node_fields(cls):
            if not field.init or field.metadata.get("mode") == "ignore":
                # There is no flag, but a given instance keeps its value.
                if field.name in values:
                    node.hidden[field.name] = values[field.name]
                continue
            given = field.name in values
            default = values[field.name] if given else field_default(field)
            node.entries.append(self._entry(place.below(field, cls), types_of[field.name], default, given))

    def _entry(self, place: _Place, declared: Any, default: Any, given: bool) -> Entry:
        kind = field_kind(declared)
        if kind.kind == "node":
            return self._node(place, kind.declared, default, kind.optional)
        if kind.kind in ("list", "dict"):
            return self._group(place, kind.declared, default, kind.optional, kind.kind == "dict")
        leaf = self._leaf(place, kind.declared, default)
        # An empty text or list, as None, is the placeholder of a value that is still to be given.
        is_empty = leaf.value is None or (isinstance(leaf.value, str | list) and not leaf.value)
        is_given = given or leaf.origin != DEFAULT
        leaf.required = leaf.value is MISSING
        if place.meta.get("required") and (is_empty or not is_given):
            leaf.required = True
        return leaf

    def _group(self, place: _Place, declared: Any, default: Any, optional: bool, keyed: bool) -> Group:
        items = {} if default is MISSING else items_of(default) or {}
        choice = ClassChoice(declared, place.meta, [type(item) for item in items.values()])
        group = Group(place.flag, place.name, place.meta, choice, None, keyed, optional, owner=place.owner)
        hit = self.settings.container(place.flag, place.lowest)
        lowest = place.lowest
        class_names: Mapping[str, str | None] | None = None if default is None else dict.fromkeys(items)
        if hit is not None:
            # A new list replaces the whole list of lower sources, with all fields of its items.
            group.origin, lowest, items = hit.origin, hit.rank, {}
            self.settings.replace(f"{place.flag}.", hit.rank)
            class_names = chosen_names(group, hit)
        if class_names is None:
            return group
        group.items = []
        prefix = f"{place.flag}{place.meta.get('separator', '.')}"
        meta = {key: place.meta[key] for key in ("choices", "enforce_choices") if key in place.meta}
        for name, class_name in class_names.items():
            selected = None
            default = items.get(name, MISSING)
            if hit is not None and class_name:
                selected = choice.select(class_name, hit.label(place.flag), self._trusted_by(hit))
            item = self._node(_Place(prefix, name, meta, lowest), declared, default, False, selected)
            if hit is not None and item.required:
                raise UsageError(f"{hit.label(item.flag)} needs a class; {one_of(choice.names())}")
            group.items.append(item)
        return group

    def _trusted_by(self, hit: Hit) -> Trust | None:
        # The user may name any class.
        return None if hit.origin == COMMAND_LINE else self._trusted

    def _leaf(self, place: _Place, declared: Any, default: Any) -> Leaf:
        if place.flag in self._claimed:
            raise TypeError(f"two fields share the flag --{place.flag}: give one of them another name or mode")
        self._claimed.add(place.flag)
        leaf = Leaf(place.flag, place.name, place.meta, declared, default, owner=place.owner)
        hit = self._hit(place)
        if hit is not None:
            leaf.value, leaf.origin = converted(hit, leaf, self._trusted), hit.origin
        if object_type(declared) is not None:
            with_arguments(leaf, self.settings, place.lowest if hit is None else hit.rank)
        return leaf

    def _hit(self, place: _Place) -> Hit | None:
        hit = self.settings.value(place.flag, place.lowest)
        for old in place.old_names:
            old_hit = self.settings.value(place.prefix + old, place.lowest)
            if old_hit is None:
                continue
            if hit is not None and hit.rank == old_hit.rank:
                flags = f"{hit.label(place.prefix + old)} (the old name) and {hit.label(place.flag)}"
                raise UsageError(f"both {flags} are given: give only {hit.label(place.flag)}")
            oldnames.warn_renamed(f"--{place.prefix}{old}", f"--{place.flag}")
            if hit is None or old_hit.rank > hit.rank:
                hit = old_hit
        return hit

    def _set_like_tuple(self, node: Node, place: _Place) -> None:
        hit = self.settings.container(place.flag, place.lowest)
        if hit is None or isinstance(hit.value, Mapping):
            return
        self.settings.value(place.flag, place.lowest)  # marks the flag as used
        values = hit.value if isinstance(hit.value, list) else [hit.value]
        targets = [entry for entry in node.entries if isinstance(entry, Leaf)]
        if len(values) > len(targets):
            known = ", ".join(leaf.name for leaf in targets)
            raise UsageError(f"{hit.label(place.flag)} takes up to {len(targets)} values ({known}), got {len(values)}")
        for leaf, value in zip(targets, values, strict=False):
            if leaf.origin == DEFAULT:  # its own flag, if given, wins
                if isinstance(hit.value, Words):
                    value = Words([value])
                leaf.value = converted(dataclasses.replace(hit, value=value), leaf, self._trusted)
                leaf.origin, leaf.required = hit.origin, False


def _with_common(cls: type, field: dataclasses.Field[Any]) -> Mapping[str, Any]:
    """Return the metadata of a field, with the mark of common options if a base class has set it."""
    for base in cls.__mro__[1:]:
        inherited = getattr(base, "__dataclass_fields__", {}).get(field.name)
        if inherited is not None and is_common(inherited.metadata):
            return {**field.metadata, **COMMON}
    return field.metadata
