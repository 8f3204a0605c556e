"""From the name of a class or function in a file to the object: only what is allowed is ever imported."""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
from collections.abc import Iterable
from typing import Any, get_origin

from tfaip.errors import UsageError
from tfaip.params import renames
from tfaip.util.text import shorten, shorten_text

_NAME = re.compile(r"((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*):([A-Za-z_]\w*)", re.ASCII)
_OWN_PACKAGE = "tfaip"
# Far more than any name has: it is shown in messages, and becomes a path when it is imported.
_LONGEST_NAME = 200


def class_name(cls: type) -> str:
    """The `module:Class` under which stored params name a class.

    Raises:
        TypeError: it is not defined at the top level of a module, so no name could find it again.
    """
    if cls.__qualname__ != cls.__name__:
        raise TypeError(f"{cls.__qualname__} cannot be stored: move it to the top level of {cls.__module__}")
    return f"{cls.__module__}:{cls.__name__}"


def top_package(module: str) -> str:
    """`pkg` of `pkg.sub.module`."""
    return module.partition(".")[0]


def trusted_packages(declared: Any, trusted: frozenset[str]) -> frozenset[str]:
    """`trusted` and the package of a declared class, whose code runs already."""
    return trusted if declared is object else trusted | {top_package((get_origin(declared) or declared).__module__)}


def check_packages(packages: Iterable[str]) -> list[str]:
    """Return the packages of `--trust`.

    Raises:
        UsageError: if one is not the name of a top-level package.
    """
    packages = list(packages)
    for name in packages:
        if not name.isidentifier():
            top = top_package(name)
            hint = f": --trust {top}" if top.isidentifier() else ""
            raise UsageError(f"--trust {shorten_text(name)}: expected the name of a top-level package{hint}")
    return packages


class UntrustedName(UsageError):
    """A file names something that it must not.

    Args:
        refusal: what, and why.
        package: that would have to be trusted.
    """

    def __init__(self, refusal: str, package: str) -> None:
        self.refusal, self.package = refusal, package
        super().__init__(f"{refusal}; if you know the file, {self.how_to_trust()}")

    def how_to_trust(self) -> str:
        """Return what to type."""
        return f"trust it: --trust {self.package}"


def find_class(name: Any, declared: Any, trusted: frozenset[str], place: str) -> type:
    """The params class that a file names.

    Args:
        name: value of `__cls__`, expected to be `module:Class`.
        declared: type of the field; the class must be a subclass.
        trusted: top-level packages, besides `tfaip` and the one of `declared`, that may be imported.
        place: dotted path, for messages.

    Raises:
        UsageError: refused, always before anything is imported that is not trusted; or not found.
    """
    renamed = renames.RENAMED_CLASSES.get(name, name) if isinstance(name, str) else name
    match = _NAME.fullmatch(renamed) if isinstance(renamed, str) and len(renamed) <= _LONGEST_NAME else None
    if match is None:
        raise UsageError(f"{place}: __cls__ is {shorten(name)}, expected 'module:Class'")
    module, attribute = match.groups()
    allowed = trusted_packages(declared, trusted) | {_OWN_PACKAGE}
    _require_trust(module, allowed, f"{place}: __cls__ {shorten(name)}")
    cls = getattr(_module(module, place), attribute, None)
    base = get_origin(declared) or declared
    if cls is None:
        raise UsageError(f"{place}: module {module} has no class {shorten(attribute)}")
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls) and issubclass(cls, base)):
        raise UsageError(f"{place}: {shorten(name)} is not a params class derived from {base.__name__}")
    # An allowed module may hold, by another name, a class of one that is not.
    _require_trust(cls.__module__, allowed, f"{place}: __cls__ {shorten(name)}, defined in {cls.__module__},")
    return cls


def check_function(name: str, trusted: frozenset[str], place: str) -> None:
    """Whether a file may name a function.

    Args:
        name: `module:function`.
        trusted: top-level packages, besides `tfaip`, that may be imported.
        place: dotted path, for messages.

    Raises:
        UsageError: refused, always before anything is imported that is not trusted; or not found.
    """
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise UsageError(f"{place}: expected 'module:function', got {shorten(name)}")
    module, _, attribute = name.partition(":")
    allowed = trusted | {_OWN_PACKAGE}
    _require_trust(module, allowed, f"{place}: function {shorten(name)}")
    function = getattr(_module(module, place), attribute, None)
    if not callable(function):
        raise UsageError(f"{place}: module {module} has no function {shorten(attribute)}")
    # An allowed module may hold, by another name, a function of one that is not.
    home = getattr(function, "__module__", None) or ""
    _require_trust(home, allowed, f"{place}: function {shorten(name)}, defined in {home},")


def _require_trust(module: str, allowed: frozenset[str], what: str) -> None:
    if top_package(module) not in allowed:
        raise UntrustedName(
            f"{what} is refused: {top_package(module)} is not among the trusted packages "
            f"({', '.join(sorted(allowed))})",
            top_package(module),
        )


def _module(name: str, place: str) -> Any:
    if name in sys.modules:
        return sys.modules[name]
    try:
        return importlib.import_module(name)
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        is_elsewhere = isinstance(error, ModuleNotFoundError)
        hint = ": put the directory that holds it on the PYTHONPATH" if is_elsewhere else ""
        raise UsageError(f"{place}: module {shorten_text(name)} cannot be imported ({reason}){hint}") from error
