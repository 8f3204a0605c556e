"""Names of older versions: they stay accepted in constructors, attributes, stored params and flags."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

# Class name (also matched for its subclasses) -> old field name -> field name.
RENAMED_FIELDS: Mapping[str, Mapping[str, str]] = {
    "TrainerParams": {"ema_decay": "calc_ema"},
    "OptimizerParams": {"global_clip_norm": "clip_global_norm"},
}

# `__cls__` of older files -> where the class lives now, both as "module:Class".
RENAMED_CLASSES: Mapping[str, str] = {
    "tfaip.trainer.params:TrainingPipelineGeneratorParams": "tfaip.trainer.params:TrainerPipelineParams",
}


def renamed_fields(cls: type) -> dict[str, str]:
    """Old name -> name of all renamed fields of a class, those of its bases included."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        found.update(RENAMED_FIELDS.get(base.__name__, {}))
    return found


def current_name(cls: type, name: str, stacklevel: int = 3) -> str:
    """The name of today for a field of `cls`; a `DeprecationWarning` if `name` is an old one.

    Args:
        cls: class that has the field.
        name: old or new name.
        stacklevel: which caller the warning shows, counted from here.
    """
    new = renamed_fields(cls).get(name)
    if new is None:
        return name
    warn_renamed(f"{cls.__name__}.{name}", new, stacklevel + 1)
    return new


def warn_renamed(old: str, new: str, stacklevel: int = 2) -> None:
    """Tell that a name is old."""
    warnings.warn(f"{old} is now called {new}", DeprecationWarning, stacklevel)


def current_names(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` with old field names replaced.

    Raises:
        TypeError: a field is given by its old and by its new name.
    """
    if not renamed_fields(cls).keys() & values.keys():
        return dict(values)
    renamed: dict[str, Any] = {}
    for name, value in values.items():
        new = current_name(cls, name, stacklevel=4)
        if new in renamed or (new != name and new in values):
            raise TypeError(f"{cls.__name__} got both {name!r} (the old name) and {new!r}: give only {new!r}")
        renamed[new] = value
    return renamed
