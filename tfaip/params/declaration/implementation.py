"""The class that params describe, named by a string."""

from __future__ import annotations

import importlib.util
import re
import sys
from typing import Any

_CLASS_NAME = re.compile(r"\.*(?:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)?:[A-Za-z_]\w*", re.ASCII)


def implementation(params_cls: type, name: str) -> Any:
    """Return a static method that imports the class `name` when it is called.

    Args:
        params_cls: class of the params.
        name: `module:Class`. A module that begins with a dot is relative to the package of the module
            that declares `params_cls`, as in an import; beside a module without a package, a file
            that was named by its path or a script it is a module in the same directory. Without a
            module the class is defined in the module of `params_cls`.

    Raises:
        TypeError: `name` has another form, or begins with more dots than there are packages.
    """
    if not isinstance(name, str) or not _CLASS_NAME.fullmatch(name):
        raise TypeError(f"{params_cls.__qualname__} names the class {name!r}, expected 'module:Class'")
    module, _, attribute = name.partition(":")
    module = _absolute_module(params_cls, module)

    def cls() -> Any:
        # An error within the module keeps its traceback: it is one of the program, not of what a
        # user typed.
        imported = importlib.import_module(module)
        try:
            return getattr(imported, attribute)
        except AttributeError:
            raise TypeError(
                f"{params_cls.__qualname__} names {name!r}, which {imported.__name__} does not define"
            ) from None

    return staticmethod(cls)


def _absolute_module(params_cls: type, name: str) -> str:
    """Return the full name of a module that the declaration of a class names."""
    home = params_cls.__module__
    # A worker process runs the script of the training under another name.
    if home == "__mp_main__":
        home = "__main__"
    if not name.startswith("."):
        return name or home
    module = sys.modules.get(params_cls.__module__)
    # None for a script; empty for a module at the top level, and for a script in a worker.
    package = home.rpartition(".")[0] if module is None else module.__package__ or ""
    sibling = name[1:]
    if not package and sibling and not sibling.startswith("."):
        return sibling
    try:
        return importlib.util.resolve_name(name, package)
    except ImportError:
        raise TypeError(
            f"{params_cls.__qualname__} names the module {name!r}, but {home} is "
            f"{f'in the package {package}' if package else 'in no package'}: name it from the top, without a dot"
        ) from None
