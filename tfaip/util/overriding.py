"""Checks on the methods that a subclass overrides."""

from __future__ import annotations

import inspect
from collections.abc import Mapping


def overrides(cls: type, base: type, name: str) -> bool:
    """Return True if a class overrides a method of `base`, or adds it."""
    return inspect.getattr_static(cls, name, None) is not inspect.getattr_static(base, name, None)


def refuse_uncalled(cls: type, base: type, instead: Mapping[str, str]) -> None:
    """Raise if a class overrides a method that a training never calls.

    Args:
        cls: the subclass.
        base: what it derives from.
        instead: name of such a method -> what to override.

    Raises:
        TypeError: if it does; names the method and its replacement.
    """
    for name, better in instead.items():
        if overrides(cls, base, name):
            raise TypeError(f"{cls.__qualname__}.{name} would never be called: override {better} instead")
