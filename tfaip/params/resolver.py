"""Resolved trees: every flag of some params with its value and origin, and the params that are built from it."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING
from typing import Any

from tfaip.errors import UsageError
from tfaip.params import types
from tfaip.params.choices import ClassChoice
from tfaip.params.codec import Decoder, Word, Words, is_none, only_word, pairs, parse_argument, plain_of
from tfaip.params.fields import copied, help_of
from tfaip.params.names import renamed_fields, warn_renamed
from tfaip.params.sources import Setting, Settings, Source
from tfaip.params.tree import Place, field_default, is_node, items_of, make_node, node_fields, same, values_of
from tfaip.params.trust import Trust
from tfaip.util.text import shorten, shorten_text


@dataclasses.dataclass
class Entry:
    """Part of a resolved tree: a value, a dataclass, or a list or dict of dataclasses.

    Args:
        flag: without dashes; of a node of a fixed class only the beginning of the flags of its fields.
        name: of the field.
        meta: what `pai_meta` gave.
        declared: resolved type; of the items of a list or dict; of a node without None.
        value: of a leaf, resolved; `MISSING` if there is none.
        kind: leaf, node, list or dict, as of `FieldKind`.
        source: of the value, or of the choice of classes; None: it is a default.
        parent: node that has the field, or list or dict that has the item; None for a root.
        required: there must be a value or a class, but none is given.
        optional: True if there may be no node, list or dict.
        choice: classes that can be chosen; None for a leaf, and if the class is fixed.
        cls: chosen class, possibly with type arguments, or list or dict; None for none at all.
        entries: fields or items.
        base: the object that the values are set in, or values that another class takes over.
    """

    flag: str
    name: str
    meta: Mapping[str, Any]
    declared: Any
    value: Any = MISSING
    kind: str = "leaf"
    source: Source | None = None
    parent: Entry | None = None
    required: bool = False
    optional: bool = False
    choice: ClassChoice | None = None
    cls: Any = None
    entries: list[Entry] = dataclasses.field(default_factory=list)
    base: Any = None

    @property
    def help(self) -> str:
        """The help text; the source of the class is read if it is not in the metadata."""
        text = str(self.meta.get("help") or "") if self.owner is None else help_of(self.owner, self.name)
        return text.strip()

    @property
    def owner(self) -> Any:
        """The class that has the field; None for a root and an item."""
        return None if self.parent is None or self.parent.is_group else types.origin_of(self.parent.cls)

    @property
    def path(self) -> str:
        """The Python path, with the name of the root."""
        if self.parent is None:
            return self.name
        if self.parent.is_group:
            return f"{self.parent.path}[{self.name if self.parent.kind == 'list' else repr(self.name)}]"
        return f"{self.parent.path}.{self.name}"

    @property
    def is_object(self) -> bool:
        """True for a node with a class, below which there are flags."""
        return self.kind == "node" and self.cls is not None

    @property
    def is_group(self) -> bool:
        """True for a list or dict of dataclasses."""
        return self.kind in ("list", "dict")

    @property
    def is_flag(self) -> bool:
        """True if the flag is shown: not of an item, and not of a node of a fixed class, where it is only a prefix."""
        is_item = self.parent is not None and self.parent.is_group
        return self.kind != "node" or (self.choice is not None and not is_item)

    @property
    def is_given(self) -> bool:
        """True if a source has set something of the entry."""
        return self.source is not None or any(entry.is_given for entry in self.entries)

    def construct(self) -> Any:
        """Set the values in the object, or in a new one of the chosen class; `__post_init__` is left to the caller."""
        if self.kind == "leaf" or self.cls is None:
            return self.value if self.kind == "leaf" else None
        if self.is_group:
            items = {item.name: item.construct() for item in self.entries}
            return items if self.cls is dict else list(items.values())
        if is_node(self.base):
            for entry in self.entries:
                if entry.is_given:
                    setattr(self.base, entry.name, entry.construct())
            return self.base
        values = dict(self.base or {})
        for entry in self.entries:
            if entry.kind != "leaf" or entry.value is not MISSING:
                values[entry.name] = entry.construct()
        return make_node(types.origin_of(self.cls), values)


def walk_entries(*entries: Entry) -> Iterator[Entry]:
    """Yield entries, each with all below it, in order."""
    for entry in entries:
        yield entry
        yield from walk_entries(*entry.entries)


class Resolver:
    """Resolver of one command: walks down from the roots and looks up each flag in the settings.

    The class of a node is looked up before its fields, so that the order in which they are given does not matter.

    Args:
        trusted: packages that config files may name classes and functions of.
    """

    def __init__(self, settings: Settings, trusted: Iterable[str] = ()) -> None:
        self.settings = settings
        self._given = self._trusted = Trust.of(trusted)
        self._claimed: set[str] = set()

    def root(self, name: str, declared: Any, default: Any, meta: Mapping[str, Any] = {}) -> Entry:
        """Resolve a tree.

        Args:
            name: of the root; its flags begin with it.
            declared: class of the root.
            default: object that supplies the defaults, and in which `construct` sets the values; None: those of the
                class.
            meta: as `pai_meta` gives it.

        Raises:
            UsageError: an unknown class, or a value of the wrong type.
            TypeError: two fields share a flag.
        """
        # The code of these packages runs already; a config file may name more of their classes.
        self._trusted = self._given if default is None else self._trusted.and_code_of(type(default))
        place = Place("", name, name, meta)
        kind = types.FieldKind("node", declared, False)
        return self._node(place, kind, MISSING if default is None else default, 0, None)

    def _node(self, place: Place, kind: types.FieldKind, default: Any, lowest: int, parent: Entry | None) -> Entry:
        key, declared = place.flag, kind.declared
        node = Entry(key, place.name, place.meta, declared, MISSING, "node", parent=parent, optional=kind.optional)
        if not place.meta.get("fix_dc"):
            node.choice = ClassChoice(declared, place.meta, [type(default)] if is_node(default) else [])
        hit = self.settings.choice(key, lowest, kind.optional, is_fixed=node.choice is None)
        if hit is not None and is_node(hit.value):
            node.source, default = hit.source, hit.value
            self._begin(node, type(default), default)
        elif hit is not None and node.choice is not None:
            node.source = hit.source
            cls = self._chosen_class(node, node.choice, hit)
            # A lower source may have set fields of the class that was chosen there.
            self.settings.replace(f"{key}.", hit.rank)
            self._begin(node, cls, default)
        elif isinstance(default, type):
            self._begin(node, default, MISSING)
        elif default is not None:
            # The class of an abstract one that is taken if none is chosen.
            cls = getattr(types.origin_of(declared), "__default_choice__", declared)
            cls = type(default) if is_node(default) else cls
            node.required = not is_node(default) and inspect.isabstract(types.origin_of(cls))
            self._begin(node, None if node.required else cls, default)
        self._add_fields(node, place, lowest)
        return node

    def _begin(self, node: Entry, cls: Any, default: Any) -> None:
        """Set the class of a node, and what it takes over from the default object.

        The object itself if it has this class; otherwise the values of fields that both inherit from the declared type
        and that differ from the default of their class: a default says nothing about another class.
        """
        node.cls = node.declared if cls is types.origin_of(node.declared) else cls  # with its type arguments
        if cls is None or not is_node(default):
            return
        if type(default) is cls:
            node.base = default
            return
        shared = types.origin_of(node.declared).__dataclass_fields__.keys() & cls.__dataclass_fields__.keys()
        node.base = {}
        for field in node_fields(default):
            if field.name in shared and not same(getattr(default, field.name), field_default(field)):
                node.base[field.name] = getattr(default, field.name)

    def _add_fields(self, node: Entry, place: Place, lowest: int) -> None:
        if node.cls is None:
            return
        cls = types.origin_of(node.cls)
        types_of = types.field_types(node.cls)
        values = values_of(node.base) if is_node(node.base) else node.base or {}
        # The code of this package runs already: fields below may name more of its classes.
        trusted, self._trusted = self._trusted, self._trusted.and_code_of(node.declared)
        for old, new in renamed_fields(cls).items():
            present = place.below(new, cls).flag
            former = present.removesuffix(new) + old
            if self.settings.rename(former, present):
                warn_renamed(f"--{former}", f"--{present}")
        for field in node_fields(cls):
            if not field.init or field.metadata.get("mode") == "ignore":
                continue
            given = field.name in values
            default = values[field.name] if given else field_default(field)
            if not given and field.default is not MISSING:
                default = copied(default)  # in which values can be set
            inner = place.below(field.name, cls)
            node.entries.append(self._entry(inner, types_of[field.name], default, given, lowest, node))
        self._trusted = trusted

    def _entry(self, place: Place, declared: Any, default: Any, given: bool, lowest: int, parent: Entry) -> Entry:
        kind = types.field_kind(declared)
        declared = kind.declared
        if kind.kind == "node":
            return self._node(place, kind, default, lowest, parent)
        if kind.kind in ("list", "dict"):
            return self._group(place, kind, default, lowest, parent)
        key = place.flag
        if key in self._claimed:
            raise TypeError(f"two fields share the flag --{key}: give one of them another name or mode")
        self._claimed.add(key)
        leaf = Entry(key, place.name, place.meta, declared, default, parent=parent)
        hit = self.settings.value(key, lowest, takes_none=not _is_section(declared))
        if hit is not None:
            leaf.value, leaf.source = self._decoded(hit, leaf), hit.source
        is_dict = types.origin_of(declared) in types.DICT_TYPES or isinstance(leaf.value, dict)
        if is_dict or types.object_type(declared) is not None:
            self._add_parts(leaf, hit, lowest)
        # An empty text or list, as None, is the placeholder of a value that is still to be given.
        is_empty = leaf.value is None or (isinstance(leaf.value, str | list) and not leaf.value)
        is_set = given or leaf.source is not None
        leaf.required = leaf.value is MISSING or bool(place.meta.get("required") and (is_empty or not is_set))
        return leaf

    def _group(self, place: Place, kind: types.FieldKind, default: Any, lowest: int, parent: Entry | None) -> Entry:
        items = {} if default is MISSING else items_of(default) or {}
        choice = ClassChoice(kind.declared, place.meta, [type(item) for item in items.values()])
        key = place.flag
        group = Entry(key, place.name, place.meta, kind.declared, MISSING, kind.kind, parent=parent, choice=choice)
        group.optional = kind.optional
        hit = self.settings.value(key, lowest, kind.optional, holds_nodes=True)
        names: Mapping[str, Any] | None = None if default is None else dict.fromkeys(items)
        if hit is not None:
            # A new list replaces the whole list of lower sources, with all fields of its items.
            group.source, lowest, items = hit.source, hit.rank, {}
            self.settings.replace(f"{key}.", hit.rank)
            objects = items_of(hit.value) or {}
            if any(map(is_node, objects.values())):
                self.settings.value(key, lowest)  # marks them as used
                items = objects
            names = dict.fromkeys(items) or _chosen_names(group, hit)
        if names is None:
            return group
        group.cls = dict if kind.kind == "dict" else list
        meta = {key: place.meta[key] for key in ("choices", "enforce_choices") if key in place.meta}
        for name, class_name in names.items():
            item_default = items.get(name, MISSING)
            if hit is not None and class_name is not None:
                item_default = choice.select(class_name, hit.label, self._trusted_by(hit))
            inner = place.below(name, default)
            inner = inner._replace(meta={**inner.meta, **meta})
            item = self._node(inner, types.FieldKind("node", kind.declared, False), item_default, lowest, group)
            group.entries.append(item)
        return group

    def _chosen_class(self, node: Entry, choice: ClassChoice, hit: Setting) -> type | None:
        value = only_word(hit.value, node.declared, hit.label) if isinstance(hit.value, Words) else hit.value
        if node.optional and is_none(value):
            return None
        return choice.select(value, hit.label, self._trusted_by(hit))

    def _trusted_by(self, hit: Setting) -> Trust | None:
        return None if hit.source.is_trusted else self._trusted

    def _decoded(self, hit: Setting, leaf: Entry) -> Any:
        """Return a given value as one of the declared type."""
        value: Any = hit.value
        if isinstance(value, Words) and not value and leaf.meta.get("nargs") == "+":
            raise UsageError(f"{hit.label} needs at least one value")
        decoder = Decoder(self._trusted_by(hit), reads_text=True)
        value = decoder.decode(Words([value]) if isinstance(value, Word) else value, leaf.declared, hit.label)
        choices = leaf.meta.get("choices")
        if choices is not None and leaf.meta.get("enforce_choices") is not False:
            known = [str(choice) for choice in choices]
            for item in value if isinstance(value, list | tuple | set) else [value]:
                if item not in choices and str(item) not in known:
                    names = shorten_text(", ".join(known))
                    raise UsageError(f"{hit.label}: {shorten(item)} is not among the choices {names}")
        return value

    def _add_parts(self, leaf: Entry, whole: Setting | None, lowest: int) -> None:
        """Set items of a dict, or arguments of objects, given below a flag; a new value begins without any."""
        lowest = lowest if whole is None else whole.rank
        self.settings.replace(f"{leaf.flag}.", lowest)
        given = self.settings.below(leaf.flag, lowest)
        # A default belongs to the class, or to the object that supplies the defaults.
        leaf.value = copy.deepcopy(leaf.value) if given else leaf.value
        for name, hit in given.items():
            leaf.source, chosen = hit.source, hit._replace(path=leaf.flag)
            if types.object_type(leaf.declared) is None:
                if whole is not None and whole.rank == hit.rank:
                    raise UsageError(f"{chosen.label} is given as a whole and in parts: give one of them")
                item = self._decoded(chosen._replace(value={name: hit.value}), leaf)
                leaf.value = {**(leaf.value if isinstance(leaf.value, dict) else {}), **item}
                continue
            index, _, argument = name.rpartition(".")
            named = (items_of(leaf.value) or {}).get(index) if index else leaf.value
            if not isinstance(named, types.NamedObject):
                raise UsageError(f"{hit.label}: no class is chosen: choose it with {chosen.label}")
            named.arguments[argument] = parse_argument(hit.value, hit.label)


def _chosen_names(group: Entry, hit: Setting) -> dict[str, Any] | None:
    """Return index or key -> name of the class; None for no container.

    The name is None if the item itself holds that of its class, as in a file.
    """
    value = Words([hit.value]) if isinstance(hit.value, Word) else hit.value
    if group.optional and is_none(value):
        return None
    if not isinstance(value, Words):
        if not isinstance(value, Mapping if group.kind == "dict" else list):
            kind = "mapping" if group.kind == "dict" else "list"
            raise UsageError(f"{hit.label}: expected a {kind} of classes, got {shorten(plain_of(value))}")
        items = items_of(value) or {}
        return {key: None if isinstance(item, Mapping | None) else item for key, item in items.items()}
    if group.meta.get("nargs") == "+" and not value:
        raise UsageError(f"{hit.label} needs at least one class")
    if group.kind == "list":
        return items_of(value)
    # Without `=` the item has the class that its type has by default.
    return {key: name or None for key, name in pairs(value, hit.label, needs_value=False).items()}


def _is_section(declared: Any) -> bool:
    """Return True for a list or dict that cannot be None."""
    members, optional = types.members_of(declared)
    containers = types.DICT_TYPES | types.SEQUENCE_TYPES
    return not optional and all(types.origin_of(member) in containers for member in members)
