"""What makes a params class of a class statement, whichever decorators stand above it."""

from __future__ import annotations

import dataclasses
from abc import ABCMeta
from typing import TYPE_CHECKING, Any

from tfaip.params import renames

# `paiargparse.pai_dataclass` would put these on the class; its decoder imports whatever a file names.
_REPLACED_METHODS = {"to_dict", "from_dict", "to_json", "from_json", "schema", "__setattr__"}
_REPLACED_PACKAGES = {"paiargparse", "dataclasses_json"}


class ParamsMeta(ABCMeta):
    """Accepts old field names in the constructor and keeps decorators from replacing the safe JSON methods.

    A metaclass, because nothing else sees the keyword arguments before `__init__` does, or sees what a
    decorator assigns to a class. It derives from `ABCMeta` so that params classes may be abstract.
    """

    if not TYPE_CHECKING:  # a type checker shall look at the constructor

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            ensure_dataclass(cls)
            return super().__call__(*args, **renames.current_names(cls, kwargs))

    def __setattr__(cls, name: str, value: Any) -> None:
        if name in _REPLACED_METHODS:
            module = getattr(getattr(value, "__func__", value), "__module__", None) or ""
            if module.partition(".")[0] in _REPLACED_PACKAGES:
                return
        super().__setattr__(name, value)


def ensure_dataclass(cls: Any) -> Any:
    """Make a dataclass of a params class that was declared without the decorator; returns `cls`."""
    if isinstance(cls, ParamsMeta) and "__dataclass_fields__" not in vars(cls):
        for base in cls.__bases__:
            ensure_dataclass(base)
        dataclasses.dataclass(cls)  # type: ignore[arg-type]
    return cls
