"""Declaration of fields: limits, `option`, `pai_meta`, `shared`, defaults that each object copies, and help texts."""

import contextlib
import copy
import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from operator import ge, gt, le, lt
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack

from tfaip.errors import UsageError
from tfaip.util.text import shorten

_KEY = "limits"


class FieldError(UsageError, ValueError):
    """A value that a field of a params object must not have.

    The object itself does not know where in a tree it is. Whoever does extends the path (`move_below`) and, where the
    tree has a command line, sets `flags`, which are to be changed.

    Args:
        path: the field, as a dotted path from the object that refuses the value.
        value: what the field holds.
        expected: allowed values, in words.
        index: index or key of the refused item, if `value` is an item of the field.
        others: paths of fields that could be changed instead.
    """

    def __init__(self, path: str, value: Any, expected: str, *, index: Any = None, others: Sequence[str] = ()) -> None:
        super().__init__(path, value, expected)
        self.value, self.expected, self.index = value, expected, index
        self.paths = (path, *others)
        self.flags: Sequence[str] = ()

    @property
    def path(self) -> str:
        """The path of the field itself."""
        return self.paths[0]

    def __str__(self) -> str:
        # The flag says where the field is.
        name = self.path.rpartition(".")[2] if self.flags else self.path
        if self.index is not None:
            name = f"{name}[{shorten(self.index)}]"
        text = f"{name} is {shorten(self.value)}, expected {self.expected}"
        return f"{text}: change {' or '.join(self.flags)}" if self.flags else text

    def move_below(self, name: str) -> None:
        """Extend the paths by the field, index or key of the parent that holds the object; see `below`."""
        self.paths = tuple(f"{name}.{path}" for path in self.paths)


class FieldAdvice(FieldError):
    """A message with a text of its own, in which flags replace the names of fields as soon as they are known.

    Args:
        text: the message; a field in it is written `{name}`.
        names: these fields, as dotted paths from the object that raises the error.
    """

    def __init__(self, text: str, *names: str) -> None:
        super().__init__(names[0], None, "", others=names[1:])
        self.args = (text, *names)

    def __str__(self) -> str:
        text, *names = self.args
        for name, path, label in zip_longest(names, self.paths, self.flags):
            text = text.replace(f"{{{name}}}", label or path.removesuffix(".*"))
        return str(text)


@contextlib.contextmanager
def below(name: str) -> Iterator[None]:
    """Context in which a parent checks one of its children: extends the path of a `FieldError` by the child's name."""
    try:
        yield
    except FieldError as error:
        error.move_below(name)
        raise


class Limits(NamedTuple):
    """Limits of the values of a field.

    They are checked when an object is made and when `post_init` runs, also for a subclass that declares the field again
    without limits. Of a list, tuple or dict they hold for the items. None is allowed where the type allows it.

    Args:
        low: smallest allowed number. With any end, infinities and NaN are refused, too.
        high: largest allowed number.
        above: every allowed number is larger.
        below: every allowed number is smaller.
        finite: any finite number, if there is no end.
        also: further values with their meaning: `{-1: "automatic"}`.
        choices: the only values.
        text: for a text: returns in words what is allowed instead ("a regular expression (...)"), or None.
    """

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    finite: bool = False
    also: Mapping[Any, str] = {}
    choices: Sequence[Any] = ()
    text: Callable[[Any], str | None] | None = None

    def expected(self, value: Any) -> str | None:
        """Return in words what is allowed instead of a single value; None if the value is allowed."""
        if self.also and value in self.also:
            return None
        if self.text is not None and (isinstance(value, str) or not (self.finite or self._range_text())):
            return self.text(value)
        if self.choices:
            return None if value in self.choices else f"one of {', '.join(map(str, self.choices))}"
        ends = ((self.low, ge), (self.above, gt), (self.high, le), (self.below, lt))
        with contextlib.suppress(TypeError):  # it is not a number
            # NaN is not below infinity either.
            if all(end is None or keeps(value, end) for end, keeps in ends) and abs(value) < math.inf:
                return None
        return self._described(value)

    def range_text(self) -> str:
        """Return the range of a number in words, with what is allowed besides; "" if there is none."""
        text = self._range_text()
        return ", or ".join([text, *map(str, self.also)]) if text else ""

    def _described(self, value: Any) -> str:
        text, is_number = self._range_text(), isinstance(value, int | float)
        is_finite = is_number and abs(value) < math.inf
        if not (is_finite and text.startswith("at ")):
            noun = "a finite number" if is_number and not is_finite else "a number"
            text = f"{noun} {text}".rstrip()
        return ", or ".join([text, *(f"{allowed} for {meaning}" for allowed, meaning in self.also.items())])

    def _range_text(self) -> str:
        lower = self.above if self.low is None else self.low
        upper = self.below if self.high is None else self.high
        if lower is None and upper is None:
            return ""
        if upper is None:
            return f"at least {lower}" if self.above is None else f"above {lower}"
        if lower is None:
            return f"at most {upper}" if self.below is None else f"below {upper}"
        if self.above is None and self.below is None:
            return f"from {lower} to {upper}"
        opening = "[" if self.above is None else "("
        closing = "]" if self.below is None else ")"
        return f"in {opening}{lower}, {upper}{closing}"


def limits_of(cls: type, name: str) -> Limits | None:
    """Return the limits of a field of a class: those that it declares, else those that it inherits."""
    return next((field.metadata[_KEY] for field in versions_of(cls, name) if _KEY in field.metadata), None)


def versions_of(cls: type, name: str) -> list[dataclasses.Field[Any]]:
    """Return a field as a class and its bases have it, the nearest first."""
    tables = [vars(base).get("__dataclass_fields__", {}) for base in cls.__mro__]
    return [table[name] for table in tables if name in table]


def check_fields(params: Any) -> None:
    """Raise unless all fields of an object keep their limits; what is below the object is not checked.

    Raises:
        FieldError: if a field does not.
    """
    cls: Any = type(params)
    for name, found, is_optional in _limited_fields(cls):
        value = getattr(params, name, None)
        if value is None and (is_optional or not hasattr(params, name)):
            continue  # not set, or not set yet (`init=False`)
        for index, item in _items(value):
            expected = found.expected(item)
            if expected is not None:
                alternative = ", or None" if is_optional else ""
                raise FieldError(name, item, expected + alternative, index=index)


@cache
def _limited_fields(cls: type) -> tuple[tuple[str, Limits, bool], ...]:
    """Return name, limits and optionality of the fields that have limits."""
    result = []
    for field in dataclasses.fields(cls):
        found = limits_of(cls, field.name)
        if found is not None:
            declared = str(field.type)  # resolving the annotation would be slow, and may not be possible yet
            is_optional = field.default is None or "None" in declared or "Optional" in declared
            result.append((field.name, found, is_optional))
    return tuple(result)


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the values to check with their index or key; None for a single value."""
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, list | tuple):
        return enumerate(value)
    return ((None, value),)


T = TypeVar("T")

# Mark of the options that most users set. `--help` shows them, and those that the scenario itself declares.
COMMON = {"common": True}


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
        tuple_like: of `paiargparse`, without effect: the fields have their own flags.

    Raises:
        ValueError: an argument has no meaning.
    """
    metadata = dict(locals())
    # As strict as `paiargparse`, for which scenarios of many years are written.
    for name, allowed in [("separator", "/._-+"), ("mode", ("snake", "ssnake", "flat", "ignore")), ("nargs", "*+")]:
        if metadata[name] not in allowed:
            raise ValueError(f"pai_meta({name}={metadata[name]!r}): expected one of {' '.join(allowed)}")
    if enforce_choices and choices is None:
        raise ValueError("pai_meta(enforce_choices=True) needs choices")
    if choices and enforce_choices is None:
        metadata["enforce_choices"] = not any(map(dataclasses.is_dataclass, choices))
    return metadata


class _Options(TypedDict, total=False):
    """Further arguments of `option`: those of `Limits`, and of `pai_meta`."""

    low: float | None
    high: float | None
    above: float | None
    below: float | None
    finite: bool
    also: Mapping[Any, str]
    choices: Sequence[Any] | None
    text: Callable[[Any], str | None] | None
    mode: str
    separator: str
    required: bool | None
    nargs: str
    enforce_choices: bool | None
    disable_subclass_check: bool
    fix_dc: bool


# Declared as a function that returns the value, not as a field specifier of `dataclass_transform`: type checkers then
# compare the default with the annotation, and see that there is one although it is no keyword argument.
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
        given: arguments of `tfaip.params.fields.Limits` (`low`, `high`, `above`, `below`, `finite`, `also`, `text`), of
            `pai_meta` (among them `mode`: "ignore" makes no flag), and `choices`: allowed values, or params classes
            that may be chosen.

    Raises:
        TypeError: if there is no such argument.
        ValueError: if an argument has no meaning, or both `default` and `factory` are given.
    """
    flag: dict[str, Any] = dict(given)
    limiting = [name for name in Limits._fields if name != "choices"]
    ends = {name: flag.pop(name) for name in limiting if name in flag}
    choices = given.get("choices")
    metadata = pai_meta(help=help or None, **flag)
    if common:
        metadata |= COMMON
    if metadata["enforce_choices"] and not any(map(dataclasses.is_dataclass, choices or ())):
        ends["choices"] = choices
    if any(value is not None for value in ends.values()):
        metadata[_KEY] = Limits(**ends)
    field: T
    if factory is None:
        field = default_field(default, metadata=metadata)
    else:  # refuses both
        field = dataclasses.field(default=default, default_factory=factory, metadata=metadata)  # type: ignore[call-overload]
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


def copied(value: T, copies: dict[int, Any] | None = None) -> T:
    """Return a copy of a value with all containers and params in it; arrays and others, which may be large, are shared.

    Args:
        value: params, a container, or any value.
        copies: the copies so far by the id of the original: one node in two places stays one node.

    Raises:
        RecursionError: if a container holds itself.
    """
    new: Any
    copies = {} if copies is None else copies
    if id(value) in copies:
        return copies[id(value)]
    if isinstance(value, tuple):
        items = [copied(item, copies) for item in value]
        new = value._make(items) if hasattr(value, "_make") else tuple(items)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        new = copies[id(value)] = copy.copy(value)
        for field in dataclasses.fields(value):
            if hasattr(value, field.name):  # also in frozen nodes
                object.__setattr__(new, field.name, copied(getattr(value, field.name), copies))
    elif type(value).__hash__ is not None or hasattr(value, "__array__"):
        new = value
    else:
        new = copy.copy(value)
        if isinstance(new, list):
            new[:] = [copied(item, copies) for item in new]
        elif isinstance(new, dict):
            new.update((key, copied(item, copies)) for key, item in new.items())
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
        if self.name in vars(node):
            return vars(node)[self.name]
        cls, kind = type(node).__name__, self.kind
        raise AttributeError(
            f"{cls}.{self.name} is not there yet: it is filled in from the scenario that the part belongs to; "
            f"outside of one, give the {kind}, as in {cls}({self.name}={kind}(...))"
        )

    def __set__(self, node: Any, value: Any) -> None:
        vars(node)[self.name] = value

    @property
    def kind(self) -> str:
        """Name of the declared class."""
        name = self.declared if isinstance(self.declared, str) else getattr(self.declared, "__name__", self.declared)
        return str(name).rpartition(".")[2]


def shared() -> Any:
    """Declare params that are filled in from the scenario: `data: LineData = shared()`.

    The attribute becomes the params of the declared class in the tree of the scenario, the very object: of the data
    first, otherwise of any other part, if there is only one. It is no field: it has no flag, is not stored, and does
    not count in comparisons. It is there in the code of the part (generator, processor, evaluator, model, graph), not
    in `__post_init__`. Outside of a scenario, give it to the constructor (by its name), or set it.
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


@functools.cache
def shared_of(cls: Any) -> dict[str, Shared]:
    """Return the shared attributes of a class, with those that it inherits, by name."""
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
