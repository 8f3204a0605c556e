"""The table of old names, `names.txt`: what they are today, and what to write instead.

Old names are found by `tfaip.util.oldnames`, in modules that still exist and in those that do not.
"""

import importlib
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("names.txt")


@dataclass(frozen=True)
class OldName:
    """A name of tfaip 1.2, as `module:name`; `new` is empty if there is nothing like it any more."""

    old: str
    new: str
    note: str

    def place(self) -> tuple[str, str]:
        """Return module and name of the old name."""
        module, _, name = self.old.partition(":")
        return module, name

    def target(self) -> tuple[str, str]:
        """Return module and name of what it is today."""
        module, _, name = self.new.partition(":")
        return module, name

    def advice(self) -> str:
        """Return the text of the warning, or of the error."""
        note = self.note or f"use {'.'.join(self.target())}"
        state = "deprecated since" if self.new else "not in"
        return f"{'.'.join(self.place())} is {state} tfaip 2.0: {note}"


def old_names() -> list[OldName]:
    """Read the table."""
    rows = []
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        names, _, note = line.partition(" | ")
        old, _, new = names.partition(" -> ")
        module, _, several = old.partition(":")
        rows += [OldName(f"{module}:{name}", new, note) for name in several.split(",")]
    return rows


@cache
def _rows() -> dict[tuple[str, str], OldName]:
    return {row.place(): row for row in old_names()}


def find_object(module: str, name: str) -> Any:
    """Return what an old name of a module is today, with a `DeprecationWarning`.

    Raises:
        AttributeError: if there was no such name.
        ImportError: if there is nothing like it any more.
    """
    row = _rows().get((module, name))
    if row is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    if not row.new:
        raise ImportError(row.advice(), name=module)
    # Shown at the line that uses the name; Python leaves out the frames of an import.
    warnings.warn(row.advice(), DeprecationWarning, stacklevel=4)
    new_module, new_name = row.target()
    return getattr(importlib.import_module(new_module), new_name)


@cache
def is_old_module(name: str) -> bool | None:
    """Return True for a package of tfaip 1.2, False for another module of it, None if there was none."""
    modules = {module for module, _ in _rows()}
    if any(module.startswith(f"{name}.") for module in modules):
        return True
    return False if name in modules else None
