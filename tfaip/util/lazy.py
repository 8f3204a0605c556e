"""Module attributes that are imported on first use (PEP 562), so that `import tfaip` stays instant."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_attributes(module: str, names: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Build the `__getattr__` and `__dir__` of a module whose attributes live elsewhere.

    Args:
        module: name of the module that offers the attributes (its `__name__`).
        names: attribute -> dotted name of the module that defines it.
    """

    def module_getattr(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(names[name]), name)
        setattr(sys.modules[module], name, value)
        return value

    def module_dir() -> list[str]:
        return sorted({*vars(sys.modules[module]), *names})

    return module_getattr, module_dir
