"""Results of the settings: chosen classes, and values of the declared types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.names.suggestions import one_of
from tfaip.params.names.trust import Trust, UntrustedName
from tfaip.params.resolution.choices import ClassChoice
from tfaip.params.resolution.entries import Group, Leaf, Node
from tfaip.params.resolution.sources import COMMAND_LINE, Hit
from tfaip.params.tree.nodes import field_default, items_of, node_fields, values_of
from tfaip.params.types.kinds import origin_of
from tfaip.params.types.objects import ObjectName, checked_object_name, is_object_name
from tfaip.params.values.decoding import Decoder, parse_words
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


def name_given(value: Any, cls: type | None, place: str, trusted: Trust | None) -> dict[str, ObjectName]:
    """Return the value of the field that holds the name of an object, if the class was chosen by such a name."""
    name = value[0] if isinstance(value, Words) and value else value
    is_name = isinstance(name, str) and is_object_name(name)
    fields = [] if cls is None or not is_name else node_fields(cls)
    named = [field.name for field in fields if isinstance(field.default, ObjectName)]
    return {field: checked_object_name(name, trusted, place) for field in named}


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
