"""Log messages of the user's own code, which go to the console and the log file of the toolkit."""

import contextlib
import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

from tfaip.params.tree import nodes_of
from tfaip.util.logging import LIBRARIES, ROOT, ConsoleHandler, has_handler_of_program, log_level

# Packages that configure their own logging.
_NOT_USERS = LIBRARIES | {ROOT, *sys.stdlib_module_names}


@contextlib.contextmanager
def user_logs(*values: Any) -> Iterator[None]:
    """Context that passes log messages of the user's modules to the console and the log file.

    Args:
        values: classes and params, whose packages are the user's; or names of modules.

    A level that is set on such a logger is kept. Handlers of the root logger get these messages where they get those
    of the toolkit.
    """
    with ExitStack() as stack:
        for package in sorted(_packages(values) - _NOT_USERS):
            stack.enter_context(_forwarded(logging.getLogger(package)))
        yield


@contextlib.contextmanager
def console_unless_configured() -> Iterator[None]:
    """Context that prints log messages if nothing else would handle them, as in a script."""
    root = logging.getLogger(ROOT)
    if root.handlers or not root.propagate or has_handler_of_program():
        yield
        return
    level, console = root.level, ConsoleHandler()
    root.setLevel(level or log_level())
    root.addHandler(console)
    root.propagate = False
    try:
        yield
    finally:
        root.propagate = True
        root.removeHandler(console)
        root.setLevel(level)


def _packages(values: Iterable[Any]) -> set[str]:
    modules: set[str] = set()
    for value in values:
        classes = [value] if isinstance(value, type) else map(type, nodes_of(value))
        modules |= {value} if isinstance(value, str) else {base.__module__ for cls in classes for base in cls.__mro__}
    return {module.partition(".")[0] for module in modules}


@contextlib.contextmanager
def _forwarded(package: logging.Logger) -> Iterator[None]:
    if any(isinstance(handler, _Forward) for handler in package.handlers):
        yield  # an outer context forwards its messages already
        return
    toolkit, forward, before = logging.getLogger(ROOT), _Forward(), (package.level, package.propagate)
    if package.level == logging.NOTSET:
        package.setLevel(toolkit.getEffectiveLevel())
    package.propagate = package.propagate and toolkit.propagate
    package.addHandler(forward)
    try:
        yield
    finally:
        package.removeHandler(forward)
        package.setLevel(before[0])
        package.propagate = before[1]


class _Forward(logging.Handler):
    """Handler that passes records on to the handlers of the toolkit."""

    def emit(self, record: logging.LogRecord) -> None:
        """Pass on a record of a package."""
        toolkit = logging.getLogger(ROOT)
        for handler in toolkit.handlers:
            if record.levelno >= handler.level and toolkit.isEnabledFor(record.levelno):
                handler.handle(record)
