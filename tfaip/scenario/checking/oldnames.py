"""Names of tfaip 1.2 in the code of a scenario: imported ones, and fields of params."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tfaip.params.names.formernames import REMOVED_FIELDS
from tfaip.params.names.oldnames import renamed_fields
from tfaip.params.tree.nodes import node_fields, nodes_of
from tfaip.scenario.checking.finding import Finding, Kind
from tfaip.scenario.checking.sources import Source, all_imports


def find_old_names(sources: Sequence[Source], params: Any) -> list[Finding]:
    """Return the names of tfaip 1.2 that files import, and the fields that they set by an old name.

    Args:
        sources: the files.
        params: the trainer params, whose classes tell what fields had another name.
    """
    return [*_imported(sources), *_fields(sources, list(nodes_of(params)))]


def _imported(sources: Iterable[Source]) -> Iterator[Finding]:
    # By name: the package of the old names is above all others.
    table = importlib.import_module("tfaip.compat.names")
    advice = {row.place(): row.advice() for row in table.OLD_NAMES}
    for source in sources:
        for imported in all_imports(source):
            text = advice.get((imported.module, imported.name))
            if text is not None:
                what, _, instead = text.partition(": ")
                yield Finding(str(source.path), imported.line, Kind.OLD_NAME, what, instead)


def _fields(sources: Iterable[Source], nodes: Sequence[Any]) -> Iterator[Finding]:
    old: dict[str, str] = {}
    for node in nodes:
        old |= {name: f"use {new}" for name, new in renamed_fields(type(node)).items()}
        for base in type(node).__mro__:
            old |= dict.fromkeys(REMOVED_FIELDS.get(base.__name__, ()), "remove it: it has no effect")
    # Names that are a field of another class cannot be told apart without types.
    for node in nodes:
        for field in node_fields(node):
            old.pop(field.name, None)
    for source in sources:
        for name, line in _used_fields(source):
            if name in old:
                yield Finding(
                    str(source.path), line, Kind.OLD_NAME, f"{name} is no field of params any more", old[name]
                )


def _used_fields(source: Source) -> Iterator[tuple[str, int]]:
    """Yield attributes and keyword arguments with their lines."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
        elif isinstance(node, ast.keyword) and node.arg is not None:
            yield node.arg, node.value.lineno
