"""Results of the settings: chosen classes, and values of the declared types."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import MISSING
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.names.suggestions import one_of
from tfaip.params.names.trust import Trust, UntrustedName
from tfaip.params.resolution.choices import ClassChoice
from tfaip.params.resolution.entries import Group, Leaf, Node
from tfaip.params.resolution.sources import COMMAND_LINE, Hit, Settings
from tfaip.params.tree.nodes import field_default, items_of, node_fields, values_of
from tfaip.params.types import NamedObject, origin_of, plain_argument
from tfaip.params.values.decoding import Decoder, parse_argument, parse_words
from tfaip.params.values.jsonoptions import decode_with
from tfaip.params.values.scalars import is_none
from tfaip.params.values.words import Words
from tfaip.util.text import shorten, shorten_text


def chosen_class(node: Node, choice: ClassChoice, hit: Hit, trusted: Trust | None) -> type | None:
    value, shown = hit.value, hit.label(node.flag)
    if isinstance(value, Words):
        if len(value) != 1:
            got = shorten_text(" ".join(value)) or "nothing"
            raise UsageError(f"{shown} takes one class, got {got}; {one_of(choice.names())}")
        value = value[0]
    if value is None or (isinstance(value, str) and value.lower() in ("none", "null")):
        if node.optional:
            return None
        raise UsageError(f"{shown} cannot be None; {one_of(choice.names())}")
    if not isinstance(value, str):
        raise UsageError(f"{shown}: expected the name of a class, got {shorten(value)}")
    return choice.select(value, shown, trusted)


def chosen_names(group: Group, hit: Hit) -> dict[str, str | None] | None:
    """Return index or key -> name of the class; None for no container.

    The name is None if the item itself holds that of its class, as in a file.
    """
    value, shown = hit.value, hit.label(group.flag)
    if group.optional and is_none(value):
        return None
    if not isinstance(value, Words):
        if not isinstance(value, Mapping if group.keyed else list):
            kind = "mapping" if group.keyed else "list"
            raise UsageError(f"{shown}: expected a {kind} of classes, got {shorten(value)}")
        return dict.fromkeys(items_of(value) or {})
    if group.meta.get("nargs") == "+" and not value:
        raise UsageError(f"{shown} needs at least one class")
    if not group.keyed:
        return {str(index): name for index, name in enumerate(value)}
    found: dict[str, str | None] = {}
    for word in value:
        key, _, name = word.partition("=")
        if key in found:
            raise UsageError(f"{shown}: a key is given twice")
        found[key] = name or None
    return found


def _names_of(cls: type) -> set[str]:
    return {field.name for field in node_fields(cls)}


def carried_values(default: Any, declared: Any, cls: type | None) -> dict[str, Any]:
    """Return the values that a chosen class takes over from the default instance.

    All of them if it is the class of the instance; otherwise those of fields that both inherit from
    the declared type and that differ from the default of their class: a default says nothing about
    another class.
    """
    if default is MISSING or default is None or cls is None:
        return {}
    if type(default) is cls:
        return values_of(default)
    shared = _names_of(origin_of(declared)) & _names_of(cls)
    values = {}
    for field in node_fields(default):
        if field.name in shared and getattr(default, field.name) != field_default(field):
            values[field.name] = getattr(default, field.name)
    return values


def converted(hit: Hit, leaf: Leaf, trusted: Trust) -> Any:
    shown = hit.label(leaf.flag)
    value = hit.value
    decoder = leaf.meta.get("dataclasses_json", {}).get("decoder")
    if decoder is not None:
        value = decode_with(decoder, value[0] if isinstance(value, Words) and len(value) == 1 else value, shown)
    elif isinstance(value, Words):
        if not value and leaf.meta.get("nargs") == "+":
            raise UsageError(f"{shown} needs at least one value")
        value = parse_words(value, leaf.declared, shown)
    else:
        try:
            value = Decoder(trusted).decode(value, leaf.declared, shown)
        except UntrustedName as error:
            if hit.origin != COMMAND_LINE or not isinstance(value, list):
                raise UsageError(f"{error.refusal}: name it on the command line, or {error.how_to_trust()}") from error
            # A program that sets flags may name what a command line may.
            value = parse_words(Words(value), leaf.declared, shown)
        except UsageError:
            # YAML reads 1e-3 as a string, and the name of an enum is as good as its value.
            if not isinstance(value, str):
                raise
            value = parse_words([value], leaf.declared, shown)
    choices = leaf.meta.get("choices")
    if choices is not None and leaf.meta.get("enforce_choices") is not False:
        known = [str(choice) for choice in choices]
        for item in value if isinstance(value, list | tuple | set) else [value]:
            if item not in choices and str(item) not in known:
                raise UsageError(f"{shown}: {shorten(item)} is not among the choices {shorten_text(', '.join(known))}")
    return value


def with_arguments(leaf: Leaf, settings: Settings, lowest: int) -> None:
    """Set the arguments of the objects of a field, which are given below its flag; a new class begins without any."""
    settings.replace(f"{leaf.flag}.", lowest)
    given = settings.below(leaf.flag, lowest)
    # A default belongs to the class, or to the instance that supplies the defaults.
    leaf.value = copy.deepcopy(leaf.value) if given else leaf.value
    for name, hit in given.items():
        shown = hit.label(f"{leaf.flag}.{name}")
        index, _, argument = name.rpartition(".")
        named = (items_of(leaf.value) or {}).get(index) if index else leaf.value
        if not isinstance(named, NamedObject):
            raise UsageError(f"{shown}: no class is chosen: choose it with {hit.label(leaf.flag)}")
        words = Words([hit.value]) if isinstance(hit.value, str) else hit.value  # YAML reads 1e-3 as a string
        is_text = isinstance(words, Words)
        named.arguments[argument] = parse_argument(words, shown) if is_text else plain_argument(words, shown)
        leaf.origin = hit.origin
