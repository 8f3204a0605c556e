"""Limits of the value of a field: declared beside its help text, checked by one function."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from typing import Any, TypedDict, Unpack

from tfaip.errors import UsageError
from tfaip.util.text import shorten

_KEY = "limits"


class FieldError(UsageError, ValueError):
    """A value that a field of a params object must not have.

    The object itself does not know where in a tree it is. Whoever does extends the path (`move_below`) and, where the
    tree has a command line, adds the flags (`name_flags`).

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
        self._labels: Sequence[str | None] = ()

    @property
    def path(self) -> str:
        """The path of the field itself."""
        return self.paths[0]

    @property
    def flags(self) -> list[str]:
        """What to change, as far as it is known."""
        return [label for label in self._labels if label]

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

    def name_flags(self, flag_of: Callable[[str], str | None]) -> None:
        """Add what to change: `flag_of` returns the flag of a path, or None if it has none."""
        self._labels = list(map(flag_of, self.paths))


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
        for name, path, label in zip_longest(names, self.paths, self._labels):
            text = text.replace(f"{{{name}}}", label or path)
        return str(text)


@contextlib.contextmanager
def below(name: str) -> Iterator[None]:
    """Context in which a parent checks one of its children: extends the path of a `FieldError` by the child's name."""
    try:
        yield
    except FieldError as error:
        error.move_below(name)
        raise


class LimitOptions(TypedDict, total=False):
    """Arguments of `limits`."""

    low: float | None
    high: float | None
    above: float | None
    below: float | None
    finite: bool
    also: Mapping[Any, str]
    choices: Sequence[Any]
    text: Callable[[Any], str | None] | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of the values of a field; see `limits`."""

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    finite: bool = False
    also: Mapping[Any, str] = dataclasses.field(default_factory=dict)
    choices: Sequence[Any] = ()
    text: Callable[[Any], str | None] | None = None

    def expected(self, value: Any) -> str | None:
        """Return in words what is allowed instead of a single value; None if the value is allowed."""
        if self.also and value in self.also:
            return None
        if self.text is not None and (isinstance(value, str) or not self.has_ends):
            return self.text(value)
        if self.choices:
            return None if value in self.choices else f"one of {', '.join(map(str, self.choices))}"
        return None if self._contains(value) else self._described(value)

    @property
    def has_ends(self) -> bool:
        """Return True if the field holds a number."""
        return self.finite or self.ends() != (None, None)

    def ends(self) -> tuple[float | None, float | None]:
        """Return the lower and the upper end, which may or may not belong to the range."""
        lower = self.above if self.low is None else self.low
        return lower, self.below if self.high is None else self.high

    def range_text(self) -> str:
        """Return the range of a number in words, with what is allowed besides; "" if there is none."""
        text = self._range_text()
        return ", or ".join([text, *map(str, self.also)]) if text else ""

    def _contains(self, value: Any) -> bool:
        try:
            return (
                (self.low is None or value >= self.low)
                and (self.above is None or value > self.above)
                and (self.high is None or value <= self.high)
                and (self.below is None or value < self.below)
                and abs(value) < math.inf  # not NaN either
            )
        except TypeError:
            return False  # not a number

    def _described(self, value: Any) -> str:
        is_finite = isinstance(value, int | float) and abs(value) < math.inf
        noun = "a finite number" if isinstance(value, float) and not is_finite else "a number"
        text = self._range_text()
        if not text.startswith("at "):
            text = f"{noun} {text}".rstrip()
        elif not is_finite:
            text = f"{noun}, {text}"
        for allowed, meaning in self.also.items():
            text += f", or {allowed} for {meaning}"
        return text

    def _range_text(self) -> str:
        lower, upper = self.ends()
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


class Metadata(dict[str, Any]):
    """Metadata of a field, hashed by identity: `Annotated[float, limits(low=0)] | None` needs a hash."""

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)


def limits(**given: Unpack[LimitOptions]) -> dict[str, Any]:
    """Return metadata of a field that limits its value: `metadata=pai_meta(help="...") | limits(low=1)`.

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
    return Metadata({_KEY: Limits(**given)})


def limits_of(cls: type, name: str) -> Limits | None:
    """Return the limits of a field of a class: those that it declares, else those that it inherits."""
    for base in cls.__mro__:
        field = vars(base).get("__dataclass_fields__", {}).get(name)
        if field is not None and _KEY in field.metadata:
            return field.metadata[_KEY]
    return None


def check_fields(params: Any) -> None:
    """Raise unless all fields of an object keep their limits; what is below the object is not checked.

    Args:
        params: instance of a dataclass.

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
                alternative = ", or None" if is_optional and found.has_ends else ""
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
