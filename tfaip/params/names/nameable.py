"""The mark of functions that files of params may name without that their package is trusted."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

T = TypeVar("T")

_MARK = "__nameable__"


def nameable(named: T) -> T:
    """Mark a function or class as made for params: files may name it.

    As a decorator::

        @nameable
        def inverse(epoch: float) -> float:
            return 1e-3 / (1 + epoch)

    The params of a run, its checkpoints and config files may come from somebody else. Of the scenario's own package
    they may name only what is marked: any other function could be called with arguments that the file chooses. What you
    type on the command line, or give in Python, needs no mark, nor does a package that you trust (`--trust`).

    A wrapper that `functools.wraps` makes of a marked function has the mark as well.
    """
    setattr(named, _MARK, True)
    return named


def is_nameable(found: Any) -> bool:
    """Return True if an object itself has the mark, or `functools.wraps` copied it; a class does not inherit it."""
    return getattr(found, "__dict__", {}).get(_MARK) is True


def is_made_for_params(found: Any, with_params: bool = True) -> bool:
    """Return True for what has the mark, classes derived from those of Keras, and (`with_params`) classes of params."""
    if not isinstance(found, type):
        return is_nameable(found)
    # By name, since nothing here loads a backend.
    is_of_keras = any(base.__module__.partition(".")[0] == "keras" for base in found.__mro__[1:])
    return is_nameable(found) or is_of_keras or (with_params and _is_params(found))


def _is_params(cls: type) -> bool:
    return dataclasses.is_dataclass(cls) and hasattr(cls, "__pai_dataclass__")
