"""Params classes of a scenario in a data worker: made when a name of its module is looked up.

A worker imports the module of the scenario for the sake of a generator. Making the params classes
there, and importing those of trainings for it, took 40 ms of each start.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from types import CodeType, ModuleType
from typing import Any

from tfaip.util.process import is_data_worker


def are_made_on_demand(scenario: type, names: Collection[str], make: Callable[[], Any]) -> bool:
    """Let the module of a scenario make the params classes when one is looked up.

    Args:
        scenario: class that is being declared.
        names: of the params classes.
        make: defines them in the module.

    Returns:
        False if they must be made now: in other processes, and if the code of the module uses one by
        its name, which Python does not look up by `__getattr__`.
    """
    module = sys.modules.get(scenario.__module__)
    # A script runs in a module that is replaced afterwards; nothing leads to a class in a function.
    if not is_data_worker() or module is None or module.__name__ == "__mp_main__" or "." in scenario.__qualname__:
        return False
    code = _running_code(module)
    if code is None or _mentions(code, names):
        return False
    make_when_looked_up(module, names, make)
    return True


def make_when_looked_up(module: ModuleType, names: Collection[str], make: Callable[[], Any]) -> None:
    """Let a module make classes when one of them is looked up in it: by `pickle` in another process, for example.

    Args:
        module: of the scenario.
        names: of the params classes.
        make: defines them in the module.
    """
    module.__getattr__ = _module_getattr(module, names, make)  # type: ignore[method-assign]


def _running_code(module: ModuleType) -> CodeType | None:
    """Return the code of the module, which is being imported."""
    frame = sys._getframe()  # noqa: SLF001 - as `inspect.currentframe`, without its import
    while frame is not None:
        if frame.f_globals is vars(module) and frame.f_code.co_name == "<module>":
            return frame.f_code
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _mentions(code: CodeType, names: Collection[str]) -> bool:
    if any(name in code.co_names for name in names):
        return True
    return any(_mentions(inner, names) for inner in code.co_consts if isinstance(inner, CodeType))


def _module_getattr(module: ModuleType, names: Collection[str], make: Callable[[], Any]) -> Callable[[str], Any]:
    inherited = vars(module).get("__getattr__")

    def module_getattr(name: str) -> Any:
        if name in names:
            make()
            if name in vars(module):  # else a class of another module takes its place
                return vars(module)[name]
        if inherited is not None:
            return inherited(name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    return module_getattr
