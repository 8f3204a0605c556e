"""What generic classes are bound to: type arguments and annotations as real types."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import typing
from collections.abc import Mapping
from typing import Any, ForwardRef, Generic, Optional, TypeVar, get_args, get_origin

from tfaip.params.meta import ensure_dataclass

UNBOUND = object()


def type_argument(cls: type, base: type, index: int) -> Any:
    """The class that `cls` binds to a type parameter of its generic base.

    For `class MyScenario(ScenarioBase[MyParams, MyTrainerParams])`, argument 0 of `ScenarioBase` is
    `MyParams`.

    Args:
        cls: the subclass, at any distance.
        base: the generic class.
        index: which of its parameters.

    Raises:
        TypeError: it is not bound, its TypeVar has no `bound` either, or it is bound to no class.
    """
    value = _fall_back(arguments(cls, base)[index], base.__parameters__[index])  # type: ignore[attr-defined]
    value = resolve_annotation(value, cls)
    if not isinstance(value, type) or value is Any:
        parameter = base.__parameters__[index].__name__  # type: ignore[attr-defined]
        raise TypeError(
            f"{cls.__qualname__} must bind {parameter} of {base.__qualname__} to a class, got {value}: "
            f"write class {cls.__name__}({base.__name__}[...]); an argument that is generic itself needs "
            f"a class of its own"
        )
    return value


@functools.cache
def field_types(cls: Any) -> dict[str, Any]:
    """The types of all dataclass fields, strings and TypeVars resolved.

    A field whose default is None may be None, whatever its annotation says.

    Args:
        cls: a dataclass, or one with type arguments (`Pipeline[A, B]`).

    Raises:
        TypeError: an annotation names something that does not exist at run time.
    """
    origin = ensure_dataclass(get_origin(cls) or cls)
    found = {field.name: _field_type(cls, origin, field.name) for field in dataclasses.fields(origin)}
    for field in dataclasses.fields(origin):
        if field.default is None and found[field.name] is not Any:
            found[field.name] = Optional[found[field.name]]  # noqa: UP045 - takes what `|` does not
    return found


def resolve_annotation(annotation: Any, owner: type, names: Mapping[str, Any] | None = None) -> Any:
    """An annotation as written in the body of `owner`, with its strings evaluated by `typing`.

    Args:
        annotation: a type, or a string or `ForwardRef` that names one.
        owner: its module is where the names are looked up.
        names: further names.

    Raises:
        TypeError: it names something that does not exist at run time.
    """
    holder = type("holder", (), {"__annotations__": {"it": annotation}})
    module = sys.modules.get(owner.__module__)
    try:
        scope = dict(vars(module)) if module else {}
        return typing.get_type_hints(holder, scope, {owner.__name__: owner, **(names or {})})["it"]
    except (NameError, SyntaxError) as error:
        raise TypeError(
            f"{owner.__qualname__}: annotation {annotation!r} cannot be resolved ({error}); "
            f"import or define its names at the top level of module {owner.__module__}"
        ) from error


def declaration(mro: tuple[type, ...], name: str) -> tuple[type, Any]:
    """The nearest class that annotates the field, and its annotation as it stands there."""
    for owner in mro:
        annotations = inspect.get_annotations(owner)
        if name in annotations:
            return owner, annotations[name]
    raise TypeError(f"no class in {[c.__name__ for c in mro]} declares the field {name!r}")


def _field_type(cls: Any, origin: type, name: str) -> Any:
    owner, annotation = declaration(origin.__mro__, name)
    variables = parameters(owner)
    resolved = resolve_annotation(annotation, owner, {variable.__name__: variable for variable in variables})
    if not variables:
        return resolved
    passed = zip(variables, arguments(cls, owner), strict=True)
    return _substitute(resolved, {v: resolve_annotation(_fall_back(a, v), origin) for v, a in passed})


def _original_bases(cls: type) -> tuple[Any, ...]:
    return vars(cls).get("__orig_bases__", cls.__bases__)


def parameters(cls: type) -> tuple[Any, ...]:
    """The type parameters of a generic class."""
    # Not the inherited attribute: a non-generic subclass has no parameters.
    return vars(cls).get("__parameters__", ())


def arguments(cls: Any, base: type) -> tuple[Any, ...]:
    """What `cls` (a class, or one with type arguments) passes for the parameters of `base`.

    Each entry is a type, an own TypeVar of `cls`, or `UNBOUND`. Arguments are passed by
    position: a TypeVar that is used again further down, for something else, is not mixed up.
    """
    origin = get_origin(cls)
    if origin is not None:
        own = dict(zip(parameters(origin), get_args(cls), strict=True))
        return tuple(_substitute(a, own) for a in arguments(origin, base))
    if cls is base:
        return parameters(base)
    found: list[Any] = [UNBOUND] * len(parameters(base))
    for parent in _original_bases(cls):
        parent_class = get_origin(parent) or parent
        if parent_class is Generic or not (isinstance(parent_class, type) and issubclass(parent_class, base)):
            continue
        passed = tuple(_anchored(a, cls.__module__) for a in arguments(parent, base))
        if parent is parent_class:  # without arguments: the parent's TypeVars mean nothing here
            passed = tuple(UNBOUND if _mentions(a, parameters(parent)) else a for a in passed)
        found = [new if old is UNBOUND else old for old, new in zip(found, passed, strict=True)]
    return tuple(found)


def _mentions(argument: Any, variables: tuple[Any, ...]) -> bool:
    return argument in variables or any(v in variables for v in getattr(argument, "__parameters__", ()))


def _substitute(argument: Any, values: Mapping[Any, Any]) -> Any:
    """Replace the TypeVars in a type, also inside `list[T]` and the like."""
    if isinstance(argument, TypeVar):
        return values.get(argument, argument)
    if isinstance(argument, type) and get_origin(argument) is None:
        return argument
    inner = tuple(getattr(argument, "__parameters__", ()))
    if not inner:
        return argument
    return argument[tuple(values.get(v, v) for v in inner)]


def _fall_back(argument: Any, variable: Any) -> Any:
    """The argument, or the TypeVar's `bound` where there is none."""
    if isinstance(argument, TypeVar) and argument.__bound__ is not None:
        variable = argument
    elif argument is not UNBOUND and not isinstance(argument, TypeVar):
        return argument
    return Any if variable.__bound__ is None else _anchored(variable.__bound__, variable.__module__)


def _anchored(argument: Any, module: str) -> Any:
    """A forward reference remembers the module in which it was written."""
    if isinstance(argument, ForwardRef) and argument.__forward_module__ is None:
        return ForwardRef(argument.__forward_arg__, module=module)
    return argument
