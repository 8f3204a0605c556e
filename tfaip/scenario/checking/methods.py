"""Methods of a scenario that nothing calls: hooks with a misspelled name, or hooks that exist no more."""

from __future__ import annotations

import ast
import difflib
import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import tfaip
from tfaip.scenario.checking.finding import Finding, Kind, finding_at
from tfaip.scenario.checking.parts import is_inside
from tfaip.scenario.checking.sources import Source

# Names that only a hook has: the caller would be the toolkit.
_HOOK = re.compile(r"_.*|(additional|default|static)_.*|.*_(cls|kwargs)")
_SIMILARITY = 0.8
# The toolkit asks by a string for a method that its base classes do not have.
_ASKED_FOR = re.compile(r"\"([A-Za-z_]\w*)\"")


def find_uncalled(classes: Iterable[type], package: str, sources: Iterable[Source]) -> list[Finding]:
    """Return the methods that override nothing and that neither the package nor the toolkit asks for.

    Public methods count only if their name resembles that of a method of a base class, or if it is of a form that
    only hooks have: others may be called by other programs.

    Args:
        classes: of the package.
        package: its name.
        sources: its files.
    """
    mentioned = _names_in(sources)
    return [finding for cls in classes for finding in _uncalled(cls, package, mentioned)]


def _uncalled(cls: type, package: str, mentioned: set[str]) -> Iterator[Finding]:
    bases = [base for base in cls.__mro__ if base is not object and not is_inside(base.__module__, package)]
    if not any(is_inside(base.__module__, "tfaip") for base in bases):
        return
    known = {name for base in bases for name, value in vars(base).items() if _is_method(value)}
    for name, value in vars(cls).items():
        if not _is_method(value) or name.startswith("__") or name in mentioned or _define(bases, name):
            continue
        near = difflib.get_close_matches(name, known, 1, _SIMILARITY)
        if name in _asked_for_by_toolkit() or not (near or _HOOK.fullmatch(name)):
            continue
        yield _finding(cls, name, value, near)


def _define(classes: Iterable[type], name: str) -> bool:
    """Return True if one of the classes defines a name itself."""
    return any(name in vars(cls) for cls in classes)


def _finding(cls: type, name: str, value: Any, near: list[str]) -> Finding:
    advice = "remove it, or call it"
    if near:
        advice = f"did you mean {near[0]}?"
    code = inspect.unwrap(getattr(value, "__func__", value))
    return finding_at(code, Kind.UNCALLED, f"{cls.__name__}.{name} overrides nothing and is never called", advice)


def _is_method(value: Any) -> bool:
    return inspect.isfunction(value) or isinstance(value, classmethod | staticmethod)


def _names_in(sources: Iterable[Source]) -> set[str]:
    """Return the names that occur as an attribute, a plain name or a string in some files."""
    found = set()
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


@cache
def _asked_for_by_toolkit() -> frozenset[str]:
    """Return the names that occur as strings in the sources of the toolkit."""
    found: set[str] = set()
    root = Path(tfaip.__file__).parent
    for path in root.rglob("*.py"):
        if not path.is_relative_to(root / "backend"):  # its strings are names of libraries
            found.update(_ASKED_FOR.findall(path.read_text(encoding="utf-8")))
    return frozenset(found)
