"""`ParamsBase`, the base of every params class, and `Part`; how a class becomes one, and which class it describes."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import importlib.util
import inspect
import re
import reprlib
import sys
from abc import ABCMeta
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, ForwardRef, Self, TypeGuard, dataclass_transform, get_origin

from tfaip.params import types
from tfaip.params.fields import Shared, check_fields, copied, default_field, is_mutable, shared_of, take_shared
from tfaip.params.names import (
    OWN_PACKAGE,
    current_name,
    current_names,
    did_you_mean,
    removed_fields,
    top_package,
    warn_removed,
)
from tfaip.params.tree import field_default, join_path, nodes_by_path

# What `paiargparse` and `dataclasses_json` assign to each class that they decorate.
_JSON_METHODS = {"to_dict", "from_dict", "to_json", "from_json", "schema", "__setattr__"}
_UNSAFE_PACKAGES = {"paiargparse", "dataclasses_json"}
_CLASS_VARIABLE = re.compile(r"(\w+\.)?ClassVar\b")
_CLASS_NAME = re.compile(r"(?:\.*(?:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)?:)?[A-Za-z_]\w*", re.ASCII)
# Set on the objects that work: a field of one of these names would be replaced.
_ATTRIBUTES = {"params", "mode", "data_params", "rng"}


class ParamsMeta(ABCMeta):
    """Metaclass that keeps the safe JSON methods of params.

    Decorators of other libraries assign methods to the finished class, among them a `from_dict` that imports whatever a
    file names; only a metaclass sees that assignment.
    """

    def __setattr__(cls, name: str, value: Any) -> None:
        module = getattr(getattr(value, "__func__", value), "__module__", None) or ""
        if name not in _JSON_METHODS or top_package(module) not in _UNSAFE_PACKAGES:
            super().__setattr__(name, value)


@dataclass_transform(field_specifiers=(field,))
class ParamsBase(metaclass=ParamsMeta):
    """Node of the params tree.

    The annotated attributes of a subclass are its fields; decorators (`@dataclass`, or
    `@pai_dataclass` of `tfaip.params` or of `paiargparse` above it) are accepted. Attributes that
    are not fields cannot be set. Names of tfaip 1.2 (`tfaip.params.names`) are accepted with a
    `DeprecationWarning`; setting a field that was removed logs a warning and does nothing else.

    - `epochs = 5` for an inherited field changes its default; type, help and limits stay. Defaults
      follow the order of the base classes, as attributes do.
    - A default that objects could change (a list, dict, set, or params) is copied for each of them.
    - A field of a type parameter has the bound class as its type and default, see
      `tfaip.params.types`.
    """

    # `paiargparse` stores the chosen class of parts with this mark.
    __pai_dataclass__: ClassVar[None] = None

    def __init_subclass__(params_cls, *, cls: Any = None, **kwargs: Any) -> None:  # noqa: N804
        """Declare a params class.

        Args:
            cls: class that the params describe, or its name, instead of a method `cls()`; see `implementation`.
            kwargs: of other base classes.
        """
        super().__init_subclass__(**kwargs)
        if cls is not None:
            params_cls.cls = implementation(params_cls, cls)
        if "__dataclass_fields__" not in vars(params_cls):  # `@dataclass(slots=True)` makes a finished class again
            take_shared(params_cls)
            _prepare_body(params_cls)
            _make_dataclass(params_cls)

    def __post_init__(self) -> None:
        """Check the limits of the fields (`tfaip.params.fields`).

        An override calls `super().__post_init__()` first.

        Raises:
            FieldError: if a value is not allowed.
        """
        check_fields(self)

    # The methods import when they are called: the modules need this class.

    def to_dict(self) -> dict[str, Any]:
        """Return the tree as nested plain values, each node with its class (`__cls__`)."""
        from tfaip.params.codec import encode

        encoded: dict[str, Any] = encode(self)
        return encoded

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, trusted: Iterable[str] = ()) -> Self:
        """Build params from what `to_dict` returned; see `tfaip.params.stored.from_dict`."""
        from tfaip.params.stored import from_dict

        return from_dict(cls, values, trusted=trusted)

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict` as JSON text; non-finite numbers are written as NaN and Infinity."""
        import json  # 4 ms, and few programs that declare params need it

        return json.dumps(self.to_dict(), indent=indent)

    @classmethod
    def from_json(cls, text: str, *, trusted: Iterable[str] = ()) -> Self:
        """Build params from what `to_json` returned; see `tfaip.params.stored.from_dict`."""
        from tfaip.params.stored import from_json

        return from_json(cls, text, trusted=trusted)

    if not TYPE_CHECKING:  # a type checker must see the constructor, and find mistyped attributes itself

        def __init__(self, /, *args: Any, **values: Any) -> None:
            cls = type(self)
            for name in shared_of(cls).keys() & values.keys():
                setattr(self, name, values.pop(name))
            values = _bound(cls, args, current_names(cls, values) if values else values)
            for known in fields(cls):
                value = values[known.name] if known.name in values else field_default(known)
                if value is not MISSING:
                    setattr(self, known.name, value)
                elif known.init and cls.__init__ is ParamsBase.__init__:
                    raise TypeError(f"{cls.__name__}.__init__() misses {known.name!r}, which has no default")
                else:  # the constructor of the class, or its code, sets it
                    _forget(cls, known.name)
            self.__post_init__()

        @reprlib.recursive_repr()
        def __repr__(self) -> str:
            shown = [f"{known.name}={getattr(self, known.name)!r}" for known in fields(self) if known.repr]
            return f"{type(self).__qualname__}({', '.join(shown)})"

        def __eq__(self, other: Any) -> Any:
            if type(other) is not type(self):
                return NotImplemented
            names = [known.name for known in fields(self) if known.compare]
            # Tuples, as in a dataclass: an array that both share is equal without a comparison.
            return tuple(getattr(self, name) for name in names) == tuple(getattr(other, name) for name in names)

        __hash__ = None

        # Called only for attributes that are not found in the usual way.
        def __getattr__(self, name: str) -> Any:
            cls = type(self)
            if name.startswith("__") and not hasattr(cls, name):  # what `copy` and others ask each object
                raise AttributeError(f"{cls.__name__}.{name} does not exist", name=name, obj=self)
            new = current_name(cls, name)
            if new != name:
                return getattr(self, new)
            if hasattr(cls, name):  # a property raised an AttributeError: again, for its own message
                return object.__getattribute__(self, name)
            raise _no_attribute(self, name)

        def __setattr__(self, name: str, value: Any) -> None:
            cls = type(self)
            if name not in cls.__dataclass_fields__ and not hasattr(getattr(cls, name, None), "__set__"):
                new = current_name(cls, name)
                removed = removed_fields(cls)
                if name in removed:
                    warn_removed(f"{cls.__name__}.{name}", removed[name])
                    return
                if new == name:
                    raise _no_attribute(self, name)
                name = new
            object.__setattr__(self, name, value)


def _bound(cls: Any, args: tuple[Any, ...], values: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a constructor by the names of the fields.

    Raises:
        TypeError: if there is no such argument, or one is given twice.
    """
    function = f"{cls.__name__}.__init__()"
    taken = {known.name: known for known in fields(cls) if known.init}
    names = [name for name, known in taken.items() if not known.kw_only]
    if len(args) > len(names):
        raise TypeError(f"{function} takes up to {len(names)} positional arguments, got {len(args)}")
    bound = dict(zip(names, args, strict=False))
    for name, value in values.items():
        if name not in taken:
            hint = did_you_mean(name, taken)
            raise TypeError(f"{function} got an unexpected keyword argument {name!r}{hint}")
        if name in bound:
            raise TypeError(f"{function} got multiple values for argument {name!r}")
        bound[name] = value
    return bound


def _forget(cls: type, name: str) -> None:
    """Remove the declaration of a field without a value from the class bodies: to read it must be an error."""
    for base in cls.__mro__:
        if isinstance(vars(base).get(name), Field):
            delattr(base, name)


def _no_attribute(node: Any, name: str) -> AttributeError:
    """Return the error of a name that is no attribute: where a field of this name is below a node, else near names."""
    cls = type(node)
    known, removed = [known.name for known in fields(cls)], removed_fields(cls)
    if name in known:
        reason = "is not set yet"
    elif name in node.__dataclass_fields__:
        reason = "belongs to the class, objects store none: set it in a subclass"
    elif name in removed:
        reason = f"was removed: {removed[name]}"
    else:
        below = [join_path(path, name) for path, part in nodes_by_path(node) if name in part.__dataclass_fields__]
        hint = f"; did you mean {' or '.join(below[:3])}?" if below else did_you_mean(name, known)
        reason = f"does not exist{hint}"
    if isinstance(node, Part):
        reason += "; these are params: compute other values in a functools.cached_property"
    return AttributeError(f"{cls.__name__}.{name} {reason}", name=name, obj=node)


# --- From a class body to a dataclass


def inherited_fields(cls: type) -> dict[str, Field[Any]]:
    """Return the fields of all bases by name, as `@dataclass` collects them."""
    found: dict[str, Field[Any]] = {}
    for base in reversed(cls.__mro__[1:]):
        if "__dataclass_fields__" in vars(base):
            found.update({known.name: known for known in fields(base)})
    return found


def _prepare_body(cls: type) -> None:
    """Turn the attributes of a new class into what `@dataclass` expects, which the user may apply after us."""
    own, inherited, retained = dict(inspect.get_annotations(cls)), inherited_fields(cls), dict[str, Any]()
    explicit = {name for base in cls.__mro__ for name in vars(base).get("__retained_types__", ())}
    is_simple = len(cls.__bases__) == 1 and "__orig_bases__" not in vars(cls)
    for name in inherited:
        if is_simple and name not in own and name not in vars(cls):
            continue
        value, nearest = _nearest(cls, name)
        new, is_bound = copy.copy(nearest), isinstance(nearest.default_factory, types.BoundDefault)
        if name in own:
            if name not in vars(cls):  # the default stays, as an attribute does
                setattr(cls, name, new if is_bound else field(default=nearest.default))
            continue
        if isinstance(value, type) and dataclasses.is_dataclass(value):
            raise TypeError(
                f"{cls.__qualname__}.{name} is the class {value.__name__}, expected a value: "
                f"write {name}: {value.__name__}, or {name} = {value.__name__}()"
            )
        if value is not MISSING:
            given = value if isinstance(value, Field) else default_field(value)
            new.default, new.default_factory = given.default, given.default_factory
            said = {key: item for key, item in given.metadata.items() if item is not None}
            new.metadata = MappingProxyType({**given.metadata, **nearest.metadata, **said})
        elif nearest is inherited[name]:  # else a base class before that which `@dataclass` takes it from has another
            argument = types.bound_argument(cls, name) if is_bound or name not in explicit else types.UNBOUND
            is_class = is_bound or isinstance(argument, ForwardRef) or types.is_node_type(argument)
            if argument is types.UNBOUND or not is_class:
                continue
            new.default, new.default_factory = MISSING, types.BoundDefault(cls, name)
        owner, annotation = types.declaration(cls.__mro__[1:], name)
        retained[name] = types.anchored(annotation, owner.__module__)
        setattr(cls, name, new)
    for name, annotation in own.items():
        text = annotation if isinstance(annotation, str) else str(get_origin(annotation) or annotation)
        if _CLASS_VARIABLE.match(text):
            continue
        if name.startswith("__") and name.endswith("__"):  # in JSON, `__cls__` would name another class
            raise TypeError(f"{cls.__qualname__}.{name} cannot be a field, Python uses such names: choose another")
        value = vars(cls).get(name, MISSING)
        if isinstance(value, Field) and isinstance(value.default_factory, types.BoundDefault):
            value.default_factory = types.BoundDefault(cls, name)
        elif isinstance(value, Field) and is_mutable(value.default):
            value.default, value.default_factory = MISSING, default_field(value.default).default_factory
        elif not isinstance(value, Field) and value is not MISSING and is_mutable(value):
            setattr(cls, name, default_field(value))
    cls.__annotations__ = own | retained
    # Their types are those of the class that annotates them, with its type parameters.
    cls.__retained_types__ = frozenset(retained)  # type: ignore[attr-defined]


def _nearest(cls: type, name: str) -> tuple[Any, Field[Any]]:
    """Return the value that a class has for an inherited field, or `MISSING`; and the nearest version of the field."""
    value = MISSING
    for base in cls.__mro__:
        found = vars(base).get("__dataclass_fields__", {}).get(name)
        if found is not None and name in inspect.get_annotations(base):
            return value, found
        given = vars(base).get(name, MISSING)
        if value is MISSING and (isinstance(given, type | Field) or not hasattr(given, "__get__")):  # no method
            value = given
    raise TypeError(f"{cls.__qualname__} has no field {name}")


def _make_dataclass(cls: Any) -> None:
    """Make a class what `dataclasses.dataclass` makes of it, without compiling methods of its own.

    A decorator of the user comes later. It finds the fields as they were declared, and leaves the methods.
    """
    for name in ("__init__", "__repr__", "__eq__"):
        if name not in vars(cls):
            setattr(cls, name, vars(ParamsBase)[name])
    if "__hash__" not in vars(cls):
        cls.__hash__ = None
    declared = {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
    for name, value in declared.items():
        setattr(cls, name, copy.copy(value))
    doc = cls.__doc__
    cls.__doc__ = doc or "Params."  # else it writes the signature
    dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    cls.__doc__ = doc
    for name, value in declared.items():
        setattr(cls, name, value)


_make_dataclass(ParamsBase)


class Part(ParamsBase):
    """Base of parts whose params and code are one class: the annotated fields are the params.

    An object in a tree of params is a set of values: it has flags, is stored as JSON, compared and copied by its
    fields, and none of its other methods is called. `create` makes a second object of the same class with the same
    values, which does the work. It may store whatever its code needs; nothing of that reaches the tree. Lists, dicts
    and params in its fields are copies, arrays and other values are shared.

    A value that follows from the fields is a `functools.cached_property`: it works on both objects
    and is computed again when a field changes.
    """

    _is_created: ClassVar[bool] = False

    def __init_subclass__(part_cls, **kwargs: Any) -> None:  # noqa: N804 (cls is an argument)
        """Declare a part.

        Raises:
            TypeError: the class body has a constructor, or a field with the name of something else.
        """
        super().__init_subclass__(**kwargs)
        if part_cls._is_created:
            return
        if vars(part_cls).get("__init__") is not ParamsBase.__init__:
            raise TypeError(
                f"{part_cls.__qualname__} has an __init__, but its fields are its params, which `create` gives to a "
                "new object: compute other values in a functools.cached_property"
            )
        ours = [base for base in part_cls.__mro__[1:] if top_package(base.__module__) == OWN_PACKAGE]
        fields = inherited_fields(part_cls)  # not those of the class, which a decorator may still complete
        shared = {name: None for name, value in vars(part_cls).items() if isinstance(value, Shared)}
        for name, annotation in {**inspect.get_annotations(part_cls), **shared}.items():
            if name in fields or "ClassVar" in str(annotation):
                continue
            if name in _ATTRIBUTES or any(name in vars(base) for base in ours):
                raise TypeError(
                    f"{part_cls.__qualname__}.{name} cannot be a field, since {name} is something else in "
                    f"{part_cls.__mro__[1].__name__}: choose another name, or leave out the annotation"
                )

    @classmethod
    def cls(cls) -> type[Self]:
        """Return the class itself."""
        return cls

    @classmethod
    def _is_bare(cls) -> bool:
        """Return True for a class to derive from: a base of the toolkit, or one with a `cls` of its own."""
        return Part in cls.__bases__ or not is_part(cls)

    def _create(self, **attributes: Any) -> Self:
        """Return a new object that works, with the values of these params and further attributes."""
        part = object.__new__(type(self))
        shared = shared_of(type(self))
        for name, value in self.__getstate__().items():
            vars(part)[name] = value if name in shared else copied(value)
        vars(part).update(attributes, _is_created=True)
        return part

    def __getstate__(self) -> dict[str, Any]:
        """Return what copies and worker processes get: of params nothing that code has computed."""
        if self._is_created:
            return dict(vars(self))
        names = [*(field.name for field in fields(self)), *shared_of(type(self))]
        return {name: vars(self)[name] for name in names if name in vars(self)}

    if not TYPE_CHECKING:  # a type checker must find mistyped attributes itself

        def __setattr__(self, name: str, value: Any) -> None:
            if self._is_created:
                object.__setattr__(self, name, value)
                return
            if name in type(self).__dataclass_fields__.keys() - {field.name for field in fields(self)}:
                raise _no_attribute(self, name)
            super().__setattr__(name, value)
            for computed in vars(self).keys() - self.__getstate__().keys():
                del vars(self)[computed]


def is_part(cls: Any) -> TypeGuard[type[Part]]:
    """Return True for a class that is params and code in one."""
    if not (isinstance(cls, type) and issubclass(cls, Part)):
        return False
    return not cls._is_created and inspect.getattr_static(cls, "cls") is vars(Part)["cls"]


def pai_dataclass(_cls: Any = None, alt: str | None = None, no_assign_to_unknown: bool = True) -> Any:
    """Decorate a dataclass of params, with or without arguments.

    A dataclass that does not derive from `ParamsBase` gets its JSON methods, and refuses unknown attributes.

    Args:
        _cls: the class.
        alt: another short name, by which the class can be chosen.
        no_assign_to_unknown: refuse to set attributes that are not fields; `ParamsBase` always does.
    """

    def decorate(cls: Any) -> Any:
        cls.__pai_dataclass__ = None
        cls.__alt_name__ = alt
        if not issubclass(cls, ParamsBase):
            for method in ("to_dict", "from_dict", "to_json", "from_json"):
                setattr(cls, method, vars(ParamsBase)[method])
            if no_assign_to_unknown:
                cls.__setattr__ = vars(ParamsBase)["__setattr__"]
        return cls

    return decorate if _cls is None else decorate(_cls)


# --- The class that params describe


def implementation(params_cls: type, named: Any) -> Any:
    """Return a static method that returns the class that params describe, imported when it is called.

    Args:
        params_cls: class of the params.
        named: the class itself, or `module:Class`, so that a module of params imports no backend. A module that begins
            with a dot is relative to the package of the module that declares `params_cls`, as in an import; beside a
            module without a package, a file that was named by its path or a script it is a module in the same
            directory. Without a module the class is defined in the module of `params_cls`, such as a notebook.

    Raises:
        TypeError: `named` has another form.
        ImportError: it begins with more dots than there are packages.
    """
    if callable(named):
        return staticmethod(lambda: named)
    if not isinstance(named, str) or not _CLASS_NAME.fullmatch(named):
        raise TypeError(f"{params_cls.__qualname__} names the class {named!r}, expected 'module:Class'")
    module, _, attribute = named.rpartition(":")
    home, declaring = params_cls.__module__, sys.modules.get(params_cls.__module__)
    # None for a script; empty for a module at the top level, and for a script in a worker.
    package = home.rpartition(".")[0] if declaring is None else declaring.__package__ or ""
    if home == "__mp_main__":  # a worker process runs the script of the training under another name
        home = "__main__"
    if not package and re.match(r"\.\w", module):
        module = module[1:]
    module = importlib.util.resolve_name(module or home, package)
    # An error within the module keeps its traceback: it is one of the program, not of what a user typed.
    return staticmethod(lambda: getattr(importlib.import_module(module), attribute))
