"""Functions that a user names as `module:function` in params."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from tfaip.params.limits import FieldError
from tfaip.params.names.trust import FULL_NAME, NotImportable, import_named


class FunctionName(str):
    """Type of a field that holds `module:function`.

    The command line and Python code may name any function, a file only those of trusted packages,
    see `tfaip.params.names.trust.check_function`.
    """

    __slots__ = ()


def expected_function(name: str) -> str | None:
    """Return in words what is expected instead of a text, or None if it has the form `module:function`."""
    return None if FULL_NAME.fullmatch(name) else "module:function"


def load_function(name: str, path: str) -> Callable[..., Any]:
    """Import a function.

    Args:
        name: `module:function`.
        path: the field that names it, for messages.

    Raises:
        FieldError: if the module cannot be imported, or holds no such function.
    """
    expected = expected_function(name)
    if expected is not None:
        raise FieldError(path, name, expected)
    try:
        function: Callable[..., Any] = import_named(name, path, "function")
    except NotImportable as error:
        raise FieldError(path, name, error.expected) from error
    return function


class FunctionByName:
    """Function of the user, called with those of the offered keyword arguments that it takes.

    Args:
        name: `module:function`.
        offered: names of the arguments.
        path: the field that names it, for messages.

    Raises:
        FieldError: if there is no such function, or it needs another argument.
    """

    def __init__(self, name: str, offered: Iterable[str], path: str) -> None:
        self._function = load_function(name, path)
        offered = list(offered)
        try:
            parameters = inspect.signature(self._function).parameters.values()
        except (TypeError, ValueError) as error:  # of some that are not written in Python
            raise FieldError(path, name, "a function whose arguments are known: wrap it") from error
        self._taken: set[str] = set()
        for p in parameters:
            if p.kind is p.VAR_KEYWORD:
                self._taken.update(offered)
            elif p.name in offered and p.kind is not p.POSITIONAL_ONLY:
                self._taken.add(p.name)
            elif p.kind is p.POSITIONAL_ONLY or (p.default is p.empty and p.kind is not p.VAR_POSITIONAL):
                raise FieldError(path, name, f"a function of {', '.join(offered)}; it needs {p.name!r}")

    @property
    def taken(self) -> set[str]:
        """Names of the offered arguments that the function takes."""
        return set(self._taken)

    def __call__(self, **offered: Any) -> Any:
        """Call the function with the arguments that it takes."""
        return self._function(**{name: value for name, value in offered.items() if name in self._taken})
