"""Classes of users: their construction from params, and the hooks that they override."""

import inspect
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tfaip.util.logging import logger

_PARAMS = "params"
# Hooks that their base calls in several ways.
_FREE = {"element_length_fn"}


# A data worker trains nothing and parses no flags.
_is_data_worker = False


def mark_data_worker() -> None:
    """Mark this process; it stays a data worker until its end."""
    global _is_data_worker  # noqa: PLW0603 - a fact about the process
    _is_data_worker = True


def is_data_worker() -> bool:
    """Return True in a data worker."""
    return _is_data_worker


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
    """
    init: Any = inspect.getattr_static(cls, "__init__")
    for parameter in list(inspect.signature(init).parameters.values())[1:2]:
        is_other = parameter.name in arguments or parameter.default is not parameter.empty
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            is_first = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL)
        else:
            is_first = parameter.name == _PARAMS or not (is_other and takes(cls, _PARAMS))
        if is_first:
            return cls(params, **arguments)
    return cls(params=params, **arguments)


def overrides(cls: Any, base: type, name: str) -> bool:
    """Return True if a class, or one of its objects, overrides a method of `base`, or adds it."""
    return inspect.getattr_static(cls, name, None) is not inspect.getattr_static(base, name, None)


def _refuse_parameters(cls: type, base: type, name: str) -> None:
    """Raise if the body of a class overrides a hook that cannot be called with the arguments that the base needs."""
    hook, original = vars(cls).get(name), inspect.getattr_static(base, name, None)
    if name in _FREE or not (inspect.isfunction(hook) and inspect.isfunction(original)):
        return
    parameters = inspect.signature(original).parameters.values()
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return  # an override may need more
    arguments = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    try:
        inspect.signature(hook).bind(*arguments)
    except TypeError as error:
        place = f"{hook.__code__.co_filename}:{hook.__code__.co_firstlineno}"
        expected = f"{name}({', '.join(arguments)})"
        raise TypeError(f"{place}: {cls.__qualname__}.{name} is called as {expected}: {error}") from None


def refuse_uncalled(cls: Any, base: type, instead: Mapping[str, str]) -> None:
    """Raise if a class, or one of its objects, overrides a method that is never called."""
    for name, better in instead.items():
        if overrides(cls, base, name):
            owner = cls if isinstance(cls, type) else type(cls)
            raise TypeError(f"{owner.__qualname__}.{name} would never be called: override {better} instead")


# As difflib counts: `metircs` and `metrics` have 0.857, `losses` and `loss` 0.8.
_SIMILARITY = 0.85
# Names of Python that are near to `__getitem__`, `__enter__` and `__exit__`.
_OF_PYTHON = {"__setitem__", "__aenter__", "__aexit__"}
_SILENCE = "If it is something of your own, the class may say so: not_hooks = ({!r},)"

log = logger(__name__)


def check_hook_names(
    cls: type, base: type, hooks: Collection[str], needed: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Refuse hooks with other parameters in the body of a class; log what it calls almost like a hook.

    What is near to a hook without which nothing works is refused too.
    """
    if cls.__module__.partition(".")[0] == "tfaip":
        return
    for hook in hooks:
        _refuse_parameters(cls, base, hook)
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
