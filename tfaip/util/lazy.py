"""Module attributes that are imported on first use (PEP 562), so that `import tfaip` stays instant."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from tfaip.util.oldnames import old_name


def lazy_attributes(module: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Build the `__getattr__` and `__dir__` of a module whose attributes are defined elsewhere.

    The attributes are those that the type stub beside the module imports (`from package.module import Name as Name`),
    so type checkers and Python read the same list. They are also the `__all__` of the module. Names of
    tfaip 1.2 are found, too.

    Args:
        module: name of the module that offers the attributes (its `__name__`).
        file: its `__file__`.
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
