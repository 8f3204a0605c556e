"""Types of fields: those of our own, type arguments, resolved annotations, and how types are classified and written."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, ForwardRef, Generic, Literal, NamedTuple, TypeVar, Union

from tfaip.errors import UsageError
from tfaip.params.fields import FieldError
from tfaip.params.names import OWN_PACKAGE, top_package
from tfaip.params.trust import FULL_NAME, Trust, import_named, is_full_name
from tfaip.util.text import shorten

UNBOUND = object()


def type_argument(cls: type, base: type, index: int) -> Any:
    """Return the class that `cls` binds to a type parameter of its generic base.

    For `class MyScenario(ScenarioBase[MyParams, MyTrainerParams])`, argument 0 of `ScenarioBase` is `MyParams`.

    Args:
        cls: the subclass, at any distance.
        base: the generic class.
        index: which of its parameters.

    Raises:
        TypeError: it is bound to nothing, and its TypeVar has no `bound`; or to something that is not a class.
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
    origin = typing.get_origin(cls) or cls
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
            found[field.name] = typing.Optional[declared]  # noqa: UP045 - takes what `|` does not
    return found


def resolve_annotation(annotation: Any, owner: type, names: Mapping[str, Any] | None = None) -> Any:
    """Return an annotation of the body of `owner`, with its strings evaluated by `typing`.

    Args:
        annotation: a type, or a string or `ForwardRef` that names one.
        owner: class in whose module the names are looked up.
        names: further names.

    Raises:
        TypeError: it names something that does not exist at run time.
    """
    # `get_type_hints` resolves all annotations of a class at once; here one is wanted, with further names.
    holder = type("holder", (), {"__annotations__": {"it": annotation}})
    module = sys.modules.get(owner.__module__)
    try:
        scope = dict(vars(module)) if module else {}
        known = {owner.__name__: owner, **(names or {})}
        return typing.get_type_hints(holder, scope, known)["it"]
    except (NameError, SyntaxError) as error:
        raise TypeError(
            f"{owner.__qualname__}: annotation {annotation!r} cannot be resolved ({error}); "
            f"import or define its names at the top level of module {owner.__module__}"
        ) from error


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
    origin = typing.get_origin(cls)
    if origin is not None:
        own = dict(zip(parameters(origin), typing.get_args(cls), strict=True))
        return tuple(_substitute(a, own) for a in arguments(origin, base))
    if cls is base:
        return parameters(base)
    found: list[Any] = [UNBOUND] * len(parameters(base))
    for parent in vars(cls).get("__orig_bases__", cls.__bases__):
        parent_class = typing.get_origin(parent) or parent
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
    if isinstance(argument, type) and typing.get_origin(argument) is None:
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
        return _construct(field_types(self.owner)[self.name], f"{self.owner.__name__}.{self.name}")


def bound_field(metadata: Mapping[str, Any] | None = None) -> Any:
    """Declare a field that is annotated with a TypeVar, and whose default is the class bound to it.

    Args:
        metadata: as `pai_meta` returns it.
    """
    return dataclasses.field(default_factory=BoundDefault(), metadata=metadata)


def _construct(cls: Any, place: str) -> Any:
    """Return the default of a bound field; its own bound fields get the arguments of an alias."""
    origin = typing.get_origin(cls) or cls
    if not is_node_type(cls):
        raise TypeError(f"{place} is bound to {cls}, expected a params class: bind its type parameter")
    if origin is cls:
        return origin()
    values = {}
    for field in dataclasses.fields(origin):
        if isinstance(field.default_factory, BoundDefault):
            values[field.name] = _construct(field_types(cls)[field.name], f"{place}.{field.name}")
    return origin(**values)


def bound_argument(cls: type, name: str) -> Any:
    """Return what a class passes for the type parameter that annotates an inherited field, or `UNBOUND`."""
    owner, annotation = declaration(cls.__mro__[1:], name)
    text = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
    for index, variable in enumerate(parameters(owner)):
        if annotation is variable or (isinstance(text, str) and text.strip() == variable.__name__):
            return arguments(cls, owner)[index]
    return UNBOUND


# --- Values of other fields as text: what a command line has after the flag of the field


class FieldText(str):
    """Type of a field that holds the value of another field as text.

    The text may name classes and functions, which are imported when the other field is set. The command line and
    Python code may name any, a file only those of trusted packages, see `tfaip.params.trust.check_text`.
    """

    __slots__ = ()
    shown = "value or flat list"


if TYPE_CHECKING:
    FieldValues = dict[str, Any]
else:
    FieldValues = dict[str, FieldText]
"""Type of values of other fields by their paths: texts, or plain values as in a config file, which become texts."""


# --- Functions that a user names


class FunctionName(str):
    """Type of a field that holds `module:function`.

    The command line and Python code may name any function, a file only those of trusted packages,
    see `tfaip.params.trust.check_function`.
    """

    __slots__ = ()
    shown = "module:function"


def expected_function(name: str) -> str | None:
    """Return in words what is expected instead of a text, or None if it has the form `module:function`."""
    return None if FULL_NAME.fullmatch(str(name)) else "module:function"


def load_function(name: str, path: str) -> Callable[..., Any]:
    """Import a function.

    Args:
        name: `module:function`.
        path: the field that names it, for messages.

    Raises:
        FieldError: if the module cannot be imported, or holds no such function.
    """
    expected = expected_function(name)
    if expected is not None:
        raise FieldError(path, name, expected)
    function: Callable[..., Any] = import_named(name, path, "function")
    return function


class FunctionByName:
    """Function of the user, called with those of the offered keyword arguments that it takes.

    Args:
        name: `module:function`.
        offered: names of the arguments.
        path: the field that names it, for messages.

    Raises:
        FieldError: if there is no such function, or it needs another argument.
    """

    def __init__(self, name: str, offered: Iterable[str], path: str) -> None:
        self._function = load_function(name, path)
        offered = list(offered)
        signature = inspect.signature(self._function)
        takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())
        # Names of the offered arguments that it takes.
        self.taken = {argument for argument in offered if takes_all or argument in signature.parameters}
        try:
            signature.bind(**dict.fromkeys(self.taken))
        except TypeError as error:
            needed = str(error).rpartition(": ")[2]
            raise FieldError(path, name, f"a function of {', '.join(offered)}; it needs {needed}") from error

    def __call__(self, **offered: Any) -> Any:
        """Call the function with the arguments that it takes."""
        return self._function(**{name: value for name, value in offered.items() if name in self.taken})


# --- Kinds of declared types

LIST_TYPES = {list, Sequence, Iterable}
SEQUENCE_TYPES = LIST_TYPES | {set, frozenset, tuple}
DICT_TYPES = {dict, Mapping}


def origin_of(declared: Any) -> Any:
    """Return a type without its type arguments: `list` for `list[int]`."""
    return typing.get_origin(declared) or declared


def strip(declared: Any) -> Any:
    """Return the type that a `NewType` names."""
    while hasattr(declared, "__supertype__"):
        declared = declared.__supertype__
    return declared


def is_union(declared: Any) -> bool:
    """Return True for `Union[...]`, `Optional[...]` and `A | B`."""
    return typing.get_origin(declared) in (Union, types.UnionType)


def is_subclass(declared: Any, base: Any) -> bool:
    """Return True if a type is a class derived from `base`; other types are no error."""
    return isinstance(declared, type) and issubclass(declared, base)


def is_node_type(declared: Any) -> bool:
    """Return True for a dataclass, possibly with type arguments."""
    origin = origin_of(declared)
    return isinstance(origin, type) and dataclasses.is_dataclass(origin)


def members_of(declared: Any) -> tuple[list[Any], bool]:
    """Return the types of a union without None, and if None is one of them; of another type only itself."""
    members = [strip(member) for member in (typing.get_args(declared) if is_union(declared) else [declared])]
    return [member for member in members if member is not type(None)], type(None) in members


def expected(declared: Any) -> str:
    """Return a type in words that a user reads: a name, or the choices."""
    if declared is bool:
        return "True or False"
    return "a value" if declared is Any else type_name(declared)


def type_name(declared: Any) -> str:
    """Return a type as it is written, without modules; an enum by its values."""
    arguments = typing.get_args(declared)
    if declared is type(None):
        return "None"
    if is_union(declared):
        return " | ".join(map(type_name, arguments))
    if typing.get_origin(declared) is Literal:
        return " | ".join(map(repr, arguments))
    if is_subclass(declared, Enum):
        return " | ".join(str(member.value) for member in declared)
    if declared is Ellipsis:  # of tuple[int, ...]
        return "..."
    name: str = getattr(declared, "shown", getattr(origin_of(declared), "__name__", str(declared)))
    return f"{name}[{', '.join(map(type_name, arguments))}]" if arguments else name


class FieldKind(NamedTuple):
    """Kind of a field.

    Args:
        kind: leaf, node, list or dict (of nodes).
        declared: type of the field, or of the items of a list or dict.
        optional: the field may be None.
    """

    kind: str
    declared: Any
    optional: bool


def field_kind(declared: Any) -> FieldKind:
    """Classify the type of a field."""
    declared = strip(declared)
    members, optional = members_of(declared)
    inner = members[0] if len(members) == 1 else declared
    origin, arguments = origin_of(inner), typing.get_args(inner)
    if is_node_type(inner):
        return FieldKind("node", inner, optional)
    if origin in LIST_TYPES and arguments and is_node_type(arguments[0]):
        return FieldKind("list", arguments[0], optional)
    if origin in DICT_TYPES and arguments and arguments[0] is str and is_node_type(arguments[1]):
        return FieldKind("dict", arguments[1], optional)
    return FieldKind("leaf", declared, optional)


# --- Objects that params describe by a class and its arguments; nothing is imported here

CLASS, ARGUMENTS = "class", "arguments"


class NamedObject:
    """Type of a field that holds the name of a class or function, and arguments; it is imported when it is used.

    The command line and Python code may name anything, a file only what is in trusted packages. The arguments are
    flags below that of the field.

    Args:
        name: a plain name, or `module:Class`.
        arguments: numbers, texts, True, False, None, and lists of these.
    """

    __slots__ = ("arguments", "name")
    # Help text of all fields of the type: which names there are.
    choices: ClassVar[str] = "module:Class"

    def __init__(self, name: str, /, **arguments: Any) -> None:
        self.name, self.arguments = name, arguments

    # Without a hash it is copied as a default, so that each field has its own.
    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.stored() == other.stored()

    def __copy__(self) -> NamedObject:
        return type(self)(self.name, **self.arguments)

    def __repr__(self) -> str:
        given = [f"{name}={value!r}" for name, value in self.arguments.items()]
        return f"{type(self).__name__}({', '.join([repr(str(self.name)), *given])})"

    def stored(self) -> Any:
        """Return what a file has for it: the name, or `{class, arguments}`."""
        return {CLASS: str(self.name), ARGUMENTS: self.arguments} if self.arguments else str(self.name)


class NameOfFile(str):
    """Name that a file gives, of a package of which it may only name what is made for params."""

    __slots__ = ()


def object_type(declared: Any) -> type[NamedObject] | None:
    """Return the type of the objects that a field, or a list in it, may hold; None: it holds no objects."""
    declared = strip(declared)
    if is_subclass(declared, NamedObject):
        found: type[NamedObject] = declared
        return found
    return next(filter(None, map(object_type, typing.get_args(declared))), None)


def checked_name(name: str, trusted: Trust | None, place: str) -> str:
    """Return the name of an object if a file may name it.

    Args:
        name: as in the file.
        trusted: what the file may name; None: the name is no file's, and may be anything.
        place: flag or dotted path, for messages.

    Raises:
        UsageError: if it may not.
    """
    if not is_full_name(name) and not (name.isidentifier() and name.isascii()):
        raise UsageError(f"{place}: expected the name of a class or module:Class, got {shorten(name)}")
    if trusted is None or ":" not in name:
        return str(name)
    module = name.partition(":")[0]
    # Of `tfaip` and of Keras nothing is meant.
    trusted._replace(packages=trusted.packages - {OWN_PACKAGE}).require(module, f"{place}: {shorten(name)}")
    return str(name) if top_package(module) in trusted.packages else NameOfFile(name)


def parts_of(value: Any, place: str) -> tuple[str, dict[str, Any]]:
    """Return name and arguments of a stored object.

    Raises:
        UsageError: if it has another form.
    """
    stored = {CLASS: value} if isinstance(value, str) else value
    if isinstance(stored, Mapping) and {CLASS} <= stored.keys() <= {CLASS, ARGUMENTS}:
        name, arguments = stored[CLASS], stored.get(ARGUMENTS, {})
        if isinstance(name, str) and isinstance(arguments, Mapping):
            return name, {str(key): plain_argument(item, f"{place}.{key}") for key, item in arguments.items()}
    raise UsageError(f"{place}: expected a class, or {{class: ..., arguments: {{...}}}}, got {shorten(value)}")


def plain_argument(value: Any, place: str) -> Any:
    """Return the value of an argument: Keras would import what a dict names.

    Raises:
        UsageError: if it is not a number, text, bool, None, or list of these.
    """
    if isinstance(value, list | tuple):
        return [plain_argument(item, place) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise UsageError(f"{place}: expected a number, a text, True, False, None or a list of these, got {shorten(value)}")
