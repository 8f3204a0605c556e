"""Class bodies of params: what a field of a new class may be, beside `dataclasses.field`.

- `epochs = 5` for an inherited field changes its default; type, help and limits stay.
- A default that objects could change (a list, dict, set, or params) is copied for each of them.
- `Annotated[int, "Height in pixels", limits(low=1)]` carries help and metadata in the type.
- A field of a type parameter has the bound class as its type and default, see
  `tfaip.params.declaration.generics`.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, get_args, get_origin

from tfaip.params.declaration.defaults import default_field, is_mutable
from tfaip.params.declaration.generics import (
    anchored,
    bind_fields,
    declaration,
    inherited_fields,
    resolve_annotation,
)

_WORD = re.compile(r"[A-Za-z_]\w*")
_CLASS_VARIABLE = re.compile(r"(\w+\.)?ClassVar\b")


def prepare_body(cls: type) -> None:
    """Turn the attributes of a new class into what `@dataclass` expects, before it runs."""
    fields = inherited_fields(cls)
    _take_new_defaults(cls, fields)
    bind_fields(cls, fields)
    for name, annotation in inspect.get_annotations(cls).items():
        if not _is_class_variable(annotation):
            if name.startswith("__") and name.endswith("__"):  # in JSON, `__cls__` would name another class
                raise TypeError(f"{cls.__qualname__}.{name} cannot be a field, Python uses such names: choose another")
            _copy_default(cls, name)
            _read_annotated(cls, name, annotation)


def _take_new_defaults(cls: type, fields: Mapping[str, dataclasses.Field[Any]]) -> None:
    """Give the class its own version of the inherited fields for which its body has a value only."""
    own = dict(inspect.get_annotations(cls))
    retained = {}
    for name in [name for name in vars(cls) if name in fields and name not in own]:
        value = vars(cls)[name]
        if not _is_default(value):
            continue
        if isinstance(value, type) and dataclasses.is_dataclass(value):
            raise TypeError(
                f"{cls.__qualname__}.{name} is the class {value.__name__}, expected a value: "
                f"write {name}: {value.__name__}, or {name} = {value.__name__}()"
            )
        owner, annotation = declaration(cls.__mro__[1:], name)
        retained[name] = anchored(annotation, owner.__module__)
        setattr(cls, name, _with_default(fields[name], value))
    if retained:
        cls.__annotations__ = own | retained
        # Their types are those of the class that annotates them, with its type parameters.
        cls.__retained_types__ = frozenset(retained)  # type: ignore[attr-defined]


def _is_default(value: Any) -> bool:
    """Return False for methods and properties, and if there is nothing."""
    if isinstance(value, dataclasses.Field):
        return True
    return value is not dataclasses.MISSING and (isinstance(value, type) or not hasattr(value, "__get__"))


def _with_default(inherited: dataclasses.Field[Any], value: Any) -> Any:
    given = value if isinstance(value, dataclasses.Field) else default_field(value)
    field = copy.copy(inherited)
    field.default, field.default_factory = given.default, given.default_factory
    field.metadata = MappingProxyType(_merged(inherited.metadata, given.metadata))
    return field


def _copy_default(cls: type, name: str) -> None:
    value = vars(cls).get(name, dataclasses.MISSING)
    default = value.default if isinstance(value, dataclasses.Field) else value
    if default is dataclasses.MISSING or not is_mutable(default):
        return
    field = default_field(default)
    if isinstance(value, dataclasses.Field):
        value.default, value.default_factory = dataclasses.MISSING, field.default_factory
    else:
        setattr(cls, name, field)


def _read_annotated(cls: type, name: str, annotation: Any) -> None:
    if not _mentions_annotated(annotation, cls.__module__):
        return
    metadata: Mapping[str, Any] = {}
    for found in _annotated_values(_resolve(annotation, cls)):
        if isinstance(found, str):
            found = {"help": found}
        elif isinstance(found, dataclasses.Field):
            found = found.metadata
        if isinstance(found, Mapping):
            metadata = _merged(found, metadata)
    if not metadata:
        return
    value = vars(cls).get(name, dataclasses.MISSING)
    if isinstance(value, dataclasses.Field):
        value.metadata = MappingProxyType(_merged(metadata, value.metadata))
    else:
        setattr(cls, name, dataclasses.field(default=value, metadata=metadata))


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return both metadata; what the second leaves open is that of the first."""
    return {**first, **{key: value for key, value in second.items() if value is not None or key not in first}}


def _is_class_variable(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return _CLASS_VARIABLE.match(annotation) is not None
    return annotation is ClassVar or get_origin(annotation) is ClassVar


def _mentions_annotated(annotation: Any, module: str) -> bool:
    """Return True if there may be an `Annotated` in it; most annotations need not be evaluated."""
    if not isinstance(annotation, str):
        return any(True for _ in _annotated_values(annotation))
    if "Annotated" in annotation:
        return True
    names = vars(sys.modules[module]) if module in sys.modules else {}
    return any(any(True for _ in _annotated_values(names.get(word))) for word in _WORD.findall(annotation))


def _annotated_values(annotation: Any) -> Iterator[Any]:
    """Yield what is attached to a type and the types in it, the outermost first."""
    if get_origin(annotation) is Annotated:
        yield from annotation.__metadata__
        annotation = annotation.__origin__
    for inner in get_args(annotation):
        yield from _annotated_values(inner)


class _Unknown:
    """Type that is not defined yet, or for type checkers only."""

    def __getattr__(self, name: str) -> _Unknown:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, item: Any) -> _Unknown:
        return self

    __or__ = __ror__ = __getitem__


def _resolve(annotation: Any, cls: type) -> Any:
    """Return an annotation, evaluated as far as its names exist already."""
    unknown: dict[str, Any] = {}
    while True:
        try:
            return resolve_annotation(annotation, cls, unknown, with_extras=True)
        except TypeError as error:
            name = getattr(error.__cause__, "name", None)
            if name is None or name in unknown:
                raise
            unknown[name] = _Unknown()
