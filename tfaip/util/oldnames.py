"""Names of tfaip 1.2 in modules of today, and modules of tfaip 1.2; found when they are first used.

What they are called today is the table in `tfaip.compat.names`. It is imported only if a name or a module is missing:
by name, since the package is above this one.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PACKAGE = "tfaip"


def old_names(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module in which tfaip 1.2 had more names (PEP 562).

    Hide it from type checkers, which would accept any name otherwise: `if not TYPE_CHECKING`.

    Args:
        module: name of the module (its `__name__`).
    """

    def module_getattr(name: str) -> Any:
        return old_name(module, name)

    return module_getattr


def old_name(module: str, name: str) -> Any:
    """Return what an old name in a module is today, and warn; it is stored there for the next time.

    Raises:
        AttributeError: if there was no such name.
    """
    if name.startswith("__"):  # Python and its tools ask each module for `__path__` and the like
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    value = _table().find_object(module, name)
    setattr(sys.modules[module], name, value)
    return value


def find_old_modules() -> None:
    """Let Python find modules of tfaip 1.2; it asks only for those that are nowhere else."""
    if not any(isinstance(finder, OldModules) for finder in sys.meta_path):
        sys.meta_path.append(OldModules())


class OldModules:
    """Finder and loader of modules of tfaip 1.2: empty ones, whose names are in the table."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """Return the spec of a module of tfaip 1.2; None: there was none of this name."""
        if not name.startswith(f"{PACKAGE}.") or name.startswith(f"{PACKAGE}.compat."):
            return None
        has_modules = _table().is_old_module(name)
        if has_modules is None:
            return None
        return ModuleSpec(name, self, is_package=has_modules)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python create the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Give an empty module its old names."""
        module.__doc__ = f"Names of tfaip 1.2; `{PACKAGE}.compat.names` has what they are called today."
        module.__dict__["__getattr__"] = old_names(module.__name__)


def _table() -> Any:
    return importlib.import_module(f"{PACKAGE}.compat.names")
