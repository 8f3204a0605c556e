"""Declaring params: metadata of fields, and the one place where a class becomes a dataclass."""

from __future__ import annotations

import dataclasses
import functools
import reprlib
from abc import ABCMeta
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol

from tfaip.params.names import oldnames
from tfaip.params.names.trust import top_package
from tfaip.params.shared import shared_of

# What `paiargparse` and `dataclasses_json` assign to each class that they decorate.
_JSON_METHODS = {"to_dict", "from_dict", "to_json", "from_json", "schema", "__setattr__"}
_UNSAFE_PACKAGES = {"paiargparse", "dataclasses_json"}
_LOCK = RLock()

if TYPE_CHECKING:
    _ProtocolMeta = ABCMeta
else:
    _ProtocolMeta = type(Protocol)


class ParamsMeta(_ProtocolMeta):
    """Metaclass that keeps the safe JSON methods of params.

    Scenarios may import `pai_dataclass` from `paiargparse` itself. It assigns methods to the
    finished class, among them a `from_dict` that imports whatever a file names; only a metaclass
    sees that assignment. Nothing else belongs here. The base is that of protocols, which is also
    that of abstract classes, so that params may derive from both.
    """

    # Params are no protocols themselves, and `isinstance` is asked often.
    __instancecheck__ = ABCMeta.__instancecheck__

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **keywords: Any) -> None:
        # Keywords are for `__init_subclass__`. Since Python 3.12 this method of protocols cannot take one named `cls`.
        super().__init__(name, bases, namespace)

    def __setattr__(cls, name: str, value: Any) -> None:
        module = getattr(getattr(value, "__func__", value), "__module__", None) or ""
        if name in _JSON_METHODS and top_package(module) in _UNSAFE_PACKAGES:
            return
        super().__setattr__(name, value)


class _FieldsOnDemand:
    """Descriptor in the place of `__dataclass_fields__` that makes the class a dataclass.

    Not done in `__init_subclass__`: a decorator, if there is one, comes after it and needs the
    untouched class body; it replaces this descriptor. Without one, the class becomes a dataclass
    when its fields are first asked for: by an instance, a subclass, or `dataclasses.fields`.
    """

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def __get__(self, instance: Any, owner: type) -> dict[str, dataclasses.Field[Any]]:
        with _LOCK:  # a second thread would find a class body that is changed already
            if vars(self.cls)["__dataclass_fields__"] is self:
                try:
                    dataclass_with_shared_methods(self.cls)
                except AttributeError as error:  # which `hasattr` would hide
                    raise TypeError(f"{self.cls.__qualname__} cannot be a dataclass: {error}") from error
        fields: dict[str, dataclasses.Field[Any]] = vars(self.cls)["__dataclass_fields__"]
        return fields


def dataclass_with_shared_methods(cls: type) -> None:
    """Make a class what `dataclasses.dataclass` makes of it, in a third of the time.

    That function compiles source text for each method. Only the constructor needs text of its own.
    """
    for name, method in (("__repr__", _repr), ("__eq__", _eq)):
        if name not in vars(cls):
            setattr(cls, name, method)
    if "__hash__" not in vars(cls):
        cls.__hash__ = None  # type: ignore[assignment]
    dataclasses.dataclass(cls, repr=False, eq=False)


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = [f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    names = [field.name for field in dataclasses.fields(self) if field.compare]
    # Tuples, as in a dataclass: an array that both share is equal without a comparison.
    return tuple(getattr(self, name) for name in names) == tuple(getattr(other, name) for name in names)


class SignatureOnDemand:
    """Descriptor that makes the class a dataclass before `inspect.signature` reads its constructor."""

    def __get__(self, instance: Any, owner: Any) -> Any:
        _ = owner.__dataclass_fields__
        raise AttributeError("the signature is that of the constructor")


def make_dataclass_on_demand(cls: type) -> None:
    """Let a new class become a dataclass when its fields are first used; see `_FieldsOnDemand`."""
    # Not where `@dataclass(slots=True)` makes a finished class again.
    if "__dataclass_fields__" not in vars(cls):
        cls.__dataclass_fields__ = _FieldsOnDemand(cls)  # type: ignore[attr-defined]


def accept_old_names(cls: Any) -> None:
    """Let the constructor of a params class take old field names, with a `DeprecationWarning`.

    It also takes the values of attributes that are declared with `shared()`.
    """
    if hasattr(vars(cls).get("__init__"), "takes_old_names"):
        return
    with _LOCK:  # a second thread would find the inherited constructor, until the class is a dataclass
        constructor = cls.__init__
        # Also if it is the inherited one, which is wrapped already.
        if hasattr(constructor, "takes_old_names"):
            return

        @functools.wraps(constructor)
        def __init__(self: Any, *args: Any, **values: Any) -> None:  # noqa: N807
            for name in shared_of(type(self)).keys() & values.keys():
                setattr(self, name, values.pop(name))
            constructor(self, *args, **oldnames.current_names(type(self), values))

        __init__.takes_old_names = True  # type: ignore[attr-defined]
        cls.__init__ = __init__
