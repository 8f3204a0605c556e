"""Declaration of fields: `option`, `pai_meta`, `shared`, defaults that each object copies, and help texts."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from tfaip.params.limits import LimitOptions, Metadata, limits
from tfaip.params.names import did_you_mean

T = TypeVar("T")

_COMMON_KEY = "common"
# Mark of the options that most users set. `--help` shows them, and those that the scenario itself declares.
COMMON = {_COMMON_KEY: True}


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
) -> dict[str, Any]:
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
    metadata = Metadata(locals())
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
        metadata["enforce_choices"] = (not are_classes) if enforce_choices is None else enforce_choices
    metadata["fix_dc"] = fix_dc or tuple_like
    return metadata


def _are_classes(choices: Sequence[Any]) -> bool:
    """Return True if the choices are params classes, False if they are values."""
    classes = [choice for choice in choices if dataclasses.is_dataclass(choice)]
    if classes and len(classes) < len(choices):
        raise ValueError("pai_meta(choices=...) mixes params classes and values")
    keys = [getattr(choice, "__name__", choice) for choice in choices] if classes else choices
    if len(set(keys)) < len(keys):
        raise ValueError(f"pai_meta(choices=...) must be unique, got {', '.join(map(str, keys))}")
    return bool(classes)


def is_common(meta: Mapping[str, Any]) -> bool:
    """Return True if the metadata of a field have the mark of common options."""
    return bool(meta.get(_COMMON_KEY))


class _Options(LimitOptions, total=False):
    """Further arguments of `option`, which `limits` and `pai_meta` have."""

    mode: str
    separator: str
    required: bool | None
    nargs: str
    enforce_choices: bool | None
    disable_subclass_check: bool
    fix_dc: bool
    tuple_like: bool


# As other libraries call them.
_OTHER_NAMES = {"min": "low", "ge": "low", "minimum": "low", "max": "high", "le": "high", "maximum": "high"}


# Declared as a function that returns the value, not as a field specifier of `dataclass_transform`:
# type checkers then compare the default with the annotation, and see that there is one although it
# is no keyword argument.
def option(
    default: T = dataclasses.MISSING,  # type: ignore[assignment]
    help: str = "",  # noqa: A002
    *,
    factory: Callable[[], T] | None = None,
    common: bool = False,
    **given: Unpack[_Options],
) -> T:
    """Declare a field of a params class: `height: int = option(16, "Height in pixels", low=1)`.

    Args:
        default: value of the field. Lists, dicts, sets and params are copied for each object.
        help: text for `--help`.
        factory: function that makes the default, instead of `default`.
        common: `--help` shows the option, as one that most users set.
        given: arguments of `tfaip.params.limits.limits` (`low`, `high`, `above`, `below`, `finite`, `also`, `text`), of
            `pai_meta` (among them `mode`: "ignore" makes no flag), and `choices`: allowed values, or params classes
            that may be chosen.

    Raises:
        TypeError: if there is no such argument.
        ValueError: if an argument has no meaning, or both `default` and `factory` are given.
    """
    for name in given:
        if name not in _Options.__annotations__:
            near = _OTHER_NAMES.get(name)
            hint = (
                f"; did you mean {near}?"
                if near
                else did_you_mean(name, [*_Options.__annotations__, "common", "factory"])
            )
            raise TypeError(f"option() has no argument {name!r}{hint}")
    ends: dict[str, Any] = {name: value for name, value in given.items() if name in LimitOptions.__annotations__}
    choices = ends.pop("choices", None)
    flag: dict[str, Any] = {name: value for name, value in given.items() if name not in LimitOptions.__annotations__}
    metadata = pai_meta(help=help or None, choices=choices, **flag)
    if common:
        metadata |= COMMON
    if metadata["enforce_choices"] and not any(map(dataclasses.is_dataclass, choices or ())):
        ends["choices"] = choices
    if any(value is not None for value in ends.values()):
        metadata |= limits(**ends)
    field: T
    if factory is None:
        field = default_field(default, metadata=metadata)
    elif default is dataclasses.MISSING:
        field = dataclasses.field(default_factory=factory, metadata=metadata)
    else:
        raise ValueError(f"option({default!r}, factory=...): give a default or a factory")
    return field


def default_field(value: Any, **settings: Any) -> Any:
    """Return a dataclass field with a default, which each object copies if it can be changed."""
    if is_mutable(value):
        return dataclasses.field(default_factory=functools.partial(copied, value), **settings)
    return dataclasses.field(default=value, **settings)


def is_mutable(value: Any) -> bool:
    """Return True if two objects must not share a value: one could change that of the other."""
    if isinstance(value, tuple):
        return any(map(is_mutable, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return not type(value).__dataclass_params__.frozen  # type: ignore[attr-defined]
    return type(value).__hash__ is None


def copied(value: Any) -> Any:
    """Return a copy of a value with all containers and params in it; arrays are shared.

    `copy.deepcopy` would double a data set that a generator holds.
    """
    if not is_mutable(value) or hasattr(value, "__array__"):
        return value
    if isinstance(value, tuple):
        items = map(copied, value)
        return value._make(items) if hasattr(value, "_make") else tuple(items)
    if not isinstance(value, list | dict) and not dataclasses.is_dataclass(value):
        return copy.deepcopy(value)
    new = copy.copy(value)
    if isinstance(new, list):
        new[:] = map(copied, new)
    elif isinstance(new, dict):
        new.update((key, copied(item)) for key, item in new.items())
    else:
        for field in dataclasses.fields(new):
            if hasattr(new, field.name):
                object.__setattr__(new, field.name, copied(getattr(new, field.name)))
    return new


class Shared:
    """Attribute of params that holds other params of the same scenario; see `shared`."""

    # Read from the class body by `take_shared`.
    declared: Any = None
    owner: Any = None
    name = ""

    def __get__(self, node: Any, owner: Any = None) -> Any:
        if node is None:
            return self
        try:
            return vars(node)[self.name]
        except KeyError:
            cls, kind = type(node).__name__, self.kind
            raise AttributeError(
                f"{cls}.{self.name} is not there yet: it is filled in from the scenario that the part belongs to; "
                f"outside of one, give the {kind}, as in {cls}({self.name}={kind}(...))",
                name=self.name,
                obj=node,
            ) from None

    def __set__(self, node: Any, value: Any) -> None:
        vars(node)[self.name] = value

    @property
    def kind(self) -> str:
        """Name of the declared class."""
        name = self.declared if isinstance(self.declared, str) else getattr(self.declared, "__name__", self.declared)
        return str(name).rpartition(".")[2]


def shared() -> Any:
    """Declare params that are filled in from the scenario: `data: LineData = shared()`.

    The attribute becomes the params of the declared class in the tree of the scenario, the very
    object: of the data first, otherwise of any other part, if there is only one. It is no field: it
    has no flag, is not stored, and does not count in comparisons. It is there in the code of the part
    (generator, processor, evaluator, model, graph), not in `__post_init__`. Outside of a scenario,
    give it to the constructor (by its name), or set it.
    """
    return Shared()


def take_shared(cls: type) -> None:
    """Take the attributes that are declared with `shared()` out of the annotations of a new class.

    Raises:
        TypeError: if one has no annotation, or the name of an inherited field.
    """
    annotations = dict(inspect.get_annotations(cls))
    for name, value in list(vars(cls).items()):
        if not isinstance(value, Shared):
            continue
        if name not in annotations:
            raise TypeError(f"{cls.__qualname__}.{name} = shared() needs a class: write {name}: MyData = shared()")
        if name in getattr(cls, "__dataclass_fields__", {}):
            raise TypeError(f"{cls.__qualname__}.{name} = shared() would hide a field: choose another name")
        value.owner, value.name, value.declared = cls, name, annotations.pop(name)
        cls.__annotations__ = annotations


def shared_of(cls: Any) -> dict[str, Shared]:
    """Return the shared attributes of a class, with those that it inherits, by name."""
    return _shared_of(cls)


@functools.cache
def _shared_of(cls: Any) -> dict[str, Shared]:
    found: dict[str, Shared] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            found.pop(name, None)  # replaced by something else
            if isinstance(value, Shared):
                found[name] = value
    return found


def help_of(cls: type, name: str) -> str:
    """Return the help text of a field, its own or an inherited one; "" if there is none.

    In each class its metadata (`option`, `pai_meta`) go before a string under the field.
    """
    for base in cls.__mro__:
        field = vars(base).get("__dataclass_fields__", {}).get(name)
        if field is not None and name in inspect.get_annotations(base):
            found = field.metadata.get("help") or source_help(base).get(name)
            if found:
                return str(found)
    return ""


@functools.cache
def source_help(cls: type) -> Mapping[str, str]:
    """Return field -> the string under it in the source of a class, which is read for help only; else nothing."""
    import ast

    try:
        source = inspect.getsource(cls)
        parsed = ast.parse(f"if True:\n{source}" if source[0].isspace() else source)
    # The file may have changed since it was imported; the parser raises the last two for deep nesting.
    except (OSError, TypeError, SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    body = next(node.body for node in ast.walk(parsed) if isinstance(node, ast.ClassDef))
    found = {}
    for statement, following in zip(body, body[1:], strict=False):
        target = statement.target if isinstance(statement, ast.AnnAssign) else getattr(statement, "targets", [None])[0]
        text = following.value if isinstance(following, ast.Expr) else None
        if isinstance(target, ast.Name) and isinstance(text, ast.Constant) and isinstance(text.value, str):
            found[target.id] = " ".join(inspect.cleandoc(text.value).split())
    return found
