"""Construction of the parts of a scenario from the classes that hooks name."""

from __future__ import annotations

from typing import Any

from tfaip.data.data import DataBase
from tfaip.params.classes import is_part
from tfaip.params.tree import node_fields
from tfaip.util.classes import construct, overrides


def build_part(cls: Any, params: Any, arguments: dict[str, Any]) -> Any:
    """Return the object of a class that a hook names; None: of the one that the params name.

    Raises:
        TypeError: if the class is its own params, and `params` are others.
    """
    if cls is None or (is_part(cls) and isinstance(params, cls)):
        return params.create(**arguments)
    if is_part(cls):
        raise TypeError(
            f"{cls.__name__} is its own params, got {type(params).__name__}: declare it in the scenario params"
        )
    return construct(cls, params, **arguments)


def default_data_params(data_cls: Any, declared: Any) -> Any:
    """Return the default params of a data class as the class that the scenario declares.

    Args:
        data_cls: class of the data, or None.
        declared: params of the declared class, with its own defaults.
    """
    if data_cls is None or not overrides(data_cls, DataBase, "default_params"):
        return declared
    params = data_cls.default_params()
    if isinstance(params, type(declared)):
        return params
    if not isinstance(declared, type(params)):
        raise TypeError(
            f"{data_cls.__name__}.default_params gave {type(params).__name__}, the scenario declares "
            f"{type(declared).__name__}: return params of that class"
        )
    # The scenario derives params of its own from those of the data.
    for field in node_fields(params):
        setattr(declared, field.name, getattr(params, field.name))
    return declared
