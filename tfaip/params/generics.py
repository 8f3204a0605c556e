"""Type arguments select classes: `class MyParams(ScenarioBaseParams[MyData, MyModel])`.

A generic params class declares a field by a TypeVar: `data: TData = bound_field(pai_meta(...))`. In a
subclass that binds `TData` the field has the bound class as its type and as its default; where nothing
binds it, the TypeVar's `bound` takes this part. A subclass may also redefine the field as usual, or only
annotate it with another class.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any, ForwardRef, get_origin

from tfaip.params.meta import ensure_dataclass
from tfaip.params.typeargs import UNBOUND, arguments, declaration, field_types, parameters, type_argument

__all__ = ["BoundDefault", "bind_fields", "bound_field", "field_types", "type_argument"]


class BoundDefault:
    """Default factory of a field whose class is selected by a type argument."""

    def __init__(self, owner: Any = None, name: str = "") -> None:
        self.owner = owner
        self.name = name

    def __call__(self) -> Any:
        if self.owner is None:
            raise TypeError("bound_field() is for fields of classes that derive from ParamsBase")
        return _construct(field_types(self.owner)[self.name], f"{self.owner.__name__}.{self.name}")


def bound_field(metadata: Mapping[str, Any] | None = None) -> Any:
    """A dataclass field that is annotated with a TypeVar and whose default is the class bound to it.

    Args:
        metadata: what `pai_meta` returns.
    """
    return dataclasses.field(default_factory=BoundDefault(), metadata=metadata)


def bind_fields(cls: type) -> None:
    """Give a new subclass its own version of the inherited fields whose TypeVars it binds.

    Runs before `@dataclass` sees the class: the re-typed fields look as if they stood in the class body.
    """
    own = inspect.get_annotations(cls)
    for name, inherited in _inherited_fields(cls).items():
        if name in own:
            if name not in vars(cls) and isinstance(inherited.default_factory, BoundDefault):
                setattr(cls, name, _copy_field(inherited, BoundDefault(cls, name)))
            continue
        owner, annotation = declaration(cls.__mro__[1:], name)
        variable = _type_variable(owner, annotation)
        argument = UNBOUND if variable is None else _argument(cls, owner, variable)
        if argument is not UNBOUND and name not in vars(cls):
            own[name] = argument
            keep = not isinstance(inherited.default_factory, BoundDefault) and not _is_params_class(argument)
            setattr(cls, name, _copy_field(inherited, None if keep else BoundDefault(cls, name)))
    for name in own:
        value = vars(cls).get(name)
        if isinstance(value, dataclasses.Field) and isinstance(value.default_factory, BoundDefault):
            value.default_factory = BoundDefault(cls, name)
    cls.__annotations__ = own


def _inherited_fields(cls: type) -> dict[str, dataclasses.Field[Any]]:
    found: dict[str, dataclasses.Field[Any]] = {}
    for base in reversed(cls.__mro__[1:]):
        if dataclasses.is_dataclass(base):
            found.update(ensure_dataclass(base).__dataclass_fields__)
    return found


def _copy_field(source: dataclasses.Field[Any], default: BoundDefault | None) -> Any:
    options = {name: getattr(source, name) for name in ("init", "repr", "hash", "compare", "metadata", "kw_only")}
    if default is not None:
        return dataclasses.field(default_factory=default, **options)
    if source.default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=source.default_factory, **options)
    return dataclasses.field(default=source.default, **options)


def _construct(cls: Any, place: str) -> Any:
    """The default of a bound field; type arguments of an alias are passed on to its own bound fields."""
    origin = get_origin(cls) or cls
    if not _is_params_class(cls):
        raise TypeError(f"{place} is bound to {cls}, expected a params class: bind its type parameter")
    if origin is cls:
        return origin()
    bound = [f.name for f in dataclasses.fields(origin) if isinstance(f.default_factory, BoundDefault)]
    return origin(**{name: _construct(field_types(cls)[name], f"{place}.{name}") for name in bound})


def _is_params_class(cls: Any) -> bool:
    origin = get_origin(cls) or cls
    return isinstance(cls, ForwardRef) or (isinstance(origin, type) and dataclasses.is_dataclass(origin))


def _type_variable(owner: type, annotation: Any) -> Any:
    """The type parameter of `owner` that the annotation is, or None."""
    name = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
    for variable in parameters(owner):
        if annotation is variable or (isinstance(name, str) and name.strip() == variable.__name__):
            return variable
    return None


def _argument(cls: type, owner: type, variable: Any) -> Any:
    return arguments(cls, owner)[parameters(owner).index(variable)]
