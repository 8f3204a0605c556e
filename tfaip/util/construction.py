"""Construction of objects from their params, whatever the order of the arguments of their class is."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

_PARAMS = "params"


def takes(cls: type, name: str) -> bool:
    """Return True if the constructor of a class has a parameter of this name.

    A constructor that passes `**kwargs` on is followed to the one of the next base class.
    """
    for base in cls.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = inspect.signature(vars(base)["__init__"]).parameters
        if name in parameters:
            return True
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            return False
    return False


def construct(cls: type, params: Any, **arguments: Any) -> Any:
    """Return a new object of a class.

    The params are the first argument, unless the class names another one first that is given too, or
    optional, and passes the params on: `def __init__(self, extra, **kwargs)`.

    Args:
        cls: the class.
        params: what its constructor calls `params`.
        arguments: further arguments, by keyword.
    """
    if _begins_with_params(cls, arguments):
        return cls(params, **arguments)
    return cls(params=params, **arguments)


def _begins_with_params(cls: type, given: Mapping[str, Any]) -> bool:
    """Return True if the first argument of the constructor is, or may be, the params."""
    init: Any = inspect.getattr_static(cls, "__init__")
    for parameter in list(inspect.signature(init).parameters.values())[1:2]:
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            return parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL)
        if parameter.name == _PARAMS:
            return True
        is_other = parameter.name in given or parameter.default is not parameter.empty
        return not (is_other and takes(cls, _PARAMS))
    return False
