"""Defaults of fields that every object needs for itself: lists, dicts, sets, and params."""

from __future__ import annotations

import copy
import dataclasses
import functools
from typing import Any


def default_field(value: Any, **settings: Any) -> Any:
    """Return a dataclass field with a default, which each object copies if it can be changed."""
    if is_mutable(value):
        return dataclasses.field(default_factory=functools.partial(copied, value), **settings)
    return dataclasses.field(default=value, **settings)


def is_mutable(value: Any) -> bool:
    """Return True if two objects must not share a value: one could change that of the other."""
    if isinstance(value, tuple):
        return any(map(is_mutable, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return not type(value).__dataclass_params__.frozen  # type: ignore[attr-defined]
    return type(value).__hash__ is None


def copied(value: Any) -> Any:
    """Return a copy of a value with all containers and params in it; arrays are shared.

    `copy.deepcopy` would double a data set that a generator holds.
    """
    if not is_mutable(value) or hasattr(value, "__array__"):
        return value
    if isinstance(value, tuple):
        items = map(copied, value)
        return value._make(items) if hasattr(value, "_make") else tuple(items)
    if not isinstance(value, list | dict) and not dataclasses.is_dataclass(value):
        return copy.deepcopy(value)
    new = copy.copy(value)
    if isinstance(new, list):
        new[:] = map(copied, new)
    elif isinstance(new, dict):
        new.update((key, copied(item)) for key, item in new.items())
    else:
        for field in dataclasses.fields(new):
            if hasattr(new, field.name):
                object.__setattr__(new, field.name, copied(getattr(new, field.name)))
    return new
