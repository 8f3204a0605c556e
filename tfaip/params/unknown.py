"""Flags that do not exist: the message, with near ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.names import RETURNN_OPTIONS, nearest, removed_fields, warn_removed
from tfaip.params.resolver import Entry, Node, walk_entries
from tfaip.params.sources import COMMAND_LINE, Settings, label
from tfaip.params.tree import node_fields
from tfaip.params.types import origin_of
from tfaip.util.text import shorten_text

# More classes are counted.
_MOST_NAMES = 3


class UnknownFlag(UsageError):
    """A key of a config file that no params have."""


def refuse_unknown(settings: Settings, roots: Sequence[Node], general: Sequence[str] = ()) -> None:
    """Raise if something was given that no field has asked for; what was given for a removed field is only logged.

    Args:
        settings: all sources, after the roots were resolved from them.
        roots: resolved trees.
        general: further flags.

    Raises:
        UsageError: if a flag or key is unknown; the message suggests near ones.
    """
    for key, origin in settings.unused():
        note = removed_note(key, roots)
        if note is not None:
            warn_removed(label(key, origin), note)
            continue
        if origin == COMMAND_LINE:
            raise UsageError(f"unknown flag {label(key, origin)}{_hint(key, roots, general, '--')}")
        place, shown = shorten_text(origin), shorten_text(key, 120)
        if key.startswith("--"):
            raise UsageError(f"{place}: keys have no dashes: write {shown.lstrip('-')} instead of {shown}")
        if key in general:
            raise UsageError(
                f"{place}: {key} is a flag of the command itself: give it as --{key} on the command "
                "line, and leave it out here"
            )
        raise UnknownFlag(f"{place}: unknown key {shown}{_hint(key, roots, general, '')}")


def removed_note(key: str, roots: Sequence[Node]) -> str | None:
    """Return what to know of a flag of a removed field, or of one below it; None if it is no such flag."""
    for node in all_entries(roots):
        if not isinstance(node, Node) or node.cls is None:
            continue
        for name, note in removed_fields(origin_of(node.cls)).items():
            if f"{key}.".startswith(f"{node.flag}.{name}."):
                return note
    return None


def _hint(key: str, roots: Sequence[Node], general: Sequence[str], dashes: str) -> str:
    """Return what to type instead, to be appended to a message."""
    entries = all_entries(roots)
    for node in _nodes(entries):
        names = [_choice(node, cls) for cls in _other_classes(node) if _knows(cls, node.flag, key)]
        if names and (node.cls is None or not _knows(origin_of(node.cls), node.flag, key)):
            choose = "choose it with" if len(names) == 1 else "choose one, as in"
            return f"; it belongs to {_listed(names)}: {choose} --{node.flag} {names[0]}"
    counterpart = RETURNN_OPTIONS.get(key.rpartition(".")[2]) or RETURNN_OPTIONS.get(key.partition(".")[0])
    if counterpart is not None:
        near = [counterpart]
    else:
        near = _near_flags(key, [*(entry.flag for entry in entries if is_flag(entry)), *general])
    if not near:
        return "; --help all lists all flags"
    return "; did you mean " + " or ".join(dashes + flag for flag in near) + "?"


def all_entries(roots: Sequence[Node]) -> list[Entry]:
    """Return all entries of resolved trees, in order."""
    return [entry for root in roots for entry in walk_entries(root)]


def is_flag(entry: Entry) -> bool:
    """Return True if the flag can be given; that of a node of a fixed class is only a prefix."""
    return not isinstance(entry, Node) or entry.choice is not None or bool(entry.meta.get("tuple_like"))


def flags_of_other_classes(roots: Sequence[Node], word: str) -> Iterator[tuple[str, str]]:
    """Yield each flag whose last part contains a word, of a class that could be chosen; and that choice as flags."""
    for node in _nodes(all_entries(roots)):
        known = {entry.name for entry in node.entries}
        for cls in _other_classes(node):
            for field in node_fields(cls):
                is_flag_name = field.name not in known and field.metadata.get("mode") != "ignore"
                if is_flag_name and word.lower() in field.name.lower():
                    yield _flag_of(field, node.flag), f"--{node.flag} {_choice(node, cls)}"


def _near_flags(key: str, known: Sequence[str]) -> list[str]:
    """Return flags that end alike (`learning_rate.lr` for `optimizer.lr`), then similar ones.

    What is below a flag without its first part (`trainer.schedules.0.points` for `schedules`) has this one alone.
    """
    below = key.partition(".")[2]
    while below:
        if below in known:
            return [below]
        below = below.rpartition(".")[0]
    by_end: dict[str, list[str]] = {}
    for flag in known:
        by_end.setdefault(flag.rpartition(".")[2], []).append(flag)
    last = key.rpartition(".")[2]
    alike = by_end.get(last, []) + nearest(key, known)
    if not alike:
        for end in nearest(last, by_end):
            alike += by_end[end]
    return list(dict.fromkeys(alike))[:3]


def _nodes(entries: Iterable[Entry]) -> Iterator[Node]:
    return (entry for entry in entries if isinstance(entry, Node))


def _other_classes(node: Node) -> list[type]:
    """Return the classes that could be chosen for a node, without the chosen one."""
    chosen = None if node.cls is None else origin_of(node.cls)
    return [] if node.choice is None else [cls for cls in node.choice.classes if cls is not chosen]


def _choice(node: Node, cls: type) -> str:
    return node.choice.name_of(cls) if node.choice is not None else cls.__name__


def _listed(names: Sequence[str]) -> str:
    if len(names) > _MOST_NAMES:
        return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _knows(cls: type, prefix: str, key: str) -> bool:
    """Return True if `key` is the flag of a field of a node, or begins with it."""
    return any(f"{key}.".startswith(f"{_flag_of(field, prefix)}.") for field in node_fields(cls))


def _flag_of(field: dataclasses.Field[Any], prefix: str) -> str:
    """Return the flag of a field of a node with the flag `prefix`."""
    return f"{prefix}{field.metadata.get('separator', '.')}{field.name}"
