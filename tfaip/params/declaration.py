"""Declaring params: metadata of fields, and the one place where a class becomes a dataclass."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import re
import reprlib
import sys
from abc import ABCMeta
from collections.abc import Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol

from tfaip.params import names
from tfaip.params.shared import shared_of

# What `paiargparse` and `dataclasses_json` assign to each class that they decorate.
_JSON_METHODS = {"to_dict", "from_dict", "to_json", "from_json", "schema", "__setattr__"}
_UNSAFE_PACKAGES = {"paiargparse", "dataclasses_json"}
_LOCK = RLock()
_CLASS_NAME = re.compile(r"\.*(?:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)?:[A-Za-z_]\w*", re.ASCII)

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

    def __setattr__(cls, name: str, value: Any) -> None:
        module = getattr(getattr(value, "__func__", value), "__module__", None) or ""
        if name in _JSON_METHODS and module.partition(".")[0] in _UNSAFE_PACKAGES:
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
            constructor(self, *args, **names.current_names(type(self), values))

        __init__.takes_old_names = True  # type: ignore[attr-defined]
        cls.__init__ = __init__


class Metadata(dict[str, Any]):
    """Metadata of a field.

    Hashed by identity, because `Annotated[float, limits(low=0)] | None` needs a hash of it.
    """

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __or__(self, other: Any) -> Metadata:  # type: ignore[override]
        return Metadata({**self, **other})


def pai_meta(
    *,
    help: str | None = None,  # noqa: A002
    separator: str = ".",
    mode: str = "snake",
    required: bool | None = None,
    nargs: str = "*",
    choices: Sequence[Any] | None = None,
    disable_subclass_check: bool = False,
    enforce_choices: bool | None = None,
    fix_dc: bool = False,
    tuple_like: bool = False,
) -> Metadata:
    """Return the metadata of a field, for `dataclasses.field(metadata=...)`.

    Args:
        help: text for `--help`.
        separator: between the flag of a node and the flags of its fields.
        mode: "snake": the flag begins with that of the node; "ssnake": with that of the node above;
            "flat": with nothing; "ignore": there is no flag.
        required: the value must be given.
        nargs: "+" if a list must have at least one value, otherwise "*".
        choices: allowed values, or params classes that may be chosen.
        disable_subclass_check: accept classes that do not derive from the type of the field.
        enforce_choices: accept nothing but the choices; None: only if they are values.
        fix_dc: the class cannot be chosen.
        tuple_like: the flag of the node takes the values of its first fields; the class cannot be
            chosen.

    Raises:
        ValueError: an argument has no meaning, or the choices are not unique.
    """
    # As strict as `paiargparse`, for which scenarios of many years are written.
    if separator not in "/._-+":
        raise ValueError(f"pai_meta(separator={separator!r}): expected one of / . _ - +")
    if mode not in {"snake", "ssnake", "flat", "ignore"}:
        raise ValueError(f"pai_meta(mode={mode!r}): expected snake, ssnake, flat or ignore")
    if nargs not in {"*", "+"}:
        raise ValueError(f"pai_meta(nargs={nargs!r}): expected * or +")
    if enforce_choices and choices is None:
        raise ValueError("pai_meta(enforce_choices=True) needs choices")
    if choices:
        are_classes = _are_classes(choices)
        if enforce_choices is None:
            enforce_choices = not are_classes
    return Metadata(
        help=help,
        separator=separator,
        mode=mode,
        required=required,
        nargs=nargs,
        choices=choices,
        disable_subclass_check=disable_subclass_check,
        enforce_choices=enforce_choices,
        fix_dc=fix_dc or tuple_like,
        tuple_like=tuple_like,
    )


def _are_classes(choices: Sequence[Any]) -> bool:
    """Return True if the choices are params classes, False if they are values."""
    classes = [choice for choice in choices if dataclasses.is_dataclass(choice)]
    if classes and len(classes) < len(choices):
        raise ValueError("pai_meta(choices=...) mixes params classes and values")
    keys = [getattr(choice, "__name__", choice) for choice in choices] if classes else choices
    if len(set(keys)) < len(keys):
        raise ValueError(f"pai_meta(choices=...) must be unique, got {', '.join(map(str, keys))}")
    return bool(classes)


def implementation(params_cls: type, name: str) -> Any:
    """Return a static method that imports the class `name` when it is called.

    Args:
        params_cls: class of the params.
        name: `module:Class`. A module that begins with a dot is relative to the package of the module
            that declares `params_cls`, as in an import; beside a module without a package, a file
            that was named by its path or a script it is a module in the same directory. Without a
            module the class is defined in the module of `params_cls`.

    Raises:
        TypeError: `name` has another form, or begins with more dots than there are packages.
    """
    if not isinstance(name, str) or not _CLASS_NAME.fullmatch(name):
        raise TypeError(f"{params_cls.__qualname__} names the class {name!r}, expected 'module:Class'")
    module, _, attribute = name.partition(":")
    module = _absolute_module(params_cls, module)

    def cls() -> Any:
        # An error within the module keeps its traceback: it is one of the program, not of what a
        # user typed.
        imported = importlib.import_module(module)
        try:
            return getattr(imported, attribute)
        except AttributeError:
            raise TypeError(
                f"{params_cls.__qualname__} names {name!r}, which {imported.__name__} does not define"
            ) from None

    return staticmethod(cls)


def _absolute_module(params_cls: type, name: str) -> str:
    """Return the full name of a module that the declaration of a class names."""
    home = params_cls.__module__
    # A worker process runs the script of the training under another name.
    if home == "__mp_main__":
        home = "__main__"
    if not name.startswith("."):
        return name or home
    module = sys.modules.get(params_cls.__module__)
    # None for a script; empty for a module at the top level, and for a script in a worker.
    package = home.rpartition(".")[0] if module is None else module.__package__ or ""
    rest = name.lstrip(".")
    steps_up = len(name) - len(rest) - 1
    parts = package.split(".") if package else []
    if steps_up > len(parts) - bool(package) or not (rest or package):
        raise TypeError(
            f"{params_cls.__qualname__} names the module {name!r}, but {home} is "
            f"{f'in the package {package}' if package else 'in no package'}: name it from the top, without a dot"
        )
    parts = parts[: len(parts) - steps_up]
    return ".".join([*parts, rest] if rest else parts)
