"""Names in the body of a class that are almost those of hooks: nothing would call a mistyped hook."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from tfaip.util.logging import logger
from tfaip.util.overriding import overrides
from tfaip.util.process import is_data_worker

# As difflib counts: `metircs` and `metrics` have 0.857, `losses` and `loss` 0.8.
_SIMILARITY = 0.85
# Names of Python that are near to `__getitem__`, `__enter__` and `__exit__`.
_OF_PYTHON = {"__setitem__", "__aenter__", "__aexit__"}
_SILENCE = "If it is something of your own, the class may say so: not_hooks = ({!r},)"

log = logger(__name__)


def check_hook_names(
    cls: type, base: type, hooks: Collection[str], needed: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Log what the body of a class calls almost like a hook, and refuse it if nothing works without that hook.

    Args:
        cls: the class.
        base: class of the toolkit that it derives from.
        hooks: names that a subclass may define.
        needed: hooks that a subclass must have, each with others that it may have instead.

    Raises:
        TypeError: if a name is near to such a hook, and the class has neither it nor one of the others.
    """
    if cls.__module__.partition(".")[0] == "tfaip":
        return
    for name, hook in near_hooks(cls, hooks).items():
        instead = None if needed is None else needed.get(hook)
        if instead is not None and not any(overrides(cls, base, other) for other in (hook, *instead)):
            raise TypeError(
                f"{cls.__qualname__}.{name} is never called, and there is no {hook}; did you mean {hook}? "
                f"{_SILENCE.format(name)}"
            )
        log_near_hook(cls, name, hook)


def log_near_hook(cls: type, name: str, hook: str) -> None:
    """Log that a class has a name which is near to a hook."""
    if not is_data_worker():  # the training has logged it
        log.warning("%s.%s is no hook; did you mean %s? %s", cls.__qualname__, name, hook, _SILENCE.format(name))


def near_hooks(cls: type, hooks: Collection[str]) -> dict[str, str]:
    """Return the names in the body of a class that are near to a hook which it does not define, each with that hook.

    Annotated names, those of the base classes and those in `not_hooks` are left out.
    """
    found: dict[str, str] = {}
    for name in vars(cls):
        if name in hooks or name in _OF_PYTHON:
            continue
        near = _nearest(name, hooks)
        if near and not vars(cls).keys() & near and not _is_known(cls, name):
            found[name] = near[0]
    return found


def _nearest(name: str, hooks: Collection[str]) -> list[str]:
    candidates = [hook for hook in hooks if _may_be_near(name, hook)]
    if not candidates:
        return []
    import difflib  # 4 ms, and few classes need it

    return difflib.get_close_matches(name, candidates, cutoff=_SIMILARITY)


def _may_be_near(name: str, hook: str) -> bool:
    """Return False if two names have too few characters in common, or if only the name begins with an underscore."""
    least = _SIMILARITY * (len(name) + len(hook)) / 2
    if min(len(name), len(hook)) < least or (name.startswith("_") and not hook.startswith("_")):
        return False
    return (Counter(name) & Counter(hook)).total() >= least


def _is_known(cls: type, name: str) -> bool:
    """Return True for a name that is annotated, that a base class has, or that the class says to be its own."""
    if any(name in vars(base) for base in cls.__mro__[1:]):
        return True
    return any(name in inspect.get_annotations(base) or name in vars(base).get("not_hooks", ()) for base in cls.__mro__)
