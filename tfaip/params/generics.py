"""Type arguments select classes: `class MyParams(ScenarioBaseParams[MyData, MyModel])`.

A generic params class declares a field by a TypeVar: `data: TData = bound_field(pai_meta(...))`. In
a subclass that binds `TData` the field has the bound class as its type and as its default; where
nothing binds it, the TypeVar's `bound` is used. A subclass may also redefine the field as usual, or
only annotate it with another class.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
import typing
from collections.abc import Mapping
from typing import Annotated, Any, ForwardRef, Generic, Optional, TypeVar, get_args, get_origin

_WORD = re.compile(r"[A-Za-z_]\w*")
UNBOUND = object()


def type_argument(cls: type, base: type, index: int) -> Any:
    """Return the class that `cls` binds to a type parameter of its generic base.

    For `class MyScenario(ScenarioBase[MyParams, MyTrainerParams])`, argument 0 of `ScenarioBase` is
    `MyParams`.

    Args:
        cls: the subclass, at any distance.
        base: the generic class.
        index: which of its parameters.

    Raises:
        TypeError: it is bound to nothing, and its TypeVar has no `bound`; or to something that is
            not a class.
    """
    variable = parameters(base)[index]
    value = resolve_annotation(_fall_back(arguments(cls, base)[index], variable), cls)
    if not isinstance(value, type) or value is Any:
        raise TypeError(
            f"{cls.__qualname__} must bind {variable.__name__} of {base.__qualname__} to a class, got {value}: "
            f"write class {cls.__name__}({base.__name__}[...]); an argument that is generic itself needs "
            f"a class of its own"
        )
    return value


# Cached, since strings are evaluated, and each decoded node needs its types.
@functools.cache
def field_types(cls: Any) -> dict[str, Any]:
    """Return the types of all dataclass fields, with strings and TypeVars resolved.

    A field whose default is None may be None, whatever its annotation says.

    Args:
        cls: a dataclass, or one with type arguments (`Pipeline[A, B]`).

    Raises:
        TypeError: an annotation names something that does not exist at run time.
    """
    origin = get_origin(cls) or cls
    found = {}
    for field in dataclasses.fields(origin):
        owner, annotation = declaration(origin.__mro__, field.name)
        variables = parameters(owner)
        declared = resolve_annotation(annotation, owner, {variable.__name__: variable for variable in variables})
        bound, passed = {}, arguments(cls, owner) if variables else ()
        for variable, argument in zip(variables, passed, strict=True):
            bound[variable] = resolve_annotation(_fall_back(argument, variable), origin)
        found[field.name] = declared = _substitute(declared, bound)
        if field.default is None and declared is not Any:
            found[field.name] = Optional[declared]  # noqa: UP045 - takes what `|` does not
    return found


def resolve_annotation(
    annotation: Any, owner: type, names: Mapping[str, Any] | None = None, extras: bool = False
) -> Any:
    """Return an annotation of the body of `owner`, with its strings evaluated by `typing`.

    Args:
        annotation: a type, or a string or `ForwardRef` that names one.
        owner: class in whose module the names are looked up.
        names: further names.
        extras: keep what `Annotated` attaches.

    Raises:
        TypeError: it names something that does not exist at run time.
    """
    # `get_type_hints` resolves all annotations of a class at once; here one is wanted, with further
    # names.
    holder = type("holder", (), {"__annotations__": {"it": annotation}})
    module = sys.modules.get(owner.__module__)
    try:
        scope = dict(vars(module)) if module else {}
        known = {owner.__name__: owner, **(names or {})}
        return typing.get_type_hints(holder, scope, known, include_extras=extras)["it"]
    except (NameError, SyntaxError) as error:
        raise TypeError(
            f"{owner.__qualname__}: annotation {annotation!r} cannot be resolved ({error}); "
            f"import or define its names at the top level of module {owner.__module__}"
        ) from error


def annotated_metadata(annotation: Any, owner: type) -> dict[str, Any]:
    """Return the metadata that `Annotated` attaches to the type of a field: a help text, metadata, or an `option`.

    Only annotations that have one, also by a name of their module, are evaluated when a class is declared.
    """
    if isinstance(annotation, str):
        names = vars(sys.modules.get(owner.__module__, typing))
        words = set(_WORD.findall(annotation))
        if "Annotated" not in words and not any(_attached(names.get(word)) for word in words):
            return {}
        annotation = resolve_annotation(annotation, owner, extras=True)
    metadata: dict[str, Any] = {}
    for found in _attached(annotation):
        if isinstance(found, str):
            found = {"help": found}
        given = getattr(found, "metadata", found)  # of an option
        if isinstance(given, Mapping):
            metadata = {**given, **{key: value for key, value in metadata.items() if value is not None}}
    return metadata


def _attached(annotation: Any) -> list[Any]:
    """Return what is attached to a type and to the types in it, the outermost first."""
    own = list(annotation.__metadata__) if get_origin(annotation) is Annotated else []
    inner = [annotation.__origin__] if own else get_args(annotation)
    return own + [found for one in inner for found in _attached(one)]


def declaration(mro: tuple[type, ...], name: str) -> tuple[type, Any]:
    """Return the nearest class that annotates the field, and its annotation as written."""
    for owner in mro:
        annotations = vars(owner).get("__annotations__", {})
        if name in annotations and name not in vars(owner).get("__retained_types__", ()):
            return owner, annotations[name]
    raise TypeError(f"no class in {[c.__name__ for c in mro]} declares the field {name!r}")


def parameters(cls: type) -> tuple[Any, ...]:
    """Return the type parameters of a generic class."""
    # Not the inherited attribute: a non-generic subclass has no parameters.
    return vars(cls).get("__parameters__", ())


def arguments(cls: Any, base: type) -> tuple[Any, ...]:
    """Return what `cls` (a class, or one with type arguments) passes for the parameters of `base`.

    Each entry is a type, a TypeVar of `cls` itself, or `UNBOUND`. Arguments are passed by position,
    so that a subclass may use the same TypeVar for something else.
    """
    origin = get_origin(cls)
    if origin is not None:
        own = dict(zip(parameters(origin), get_args(cls), strict=True))
        return tuple(_substitute(a, own) for a in arguments(origin, base))
    if cls is base:
        return parameters(base)
    found: list[Any] = [UNBOUND] * len(parameters(base))
    for parent in vars(cls).get("__orig_bases__", cls.__bases__):
        parent_class = get_origin(parent) or parent
        if parent_class is Generic or not (isinstance(parent_class, type) and issubclass(parent_class, base)):
            continue
        for index, argument in enumerate(arguments(parent, base)):
            # In a parent without arguments, its TypeVars mean nothing here.
            mentioned = {argument, *getattr(argument, "__parameters__", ())}
            is_free = parent is parent_class and not mentioned.isdisjoint(parameters(parent))
            if found[index] is UNBOUND and not is_free:
                found[index] = anchored(argument, cls.__module__)
    return tuple(found)


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
    """Return the argument; for a TypeVar, or none at all, the `bound` of the TypeVar."""
    if isinstance(argument, TypeVar) and argument.__bound__ is not None:
        variable = argument
    elif argument is not UNBOUND and not isinstance(argument, TypeVar):
        return argument
    return Any if variable.__bound__ is None else anchored(variable.__bound__, variable.__module__)


def anchored(argument: Any, module: str) -> Any:
    """Return the argument; a text or forward reference with the module in which it was written."""
    if isinstance(argument, str):
        return ForwardRef(argument, module=module)
    if isinstance(argument, ForwardRef) and argument.__forward_module__ is None:
        return ForwardRef(argument.__forward_arg__, module=module)
    return argument


class BoundDefault:
    """Default factory of a field whose class is selected by a type argument."""

    def __init__(self, owner: Any = None, name: str = "") -> None:
        # Resolved when it is called: the bound class may be a string that names a later one.
        self.owner = owner
        self.name = name

    def __call__(self) -> Any:
        if self.owner is None:
            raise TypeError("bound_field() is for fields of classes that derive from ParamsBase")
        return _construct(field_types(self.owner)[self.name], f"{self.owner.__name__}.{self.name}")


def bound_field(metadata: Mapping[str, Any] | None = None) -> Any:
    """Declare a field that is annotated with a TypeVar, and whose default is the class bound to it.

    Args:
        metadata: as `pai_meta` returns it.
    """
    return dataclasses.field(default_factory=BoundDefault(), metadata=metadata)


def _construct(cls: Any, place: str) -> Any:
    """Return the default of a bound field; its own bound fields get the arguments of an alias."""
    origin = get_origin(cls) or cls
    if not is_params_class(cls):
        raise TypeError(f"{place} is bound to {cls}, expected a params class: bind its type parameter")
    if origin is cls:
        return origin()
    values = {}
    for field in dataclasses.fields(origin):
        if isinstance(field.default_factory, BoundDefault):
            values[field.name] = _construct(field_types(cls)[field.name], f"{place}.{field.name}")
    return origin(**values)


def is_params_class(cls: Any) -> bool:
    origin = get_origin(cls) or cls
    return isinstance(cls, ForwardRef) or (isinstance(origin, type) and dataclasses.is_dataclass(origin))


def bound_argument(cls: type, name: str) -> Any:
    """Return what a class passes for the type parameter that annotates an inherited field, or `UNBOUND`."""
    owner, annotation = declaration(cls.__mro__[1:], name)
    text = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
    for index, variable in enumerate(parameters(owner)):
        if annotation is variable or (isinstance(text, str) and text.strip() == variable.__name__):
            return arguments(cls, owner)[index]
    return UNBOUND
