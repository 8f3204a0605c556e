"""Checks on the methods that a subclass overrides."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any


def overrides(cls: Any, base: type, name: str) -> bool:
    """Return True if a class, or one of its objects, overrides a method of `base`, or adds it."""
    return inspect.getattr_static(cls, name, None) is not inspect.getattr_static(base, name, None)


def refuse_parameters(cls: type, name: str, arguments: Sequence[str]) -> None:
    """Raise if the body of a class overrides a hook that cannot be called with these positional arguments."""
    hook = vars(cls).get(name)
    if not inspect.isfunction(hook):
        return
    try:
        inspect.signature(hook).bind(None, *arguments)
    except TypeError as error:
        place = f"{hook.__code__.co_filename}:{hook.__code__.co_firstlineno}"
        expected = f"{name}(self, {', '.join(arguments)})"
        raise TypeError(f"{place}: {cls.__qualname__}.{name} is called as {expected}: {error}") from None


def refuse_uncalled(cls: Any, base: type, instead: Mapping[str, str]) -> None:
    """Raise if a class, or one of its objects, overrides a method that is never called.

    Args:
        cls: the subclass, or an object of it.
        base: what it derives from.
        instead: name of such a method -> what to override.

    Raises:
        TypeError: if it does; names the method and its replacement.
    """
    for name, better in instead.items():
        if overrides(cls, base, name):
            owner = cls if isinstance(cls, type) else type(cls)
            raise TypeError(f"{owner.__qualname__}.{name} would never be called: override {better} instead")
