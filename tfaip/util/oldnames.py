"""Names that are found when they are first used: of other modules, of tfaip 1.2, and the library of its command line.

What they are called today is the table in `tfaip.compat.names`. Only this module imports `tfaip.compat`, when it is
needed: by name, since the package is above this one.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PACKAGE = "tfaip"
_LIBRARY = "paiargparse"


def old_names(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module in which tfaip 1.2 had more names (PEP 562).

    Hide it from type checkers, which would accept any name otherwise: `if not TYPE_CHECKING`.
    """

    def module_getattr(name: str) -> Any:
        return old_name(module, name)

    return module_getattr


def old_name(module: str, name: str) -> Any:
    """Return what an old name in a module is today, and warn; it is stored there for the next time."""
    if name.startswith("__"):  # Python and its tools ask each module for `__path__` and the like
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    value = compat("names").find_object(module, name)
    setattr(sys.modules[module], name, value)
    return value


def find_old_modules() -> None:
    """Let Python find modules of tfaip 1.2, asked only for those that are nowhere else; adapt its parser's library."""
    if not any(isinstance(finder, OldModules) for finder in sys.meta_path):
        sys.meta_path.append(OldModules())
        _parse_trees()


class OldModules:
    """Finder and loader of modules of tfaip 1.2: empty ones, whose names are in the table."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """Return the spec of a module of tfaip 1.2; None: there was none of this name."""
        if not name.startswith(f"{PACKAGE}.") or name.startswith(f"{PACKAGE}.compat."):
            return None
        has_modules = compat("names").is_old_module(name)
        if has_modules is None:
            return None
        return ModuleSpec(name, self, is_package=has_modules)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python create the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Give an empty module its old names."""
        module.__doc__ = f"Names of tfaip 1.2; `{PACKAGE}.compat.names` has what they are called today."
        module.__dict__["__getattr__"] = old_names(module.__name__)


def _parse_trees() -> None:
    """Let `paiargparse`, if a program imports it, parse params trees; see `tfaip.compat.paiargs`.

    A program may import the library before or after its params, and gives them to a parser of the library itself: only
    the import of the library is a moment that is common to all of them. Nothing else of the library is replaced.
    """
    if _LIBRARY in sys.modules:
        _adapt(sys.modules[_LIBRARY])
    else:
        sys.meta_path.insert(0, _AfterImport())


def _adapt(library: Any) -> None:
    def parser_cls(_: Any) -> Any:
        return compat("paiargs").TreeParser

    library.PAIArgumentParser._data_class_argument_parser_cls = parser_cls


class _AfterImport:
    """Finder that finds nothing itself: it adapts the library after the others have found it."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != _LIBRARY:
            return None
        from importlib.util import find_spec

        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_adapt(module: ModuleType) -> None:
                execute(module)
                _adapt(module)

            spec.loader.exec_module = execute_and_adapt  # type: ignore[method-assign]
        return spec


def compat(module: str) -> Any:
    """Return a module of `tfaip.compat`."""
    return importlib.import_module(f"{PACKAGE}.compat.{module}")


def lazy_attributes(module: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Build the `__getattr__` and `__dir__` of a module whose attributes are defined elsewhere.

    The attributes are those that the type stub beside the module imports (`from package.module import Name as Name`),
    so type checkers and Python read the same list. They are also the `__all__` of the module. Names of
    tfaip 1.2 are found, too.
    """

    @cache  # the stub is read when an attribute is first needed, not when the module is imported
    def origins() -> dict[str, str]:
        return stub_imports(file.removesuffix(".py") + ".pyi")

    def module_getattr(name: str) -> Any:
        if name == "__all__":
            return list(origins())
        if name not in origins():
            return old_name(module, name)
        value = getattr(importlib.import_module(origins()[name]), name)
        setattr(sys.modules[module], name, value)
        return value

    def module_dir() -> list[str]:
        return sorted({*vars(sys.modules[module]), *origins()})

    return module_getattr, module_dir


def stub_imports(path: str) -> dict[str, str]:
    """Return the names that a type stub imports -> the module of each."""
    with open(path, encoding="utf-8") as file:
        text = "\n" + file.read()
    origins: dict[str, str] = {}
    # Not `ast`: a parser of Python takes milliseconds, in every command and data worker.
    for statement in text.split("\nfrom ")[1:]:
        module, _, names = statement.partition(" import ")
        for name in names.strip("(\n) ").split(","):
            if name.strip():
                origins[name.split()[0]] = module
    return origins
