"""Resolves settings against a params class: which classes are chosen, which flags there are, what they hold."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import MISSING
from typing import Any, get_origin

from tfaip.errors import UsageError
from tfaip.params import renames
from tfaip.params.arguments import Words
from tfaip.params.choices import ClassChoice
from tfaip.params.decoding import Decoder
from tfaip.params.names import one_of
from tfaip.params.schema import Entry, Group, Leaf, Node, field_default, field_kind, prefix_below
from tfaip.params.sources import COMMAND_LINE, DEFAULT, Hit, Settings
from tfaip.params.tree import node_fields
from tfaip.params.trust import UntrustedName, trusted_packages
from tfaip.params.typeargs import field_types
from tfaip.params.values import parse_words
from tfaip.util.text import shorten, shorten_text

NO_META: Mapping[str, Any] = {}


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where an entry stands: `prefix` and `name` make its flag; sources below `lowest` are not asked."""

    prefix: str
    name: str
    meta: Mapping[str, Any]
    lowest: int = 0
    old_names: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        return self.prefix + self.name

    def below(self, name: str, meta: Mapping[str, Any], lowest: int, old_names: tuple[str, ...]) -> _Place:
        """The place of a field of the node here: `pai_meta(mode=...)` says what its flag begins with."""
        return _Place(prefix_below(self.prefix, self.name, meta), name, meta, lowest, old_names)


class Resolver:
    """Walks down from roots and asks the settings for each flag.

    Args:
        settings: all sources.
        trusted: packages that config files may name classes and functions of.
    """

    def __init__(self, settings: Settings, trusted: Iterable[str] = ()) -> None:
        self.settings = settings
        self._given = frozenset(trusted)
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
        self._trusted = trusted_packages(
            declared, self._given if default is None else trusted_packages(type(default), self._trusted)
        )
        return self._node(place, declared, MISSING if default is None else default, optional=False)

    def _node(self, place: _Place, declared: Any, default: Any, optional: bool, selected: type | None = None) -> Node:
        fixed = place.meta.get("fix_dc", False)
        also = [type(default)] if default is not MISSING and default is not None else []
        choice = ClassChoice(declared, place.meta, also)
        hit = None if fixed else self.settings.choice(place.flag, place.lowest)
        node = Node(place.flag, place.name, place.meta, None, declared, None if fixed else choice, optional)
        values: Mapping[str, Any] = {}
        if hit is not None:
            node.origin = hit.origin
            node.cls = _chosen_class(hit, choice, place.flag, optional, self._trusted_by(hit))
            self.settings.replace(f"{place.flag}.", hit.rank)
            if node.cls is not None:
                values = _carried(default, declared, node.cls)
        elif selected is not None:
            node.cls = selected
        elif default is MISSING:
            node.required = inspect.isabstract(get_origin(declared) or declared)
            node.cls = None if node.required else declared
        elif default is not None:
            node.cls, values = type(default), _values_of(default)
        if node.cls is not None:
            node.cls = declared if node.cls is get_origin(declared) else node.cls
            self._add_fields(node, place, values)
            if place.meta.get("tuple_like"):
                self._set_like_tuple(node, place)
        return node

    def _add_fields(self, node: Node, place: _Place, values: Mapping[str, Any]) -> None:
        cls = get_origin(node.cls) or node.cls
        types_of = field_types(node.cls)
        old_names = renames.renamed_fields(cls)
        for field in node_fields(cls):
            if not field.init or field.metadata.get("mode") == "ignore":
                if field.name in values:
                    node.hidden[field.name] = values[field.name]
                continue
            old = tuple(old for old, new in old_names.items() if new == field.name)
            meta = _with_help(cls, field)
            below = place.below(field.name, meta, place.lowest, old)
            default = values[field.name] if field.name in values else field_default(field)
            node.entries.append(self._entry(below, types_of[field.name], default, field.name in values))

    def _entry(self, place: _Place, declared: Any, default: Any, given: bool) -> Entry:
        kind = field_kind(declared)
        if kind.kind == "node":
            return self._node(place, kind.declared, default, kind.optional)
        if kind.kind in ("list", "dict"):
            return self._group(place, kind.declared, default, kind.optional, kind.kind == "dict")
        leaf = self._leaf(place, kind.declared, default)
        # An empty text or list holds the place of a value that is still to come, as None does.
        empty = leaf.value is None or (isinstance(leaf.value, str | list) and not leaf.value)
        answered = not empty and (given or leaf.origin != DEFAULT)
        leaf.required = leaf.value is MISSING or (bool(place.meta.get("required")) and not answered)
        return leaf

    def _group(self, place: _Place, declared: Any, default: Any, optional: bool, keyed: bool) -> Group:
        items = {} if default is MISSING or default is None else _by_name(default)
        choice = ClassChoice(declared, place.meta, [type(item) for item in items.values()])
        group = Group(place.flag, place.name, place.meta, choice, None, keyed, optional)
        hit = self.settings.container(place.flag, place.lowest)
        lowest = place.lowest
        names: Mapping[str, str | None] = dict.fromkeys(items)
        if hit is not None:
            group.origin, lowest, items = hit.origin, hit.rank, {}
            self.settings.replace(f"{place.flag}.", hit.rank)
            chosen = _chosen_names(hit, place.flag, keyed, optional, place.meta)
            if chosen is None:
                return group
            names = chosen
        elif default is None:
            return group
        meta = {key: value for key, value in place.meta.items() if key in ("choices", "enforce_choices")}
        group.entries = []
        for name, class_name in names.items():
            below = _Place(f"{place.flag}{place.meta.get('separator', '.')}", name, meta, lowest)
            cls = None
            if hit and class_name:
                cls = choice.select(class_name, hit.label(place.flag), self._trusted_by(hit))
            group.entries.append(self._node(below, declared, items.get(name, MISSING), False, cls))
        return group

    def _trusted_by(self, hit: Hit) -> frozenset[str] | None:
        return None if hit.origin == COMMAND_LINE else self._trusted

    def _leaf(self, place: _Place, declared: Any, default: Any) -> Leaf:
        if place.flag in self._claimed:
            raise TypeError(f"two fields share the flag --{place.flag}: give one of them another name or mode")
        self._claimed.add(place.flag)
        leaf = Leaf(place.flag, place.name, declared, place.meta, default)
        hit = self._hit(place)
        if hit is not None:
            leaf.value, leaf.origin = _converted(hit, declared, place, self._trusted), hit.origin
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
            renames.warn_renamed(f"--{place.prefix}{old}", f"--{place.flag}")
            hit = old_hit if hit is None or old_hit.rank > hit.rank else hit
        return hit

    def _set_like_tuple(self, node: Node, place: _Place) -> None:
        hit = self.settings.container(place.flag, place.lowest)
        if hit is None or isinstance(hit.value, Mapping):
            return
        self.settings.value(place.flag, place.lowest)
        values = hit.value if isinstance(hit.value, list) else [hit.value]
        targets = [entry for entry in node.entries if isinstance(entry, Leaf)]
        if len(values) > len(targets):
            known = ", ".join(leaf.name for leaf in targets)
            raise UsageError(f"{hit.label(place.flag)} takes up to {len(targets)} values ({known}), got {len(values)}")
        for leaf, value in zip(targets, values, strict=False):
            if leaf.origin == DEFAULT:
                one = Hit(Words([value]) if isinstance(hit.value, Words) else value, hit.origin, hit.rank)
                leaf.value = _converted(one, leaf.declared, _Place("", leaf.flag, leaf.meta), self._trusted)
                leaf.origin, leaf.required = hit.origin, False


def _with_help(cls: type, field: dataclasses.Field[Any]) -> Mapping[str, Any]:
    """The metadata of a field; a class that declares the field again without a help text keeps the inherited one."""
    if field.metadata.get("help"):
        return field.metadata
    for base in cls.__mro__[1:]:
        inherited = getattr(base, "__dataclass_fields__", {}).get(field.name)
        if inherited is not None and inherited.metadata.get("help"):
            return {**field.metadata, "help": inherited.metadata["help"]}
    return field.metadata


def _chosen_class(
    hit: Hit, choice: ClassChoice, flag: str, optional: bool, trusted: frozenset[str] | None
) -> type | None:
    value, shown = hit.value, hit.label(flag)
    if isinstance(value, Words):
        if len(value) != 1:
            got = shorten_text(" ".join(value)) if value else "nothing"
            raise UsageError(f"{shown} takes one class, got {got}; {one_of(choice.names())}")
        value = value[0]
    if value is None or (isinstance(value, str) and value.lower() in ("none", "null")):
        if optional:
            return None
        raise UsageError(f"{shown} cannot be None; {one_of(choice.names())}")
    if not isinstance(value, str):
        raise UsageError(f"{shown}: expected the name of a class, got {shorten(value)}")
    return choice.select(value, shown, trusted)


def _chosen_names(
    hit: Hit, flag: str, keyed: bool, optional: bool, meta: Mapping[str, Any]
) -> dict[str, str | None] | None:
    """Index or key -> name of the class (None: the entry says it itself); None for no container."""
    value, shown = hit.value, hit.label(flag)
    is_none = value is None or (isinstance(value, Words) and [word.lower() for word in value] == ["none"])
    if is_none and optional:
        return None
    if meta.get("nargs") == "+" and isinstance(value, Words) and not value:
        raise UsageError(f"{shown} needs at least one class")
    if keyed and isinstance(value, Words):
        pairs = [word.partition("=") for word in value]
        if len({key for key, _, _ in pairs}) < len(pairs):
            raise UsageError(f"{shown}: a key is given twice")
        return {key: name or None for key, _, name in pairs}
    if isinstance(value, Words) and not keyed:
        return {str(index): name for index, name in enumerate(value)}
    if isinstance(value, Mapping if keyed else list):
        return {name: None for name in _by_name(value)}
    raise UsageError(f"{shown}: expected a {'mapping' if keyed else 'list'} of classes, got {shorten(value)}")


def _by_name(container: Any) -> dict[str, Any]:
    pairs = container.items() if isinstance(container, Mapping) else enumerate(container)
    return {str(key): item for key, item in pairs}


def _values_of(node: Any) -> dict[str, Any]:
    return {field.name: getattr(node, field.name) for field in node_fields(node)}


def _carried(default: Any, declared: Any, cls: type) -> dict[str, Any]:
    """What another class takes over from the default instance.

    All of it if the class is the same; else the fields that both inherit from the declared type and that somebody
    has set: a value that is just the default of its own class says nothing about another class.
    """
    if default is MISSING or default is None:
        return {}
    if type(default) is cls:
        return _values_of(default)
    known = {field.name for field in node_fields(cls)}
    shared = {field.name for field in node_fields(get_origin(declared) or declared)} & known
    values = {f.name: (getattr(default, f.name), field_default(f)) for f in node_fields(default) if f.name in shared}
    return {name: value for name, (value, own_default) in values.items() if value != own_default}


def _converted(hit: Hit, declared: Any, place: _Place, trusted: frozenset[str]) -> Any:
    shown = hit.label(place.flag)
    value = hit.value
    if isinstance(value, Words):
        if not value and place.meta.get("nargs") == "+":
            raise UsageError(f"{shown} needs at least one value")
        value = parse_words(value, declared, shown)
    else:
        try:
            value = Decoder(trusted).decode(value, declared, shown)
        except UntrustedName as error:
            raise UsageError(f"{error.refusal}: name it on the command line, or {error.how_to_trust()}") from error
        except UsageError:
            # YAML takes 1e-3 for a string, and a name of an enum is as good as its value.
            if not isinstance(value, str):
                raise
            value = parse_words([value], declared, shown)
    _check_choices(value, place.meta, shown)
    return value


def _check_choices(value: Any, meta: Mapping[str, Any], shown: str) -> None:
    choices = meta.get("choices")
    if choices is None or meta.get("enforce_choices") is False:
        return
    for item in value if isinstance(value, list | tuple | set) else [value]:
        if item not in choices and str(item) not in map(str, choices):
            raise UsageError(
                f"{shown}: {shorten(item)} is not among the choices {shorten_text(', '.join(map(str, choices)))}"
            )
