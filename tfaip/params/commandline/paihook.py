"""Lets `paiargparse`, if a program imports it, parse params trees; see `tfaip.params.commandline.paiargs`.

A program may import the library before or after its params, and gives them to a parser of the
library itself: only the import of the library is a moment that is common to all of them. Nothing
else of the library is replaced, and other dataclasses are parsed as before.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_LIBRARY = "paiargparse"


def use_trees() -> None:
    """Give the library the class of our parser where it asks for one: now, or when it is imported."""
    if _LIBRARY in sys.modules:
        _adapt(sys.modules[_LIBRARY])
    else:
        sys.meta_path.insert(0, _AfterImport())


def _adapt(library: ModuleType) -> None:
    library.PAIArgumentParser._data_class_argument_parser_cls = _tree_parser


def _tree_parser(self: Any) -> Any:
    """Return the class of the parser of the roots, instead of the method of `PAIArgumentParser`."""
    from tfaip.params.commandline.paiargs import TreeParser

    return TreeParser


class _AfterImport:
    """Finder that finds nothing itself: it adapts the library after the others have found it."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != _LIBRARY:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_adapt(module: ModuleType) -> None:
                execute(module)
                _adapt(module)

            spec.loader.exec_module = execute_and_adapt  # type: ignore[method-assign]
        return spec
