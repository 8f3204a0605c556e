"""From the plain values of JSON back to params, checked against the declared types."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, Literal, Union, get_args, get_origin

from tfaip.errors import UsageError
from tfaip.params import renames
from tfaip.params.encoding import CLASS_KEY, encode
from tfaip.params.functions import FunctionName
from tfaip.params.names import did_you_mean
from tfaip.params.resource import Resource
from tfaip.params.trust import UntrustedName, check_function, find_class, trusted_packages
from tfaip.params.typeargs import field_types
from tfaip.util.text import ERROR_LIMIT, shorten, shorten_text

LIST_TYPES = {list, Sequence, Iterable}
SET_TYPES = {set, frozenset}
DICT_TYPES = {dict, Mapping}


def type_name(declared: Any) -> str:
    """A type as it is written, without modules; an enum by its values."""
    if declared is type(None):
        return "None"
    if declared is FunctionName:
        return "module:function"
    if is_union(declared):
        return " | ".join(type_name(arg) for arg in get_args(declared))
    if get_origin(declared) is Literal:
        return " | ".join(repr(arg) for arg in get_args(declared))
    if isinstance(declared, type) and issubclass(declared, Enum):
        return " | ".join(str(member.value) for member in declared)
    name = getattr(get_origin(declared) or declared, "__name__", str(declared))
    arguments = ", ".join("..." if a is Ellipsis else type_name(a) for a in get_args(declared))
    return f"{name}[{arguments}]" if arguments else name


def is_union(declared: Any) -> bool:
    """Whether the type is `Union[...]`, `Optional[...]` or `A | B`."""
    return get_origin(declared) in (Union, types.UnionType)


def is_node_type(declared: Any) -> bool:
    """Whether the type is a dataclass, possibly with type arguments."""
    origin = get_origin(declared) or declared
    return isinstance(origin, type) and dataclasses.is_dataclass(origin)


def strip(declared: Any) -> Any:
    """The type behind a `NewType`."""
    while hasattr(declared, "__supertype__"):
        declared = declared.__supertype__
    return declared


def build(cls: Any, values: Mapping[str, Any], place: str) -> Any:
    """Construct a node; fields that its constructor does not take are set afterwards.

    Raises:
        UsageError: its constructor or `__post_init__` refuses the values.
    """
    origin = get_origin(cls) or cls
    later = [field.name for field in dataclasses.fields(origin) if not field.init and field.name in values]
    try:
        node = origin(**{name: value for name, value in values.items() if name not in later})
        for name in later:
            setattr(node, name, values[name])
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{place}: {shorten_text(str(error), ERROR_LIMIT)}") from error
    return node


@dataclasses.dataclass(frozen=True)
class Decoder:
    """Decodes one file or dict.

    Args:
        trusted: top-level packages whose classes may be named, besides `tfaip` and those of declared types.
        directory: relative paths of resources start here.
    """

    trusted: frozenset[str] = frozenset()
    directory: Path | None = None

    def decode(self, value: Any, declared: Any, place: str) -> Any:
        """A value of the declared type.

        Args:
            value: what JSON holds.
            declared: the resolved type of the field.
            place: dotted path, for messages.

        Raises:
            UsageError: value and type do not agree, an unknown key, a class that is not allowed.
        """
        declared = strip(declared)
        origin = get_origin(declared) or declared
        if declared is Any or declared is object:
            return self._decode_any(value, place)
        if is_union(declared):
            return self._decode_union(value, declared, place)
        if is_node_type(declared):
            return self._decode_node(value, declared, place)
        if origin in LIST_TYPES or origin in SET_TYPES or origin is tuple:
            return self._decode_sequence(value, declared, place)
        if origin in DICT_TYPES:
            return self._decode_dict(value, declared, place)
        return self._decode_scalar(value, declared, place)

    def _decode_any(self, value: Any, place: str) -> Any:
        if isinstance(value, Mapping):
            if CLASS_KEY in value:
                return self._decode_node(value, object, place)
            return {key: self._decode_any(item, f"{place}.{key}") for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._decode_any(item, f"{place}.{index}") for index, item in enumerate(value)]
        return value

    def _decode_union(self, value: Any, declared: Any, place: str) -> Any:
        members = [strip(member) for member in get_args(declared)]
        if value is None and type(None) in members:
            return None
        members = [member for member in members if member is not type(None)]
        # 3 is an int before it is a float, and a float before it is a bool, whatever the order of the union.
        members.sort(key=lambda member: _distance(value, member))
        failure: UsageError | None = None
        for member in members:
            try:
                return self.decode(value, member, place)
            except UntrustedName:
                raise
            except UsageError as error:
                # Of several reasons the one about a class or a function says more than "expected a str".
                is_better = is_node_type(member) or (member is FunctionName and isinstance(value, str))
                failure = error if failure is None or is_better else failure
        is_name = isinstance(value, str) and FunctionName in members
        if failure is not None and (len(members) == 1 or isinstance(value, Mapping) or is_name):
            raise failure
        raise _mismatch(value, declared, place)

    def _decode_node(self, value: Any, declared: Any, place: str) -> Any:
        if not isinstance(value, Mapping):
            raise _mismatch(value, declared, place)
        cls = declared
        if CLASS_KEY in value:
            found = self._find_class(value[CLASS_KEY], declared, place)
            cls = declared if found is (get_origin(declared) or declared) else found
        inner = dataclasses.replace(self, trusted=trusted_packages(declared, self.trusted))
        types_of = field_types(cls)
        origin = get_origin(cls) or cls
        values = _current(origin, {key: item for key, item in value.items() if key != CLASS_KEY}, place)
        for key in values:
            if key not in types_of:
                raise UsageError(f"{place}: {origin.__name__} has no {shorten(key)}{did_you_mean(str(key), types_of)}")
        decoded = {key: inner.decode(item, types_of[key], f"{place}.{key}") for key, item in values.items()}
        missing = [name for name in _required(origin) if name not in decoded]
        if missing:
            raise UsageError(f"{place}: {origin.__name__} needs a value for {', '.join(missing)}")
        return build(cls, decoded, place)

    def _decode_sequence(self, value: Any, declared: Any, place: str) -> Any:
        if not isinstance(value, list | tuple):
            raise _mismatch(value, declared, place)
        origin, arguments = get_origin(declared) or declared, get_args(declared)
        if origin is tuple and arguments and arguments[-1] is not Ellipsis:
            if len(value) != len(arguments):
                raise UsageError(f"{place}: expected {len(arguments)} values, got {len(value)}")
        else:
            arguments = (arguments[0] if arguments else Any,) * len(value)
        items = [
            self.decode(item, argument, f"{place}.{index}")
            for index, (item, argument) in enumerate(zip(value, arguments, strict=True))
        ]
        return items if origin in LIST_TYPES else origin(items)

    def _decode_dict(self, value: Any, declared: Any, place: str) -> Any:
        if not isinstance(value, Mapping):
            raise _mismatch(value, declared, place)
        key_type, item_type = get_args(declared) or (Any, Any)
        return {
            self._decode_key(key, key_type, place): self.decode(item, item_type, f"{place}.{key}")
            for key, item in value.items()
        }

    def _decode_key(self, key: Any, declared: Any, place: str) -> Any:
        # JSON knows only strings as keys.
        if isinstance(key, str):
            for number in (int, float):
                if declared is number or (isinstance(declared, type) and issubclass(declared, number)):
                    try:
                        return self._decode_scalar(number(key), declared, f"{place}.{key}")
                    except (ValueError, OverflowError):
                        raise _mismatch(key, declared, f"{place}.{key}") from None
        return self.decode(key, declared, f"{place}.{key}")

    def _decode_scalar(self, value: Any, declared: Any, place: str) -> Any:
        if get_origin(declared) is Literal:
            for choice in get_args(declared):
                if choice == value and type(choice) is type(value):
                    return choice
        elif isinstance(declared, type) and issubclass(declared, Enum):
            for member in declared:
                if _same(encode(member.value), value) or member.name == value:
                    return member
        elif declared in (int, float, bool, str, type(None)):
            return _plain(value, declared, place)
        elif isinstance(value, str) and "\0" in value and _is_file(declared):
            raise UsageError(f"{place}: the name of a file holds a NUL character: {shorten(value)}")
        elif isinstance(value, str) and isinstance(declared, type) and issubclass(declared, Resource):
            try:
                return declared.loaded(value, self.directory)
            except ValueError as error:
                raise UsageError(f"{place}: {error}") from error
        elif isinstance(value, str) and isinstance(declared, type) and issubclass(declared, PurePath):
            return declared(value)
        elif isinstance(value, str) and declared is FunctionName:
            if value:
                self._check_function(value, place)
            return FunctionName(value)
        raise _mismatch(value, declared, place)

    def _find_class(self, name: Any, declared: Any, place: str) -> type:
        return find_class(name, declared, self.trusted, place)

    def _check_function(self, name: str, place: str) -> None:
        check_function(name, self.trusted, place)


def check_number(value: Any, place: str) -> None:
    """Raise unless an int can be held by the arrays and files that params end up in.

    Raises:
        UsageError: if `value` is an int of more than 64 bits.
    """
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise UsageError(f"{place}: expected an int of at most 64 bits, got {shorten(value)}")


def _plain(value: Any, declared: Any, place: str) -> Any:
    """A number, string or None; what the type can hold without loss is converted."""
    if declared is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise _mismatch(value, declared, place) from None
    check_number(value, place)
    if type(value) is declared:
        return value
    if declared is int and type(value) is float and value.is_integer():
        check_number(int(value), place)
        return int(value)
    if declared is bool and type(value) is int and value in (0, 1):
        return bool(value)
    raise _mismatch(value, declared, place)


def _distance(value: Any, member: Any) -> int:
    """Return how far a member of a union is from the type of a value; 0: it is this type."""
    if type(value) is member:
        return 0
    return 1 if type(value) in (int, float) and member in (int, float) else 2


def _is_file(declared: Any) -> bool:
    return isinstance(declared, type) and issubclass(declared, PurePath | Resource)


def _current(cls: type, values: Mapping[str, Any], place: str) -> dict[str, Any]:
    try:
        return renames.current_names(cls, values)
    except TypeError as error:
        raise UsageError(f"{place}: {error}") from error


def _required(cls: Any) -> list[str]:
    return [
        field.name
        for field in dataclasses.fields(cls)
        if field.init and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


def _mismatch(value: Any, declared: Any, place: str) -> UsageError:
    return UsageError(f"{place}: expected {shorten_text(type_name(declared), 120)}, got {shorten(value)}")
