"""Functions that a user names as `module:function` in params."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

from tfaip.errors import UsageError
from tfaip.util.text import shorten, shorten_text

_NAME = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*:[A-Za-z_]\w*", re.ASCII)


class FunctionName(str):
    """The type of a field that holds `module:function`.

    On the command line and in Python code it may name any function. In a file it must lie in a trusted package, see
    `tfaip.params.trust.check_function`.
    """

    __slots__ = ()


def check_function_name(name: str, flag: str, instead: str = "") -> None:
    """Whether a text has the form `module:function`.

    Args:
        name: the text.
        flag: for messages.
        instead: what could be given instead of a function, for messages.

    Raises:
        ValueError: it has another one.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"expected {instead}module:function, got {shorten(name)}: change {flag}")


def load_function(name: str, flag: str) -> Callable[..., Any]:
    """Import a function.

    Raises:
        UsageError: the module cannot be imported, or holds no such function.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{flag}: expected module:function, got {shorten(name)}")
    module_name, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        reason = f"{type(error).__name__}: {shorten_text(str(error))}"
        raise UsageError(f"{flag}: module {shorten(module_name)} cannot be imported ({reason})") from error
    function = getattr(module, attribute, None)
    if not callable(function):
        raise UsageError(f"{flag}: module {shorten_text(module_name)} has no function {shorten(attribute)}")
    return function


class FunctionByName:
    """A function of the user that is called with those of the offered keyword arguments that it takes.

    Args:
        name: `module:function`.
        offered: names of the arguments.
        flag: for messages.

    Raises:
        UsageError: there is no such function, or it needs another argument.
    """

    def __init__(self, name: str, offered: Iterable[str], flag: str) -> None:
        self._function = load_function(name, flag)
        offered = list(offered)
        try:
            parameters = inspect.signature(self._function).parameters.values()
        except (TypeError, ValueError) as error:  # of some that are not written in Python
            raise UsageError(f"{flag}: the arguments of {shorten_text(name)} are not known: wrap it") from error
        takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
        self._taken = set(offered) if takes_all else {p.name for p in parameters if p.name in offered}
        for p in parameters:
            variable = p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
            if p.kind is p.POSITIONAL_ONLY or not (variable or p.name in offered or p.default is not p.empty):
                raise UsageError(f"{flag}: {name} needs the argument {p.name!r}; it may take {', '.join(offered)}")

    def __call__(self, **offered: Any) -> Any:
        """Call it with what it takes."""
        return self._function(**{name: value for name, value in offered.items() if name in self._taken})
