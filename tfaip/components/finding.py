"""Scenarios that can be named on a command line, found without importing anything."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SHIPPED = ("tfaip.scenario.tutorial.full", "tfaip.scenario.tutorial.min")

# No search goes beyond the next parenthesis, so that a file takes time in proportion to its length.
_CLASS = re.compile(r"^class (\w+)(?<!Params)\([^()]*Scenario(?:Base)?\b", re.MULTILINE)
_LARGEST_FILE = 1_000_000
_DEPTH = 3


def scenario_names(prefix: str) -> list[str]:
    """Return the names of scenarios that begin with a text, as `tfaip-train` takes them.

    Args:
        prefix: of a dotted name; after a colon, of a class.
    """
    module, colon, _ = prefix.partition(":")
    parent, dot, _ = module.rpartition(".")
    found: list[str] = []
    for directory in _directories(parent):
        if colon:
            found += [f"{module}:{name}" for name in _classes(directory / module.rpartition(".")[2])]
        else:
            found += [f"{parent}{dot}{name}" for name in _names_in(directory)]
    if not colon:
        found += SHIPPED
    return sorted({name for name in found if name.startswith(prefix)})


def _directories(package: str) -> Iterator[Path]:
    """Yield the directories that may hold the modules of a package, or top-level modules of the user."""
    below = Path(*package.split(".")) if package else Path()
    # Installed packages need a name to begin with: there are too many to look into all.
    places = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *(sys.path if package else [])]
    for place in dict.fromkeys([os.getcwd(), *places]):
        directory = Path(place) / below
        if directory.is_dir():
            yield directory


def _names_in(directory: Path, depth: int = _DEPTH) -> Iterator[str]:
    """Yield the modules and packages that define a scenario, down to some depth, as names below the directory."""
    try:
        paths = sorted(directory.iterdir())
    except OSError:
        return  # a directory of somebody else
    for path in paths:
        if path.suffix == ".py" and path.stem.isidentifier() and _defines_scenario(path):
            yield path.stem
        elif path.name.isidentifier() and path.is_dir():
            if any(map(_defines_scenario, (path / "scenario.py", path / "__init__.py"))):
                yield path.name
            elif depth > 1:
                yield from (f"{path.name}.{name}" for name in _names_in(path, depth - 1))


def _classes(module: Path) -> list[str]:
    """Return the scenario classes of a module without its suffix, or of a package."""
    found: list[str] = []
    for path in (module.with_suffix(".py"), module / "scenario.py", module / "__init__.py"):
        found += _CLASS.findall(_text(path))
    return found


def _defines_scenario(path: Path) -> bool:
    return _CLASS.search(_text(path)) is not None


def _text(path: Path) -> str:
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
            return ""
        return path.read_text(encoding="utf-8", errors="ignore")
    except OSError:
        return ""
