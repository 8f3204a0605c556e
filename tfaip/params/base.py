"""`ParamsBase`, the base of every params class, and the decorator of its subclasses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import TYPE_CHECKING, Any, Self, TypeVar, dataclass_transform, overload

from tfaip.params.declaration.bodies import prepare_body
from tfaip.params.declaration.classes import (
    ParamsMeta,
    SignatureOnDemand,
    accept_old_names,
    make_dataclass_on_demand,
)
from tfaip.params.declaration.fieldhelp import record_place
from tfaip.params.declaration.implementation import implementation
from tfaip.params.limits import check_fields
from tfaip.params.names import oldnames, suggestions
from tfaip.params.shared import take_shared

T = TypeVar("T")

_MOST_PATHS = 3


@dataclass_transform(field_specifiers=(field,))
@dataclass
class ParamsBase(metaclass=ParamsMeta):
    """Node of the params tree.

    The annotated attributes of a subclass are its fields; decorators (`@dataclass`, or
    `@pai_dataclass` of `tfaip.params` or of `paiargparse` above it) are accepted. Attributes that
    are not fields cannot be set. Names of tfaip 1.2 (`tfaip.params.names.oldnames`) are accepted with a
    `DeprecationWarning`; setting a field that was removed logs a warning and does nothing else. See
    `tfaip.params.declaration.bodies` for what a field may be, and `tfaip.params.declaration.generics`
    for fields whose class is selected by a type argument.
    """

    def __init_subclass__(params_cls, *, cls: str | None = None, **kwargs: Any) -> None:  # noqa: N804
        """Declare a params class.

        Args:
            cls: `module:Class` that the params describe, instead of a method `cls()`; see
                `tfaip.params.declaration.implementation`.
            kwargs: of other base classes.
        """
        super().__init_subclass__(**kwargs)
        # Named by a string, so that a module of params imports no implementation, and with it no
        # backend.
        if cls is not None:
            params_cls.cls = implementation(params_cls, cls)
        record_place(params_cls)
        take_shared(params_cls)
        prepare_body(params_cls)
        make_dataclass_on_demand(params_cls)

    def __post_init__(self) -> None:
        """Check the limits of the fields (`tfaip.params.limits`).

        An override calls `super().__post_init__()` first.

        Raises:
            FieldError: if a value is not allowed.
        """
        check_fields(self)

    # The methods import `serialization` when they are called: it needs modules that need this
    # class.

    def to_dict(self) -> dict[str, Any]:
        """Return the tree as nested plain values, each node with its class (`__cls__`)."""
        from tfaip.params.stored import to_dict

        return to_dict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, trusted: Iterable[str] = ()) -> Self:
        """Build params from what `to_dict` returned; see `tfaip.params.values.serialization.from_dict`."""
        from tfaip.params.stored import from_dict

        return from_dict(cls, values, trusted=trusted)

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict` as JSON text."""
        from tfaip.params.stored import to_json

        return to_json(self, indent=indent)

    @classmethod
    def from_json(cls, text: str, *, trusted: Iterable[str] = ()) -> Self:
        """Build params from what `to_json` returned; see `tfaip.params.values.serialization.from_dict`."""
        from tfaip.params.stored import from_json

        return from_json(cls, text, trusted=trusted)

    @classmethod
    def schema(cls, **options: Any) -> Any:
        """Return a marshmallow schema of the class; see `tfaip.params.marshmallowschema.schema_of`."""
        from tfaip.params.marshmallowschema import schema_of

        return schema_of(cls, **options)

    if not TYPE_CHECKING:  # a type checker must see the constructor, and find mistyped attributes itself
        __signature__ = SignatureOnDemand()

        def __new__(cls, *args: Any, **values: Any) -> Any:
            # The first moment at which all decorators of the class have run.
            _ = cls.__dataclass_fields__
            accept_old_names(cls)
            return super().__new__(cls)

        # Called only for attributes that are not found in the usual way.
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__") and not hasattr(type(self), name):  # what `copy` and others ask each object
                raise AttributeError(f"{type(self).__name__}.{name} does not exist", name=name, obj=self)
            new = oldnames.current_name(type(self), name)
            if new != name:
                return getattr(self, new)
            if hasattr(type(self), name):  # a property raised an AttributeError: again, for its own message
                return object.__getattribute__(self, name)
            known = [field.name for field in fields(type(self))]
            reason = "is not set yet" if name in known else f"does not exist{_did_you_mean(self, name)}"
            removed = oldnames.removed_fields(type(self))
            if name in removed:
                reason = f"was removed: {removed[name]}"
            raise AttributeError(f"{type(self).__name__}.{name} {reason}", name=name, obj=self)

        def __setattr__(self, name: str, value: Any) -> None:
            cls = type(self)
            if name not in cls.__dataclass_fields__ and not hasattr(getattr(cls, name, None), "__set__"):
                new = oldnames.current_name(cls, name)
                removed = oldnames.removed_fields(cls)
                if name in removed:
                    oldnames.warn_removed(f"{cls.__name__}.{name}", removed[name])
                    return
                if new == name:
                    raise AttributeError(
                        f"{cls.__name__}.{name} does not exist{_did_you_mean(self, name)}", name=name, obj=self
                    )
                name = new
            object.__setattr__(self, name, value)


def _did_you_mean(params: ParamsBase, name: str) -> str:
    """Return where a field of this name is below some params, else their near names, for a message."""
    below = list(islice(_paths_below(params, name), _MOST_PATHS))
    if below:
        return f"; did you mean {' or '.join(below)}?"
    return suggestions.did_you_mean(name, [known.name for known in fields(params)])


def _paths_below(params: ParamsBase, name: str) -> Iterator[str]:
    """Yield the dotted paths of all fields of this name in the parts of some params."""
    for part in fields(params):
        value = vars(params).get(part.name)
        if isinstance(value, ParamsBase):
            if any(known.name == name for known in fields(value)):
                yield f"{part.name}.{name}"
            for path in _paths_below(value, name):
                yield f"{part.name}.{path}"


@overload
def pai_dataclass(_cls: type[T], alt: str | None = None, no_assign_to_unknown: bool = True) -> type[T]: ...


@overload
def pai_dataclass(
    _cls: None = None, alt: str | None = None, no_assign_to_unknown: bool = True
) -> Callable[[type[T]], type[T]]: ...


def pai_dataclass(_cls: Any = None, alt: str | None = None, no_assign_to_unknown: bool = True) -> Any:
    """Decorate a dataclass of params, with or without arguments.

    A dataclass that does not derive from `ParamsBase` gets its JSON methods, and refuses unknown
    attributes.

    Args:
        _cls: the class.
        alt: another short name, by which the class can be chosen.
        no_assign_to_unknown: refuse to set attributes that are not fields; `ParamsBase` always
            does.

    Raises:
        TypeError: the class is not a dataclass.
    """

    def decorate(cls: Any) -> Any:
        if not hasattr(cls, "__dataclass_fields__"):
            raise TypeError(f"{cls.__qualname__} is not a dataclass: write @pai_dataclass above @dataclass")
        cls.__pai_dataclass__ = None
        cls.__alt_name__ = alt
        if not isinstance(cls, ParamsMeta):
            for method in ("to_dict", "from_dict", "to_json", "from_json", "schema"):
                setattr(cls, method, vars(ParamsBase)[method])
            if no_assign_to_unknown:
                cls.__setattr__ = vars(ParamsBase)["__setattr__"]
        return cls

    return decorate if _cls is None else decorate(_cls)
