"""Parts of a scenario whose params and code are one class."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeGuard

from tfaip.params.base import ParamsBase
from tfaip.params.declaration.defaults import copied
from tfaip.params.declaration.generics import inherited_fields
from tfaip.params.names.trust import OWN_PACKAGE, top_package
from tfaip.params.shared import Shared, shared_of
from tfaip.params.tree import node_fields
from tfaip.util.overriding import overrides

# Set on the objects that work: a field of one of these names would be replaced.
_ATTRIBUTES = {"params", "mode", "data_params", "rng"}


class Part(ParamsBase):
    """Base of parts whose params and code are one class: the annotated fields are the params.

    An object in a tree of params is a set of values: it has flags, is stored as JSON, compared and
    copied by its fields, and none of its other methods is called. `create` makes a second object of
    the same class with the same values, which does the work. It may store whatever its code needs;
    nothing of that reaches the tree. Lists, dicts and params in its fields are copies, arrays and
    other values are shared.

    A value that follows from the fields is a `functools.cached_property`: it works on both objects
    and is computed again when a field changes.
    """

    _is_created: ClassVar[bool] = False

    def __init_subclass__(part_cls, **kwargs: Any) -> None:  # noqa: N804 (cls is an argument)
        super().__init_subclass__(**kwargs)
        if not part_cls._is_created:
            part_cls._check_declaration()

    @classmethod
    def _check_declaration(cls) -> None:
        """Raise if the class body has a constructor, or a field with the name of something else.

        Raises:
            TypeError: if it does.
        """
        if "__init__" in vars(cls):
            raise TypeError(
                f"{cls.__qualname__} has an __init__, but its fields are its params, which `create` gives to a new "
                "object: compute other values in a functools.cached_property"
            )
        fields = inherited_fields(cls)  # not those of the class, which a decorator may still complete
        shared = {name: None for name, value in vars(cls).items() if isinstance(value, Shared)}
        for name, annotation in {**inspect.get_annotations(cls), **shared}.items():
            if name in fields or "ClassVar" in str(annotation):
                continue
            if name in _ATTRIBUTES or _is_ours(cls, name):
                kind, hint = ("shared", "") if name in shared else ("a field", ", or leave out the annotation")
                raise TypeError(
                    f"{cls.__qualname__}.{name} cannot be {kind}, since {name} is something else in "
                    f"{cls.__mro__[1].__name__}: choose another name{hint}"
                )

    @classmethod
    def cls(cls) -> type[Self]:
        """Return the class itself."""
        return cls

    def _create(self, **attributes: Any) -> Self:
        """Return a new object that works, with the values of these params and further attributes."""
        part = object.__new__(type(self))
        for name, value in self._values().items():
            vars(part)[name] = copied(value)
        vars(part).update(self._shared_values())
        vars(part).update(attributes, _is_created=True)
        return part

    def _values(self) -> dict[str, Any]:
        """Return the values of the fields that are set."""
        return {field.name: vars(self)[field.name] for field in node_fields(self) if field.name in vars(self)}

    def _shared_values(self) -> dict[str, Any]:
        """Return the values that are filled in from the tree."""
        return {name: vars(self)[name] for name in shared_of(type(self)) if name in vars(self)}

    def __getstate__(self) -> dict[str, Any]:
        """Return what copies and worker processes get: of params nothing that code has computed."""
        return dict(vars(self)) if self._is_created else self._values() | self._shared_values()

    if not TYPE_CHECKING:  # a type checker must find mistyped attributes itself

        def __setattr__(self, name: str, value: Any) -> None:
            if self._is_created:
                object.__setattr__(self, name, value)
                return
            of_class = type(self).__dataclass_fields__.keys() - {field.name for field in node_fields(self)}
            if name in of_class:
                raise AttributeError(
                    f"{type(self).__name__}.{name} belongs to the class, objects store none: set it in a subclass",
                    name=name,
                    obj=self,
                )
            try:
                super().__setattr__(name, value)
            except AttributeError as error:
                raise AttributeError(
                    f"{error}; these are params, and only the object that `create` makes of them may store more: "
                    "compute the value in a functools.cached_property",
                    name=name,
                    obj=self,
                ) from None
            for computed in vars(self).keys() - self.__getstate__().keys():
                del vars(self)[computed]


def is_part(cls: Any) -> TypeGuard[type[Part]]:
    """Return True for a class that is params and code in one."""
    if not (isinstance(cls, type) and issubclass(cls, Part)):
        return False
    return not cls._is_created and not overrides(cls, Part, "cls")


def _is_ours(cls: type, name: str) -> bool:
    """Return True if a base class of this package has an attribute of this name."""
    ours = [base for base in cls.__mro__[1:] if top_package(base.__module__) == OWN_PACKAGE]
    return any(name in vars(base) for base in ours)
