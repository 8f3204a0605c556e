"""Checks which methods a subclass has of its own."""

from __future__ import annotations

import inspect
from collections.abc import Mapping


def overrides(cls: type, base: type, name: str) -> bool:
    """Return True if a class has a method of its own in place of the one of `base`, which may have none."""
    return inspect.getattr_static(cls, name, None) is not inspect.getattr_static(base, name, None)


def refuse_uncalled(cls: type, base: type, instead: Mapping[str, str]) -> None:
    """Raise if a class overrides a method that a training never calls, so that nothing is lost in silence.

    Args:
        cls: the subclass.
        base: what it derives from.
        instead: name of such a method -> what to override.

    Raises:
        TypeError: if it does.
    """
    for name, better in instead.items():
        if overrides(cls, base, name):
            raise TypeError(f"{cls.__qualname__}.{name} would never be called: override {better} instead")
