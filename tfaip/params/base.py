"""`ParamsBase`: the base of every params class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from tfaip.params import renames
from tfaip.params.generics import bind_fields
from tfaip.params.meta import ParamsMeta, ensure_dataclass
from tfaip.params.names import did_you_mean


@dataclass
class ParamsBase(metaclass=ParamsMeta):
    """A node of the params tree.

    Subclasses are declared with `@pai_dataclass @dataclass` (of `tfaip.params` or of `paiargparse`); with
    `@dataclass` alone, or without any decorator, they work as well. Attributes that are no field cannot be
    set. Names of older versions (`tfaip.params.renames`) are accepted with a `DeprecationWarning`. See
    `tfaip.params.generics` for fields whose class is chosen by a type argument.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        bind_fields(cls)

    def to_dict(self) -> dict[str, Any]:
        """Plain values of the tree, nested, each node with its class (`__cls__`)."""
        from tfaip.params.serialization import to_dict

        return to_dict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, trusted: Iterable[str] = ()) -> Self:
        """The inverse of `to_dict`; see `tfaip.params.serialization.from_dict`."""
        from tfaip.params.serialization import from_dict

        return from_dict(cls, values, trusted=trusted)

    def to_json(self, *, indent: int | None = None) -> str:
        """`to_dict` as JSON text."""
        from tfaip.params.serialization import to_json

        return to_json(self, indent=indent)

    @classmethod
    def from_json(cls, text: str, *, trusted: Iterable[str] = ()) -> Self:
        """The inverse of `to_json`; see `tfaip.params.serialization.from_dict`."""
        from tfaip.params.serialization import from_json

        return from_json(cls, text, trusted=trusted)

    if not TYPE_CHECKING:  # a type checker shall find mistyped attributes itself

        def __getattr__(self, name: str) -> Any:
            new = name if name.startswith("__") else renames.current_name(type(self), name)
            if new != name:
                return getattr(self, new)
            if hasattr(type(self), name):  # a property raised an AttributeError: again, for its own message
                return object.__getattribute__(self, name)
            known = type(self).__dataclass_fields__
            reason = "is not set yet" if name in known else f"does not exist{did_you_mean(name, known)}"
            raise AttributeError(f"{type(self).__name__}.{name} {reason}", name=name, obj=self)

        def __setattr__(self, name: str, value: Any) -> None:
            cls = ensure_dataclass(type(self))
            if name not in cls.__dataclass_fields__ and not hasattr(getattr(cls, name, None), "__set__"):
                new = renames.current_name(cls, name)
                if new == name:
                    hint = did_you_mean(name, cls.__dataclass_fields__)
                    raise AttributeError(f"{cls.__name__}.{name} does not exist{hint}", name=name, obj=self)
                name = new
            super().__setattr__(name, value)
