"""Values of params as text and as JSON: text of a command line or of YAML, and plain values, to typed ones and back.

Text (`Words`, `Word`) is parsed, and means the same wherever it is given. A value of JSON must have the declared type,
or be converted to it without loss. Both take the same way down through unions, lists and dicts.

No library does this part: cattrs converts with loss (1.5 to an int, True to a float); msgspec and pydantic, both
strict, refuse 4.0 as an int and names of enums, msgspec also unions of several kinds of text.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
import math
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from numbers import Integral, Real
from pathlib import Path, PurePath
from typing import Any, Literal, NamedTuple, get_args, get_origin

from tfaip.errors import UsageError
from tfaip.params import types
from tfaip.params.names import by_present_name, did_you_mean, removed_fields
from tfaip.params.resource import Resource
from tfaip.params.tree import field_default, has_default, is_node, make_node, node_fields, post_init, same
from tfaip.params.trust import Trust, UntrustedName, check_function, check_text, class_name, find_class
from tfaip.util.text import shorten, shorten_text

CLASS_KEY = "__cls__"
_BOOLS = dict.fromkeys(["true", "yes", "y", "on", "1"], True) | dict.fromkeys(["false", "no", "n", "off", "0"], False)
_NONE = {"none", "null"}
_DOTTED = {".inf": "inf", "+.inf": "inf", "-.inf": "-inf", ".nan": "nan"}  # as YAML writes them
# Another base in YAML 1.1, and in C.
_LEADING_ZERO = re.compile(r"[+-]?0[0-9_]")


class Words(list[str]):
    """Words after a flag; empty for a bare flag."""


class Text(Words):
    """Words that a Python program gives as one text: a list is split as a shell does, a scalar is the whole text."""

    def __init__(self, text: str) -> None:
        try:
            super().__init__(shlex.split(text))
        except ValueError:  # a quote without its end
            super().__init__([text])
        self.text = text

    def replaced(self, function: Callable[[str], str]) -> Text:
        """Return a copy with other text in each word, which may hold blanks."""
        copied = Text("")
        copied.text = function(self.text)
        copied.extend(map(function, self))
        return copied


class Word(str):
    """One of these words, or a value without quotes in YAML: text that is parsed as the declared type."""

    __slots__ = ()


def is_own_default(field: dataclasses.Field[Any], encoded: Any) -> bool:
    """Return True for the default that a class gives to a field, which need not fit the type: `x: int = False`."""
    with contextlib.suppress(TypeError):
        return same(encode(field_default(field)), encoded)
    return False


def encode(value: Any, directory: Path | None = None, place: str = "params") -> Any:
    """Return a node or value as JSON has it: dicts, lists, numbers, strings, booleans, None.

    Args:
        value: a node, or anything that a field may hold.
        directory: of the file that will hold the result; resources below it are written relative to it.
        place: dotted path, for messages.

    Raises:
        TypeError: a value that params cannot store.
    """
    if is_node(value):
        encoded = {CLASS_KEY: class_name(type(value))}
        for field in node_fields(value):
            if field.metadata.get("is_stored", True):
                encoded[field.name] = encode(getattr(value, field.name), directory, f"{place}.{field.name}")
        return encoded
    if isinstance(value, Mapping):
        return {encode_key(key, place): encode(item, directory, f"{place}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item, directory, f"{place}.{index}") for index, item in enumerate(value)]
    if isinstance(value, set | frozenset):
        # Sorted, so that equal params give equal files.
        items = [encode(item, directory, place) for item in value]
        return sorted(items, key=lambda item: (str(type(item)), item))
    if isinstance(value, types.NamedObject):
        return encode(value.stored(), directory, place)
    cls: Any = type(value)
    kind = kind_of(cls)
    if kind is None:
        raise TypeError(
            f"{place} is a {cls.__module__}.{cls.__qualname__}, which params cannot store: "
            "use numbers, strings, enums, paths, lists, dicts or dataclasses"
        )
    return kind.encode(value, directory)


def encode_key(key: Any, place: str) -> str:
    """Return a key of a dict as a string, as JSON requires; a `TypeError` unless it is a string or a number."""
    plain = encode(key, None, place)
    if plain is None or isinstance(plain, list | dict):
        raise TypeError(f"{place}: key {shorten(key)} cannot be stored, expected a string or a number")
    return plain if isinstance(plain, str) else repr(plain)


def value_text(value: Any) -> str:
    """Return a plain value as it is written on a command line.

    Args:
        value: of a kind of `KINDS`, or a list or dict of those.

    Raises:
        TypeError: if it is none of them.
    """
    if isinstance(value, list | tuple):
        return shlex.join(map(_word, value))
    if isinstance(value, Mapping):
        return shlex.join(f"{key}={_word(item)}" for key, item in value.items())
    return _word(value)


def _word(value: Any) -> str:
    cls: Any = type(value)
    kind = kind_of(cls)
    if kind is None:
        raise TypeError(f"expected text, a number, or a list or dict of them, got {shorten(value)}")
    return str(kind.encode(value, None))


def parse_argument(value: Any, place: str) -> Any:
    """Return the value of an argument of an object: as of a field of any type; several words are a list.

    Args:
        value: the words of a user, or what a file has.
        place: flag or dotted path, for messages.

    Raises:
        UsageError: it is not a number, text, bool, None, or list of these.
    """
    if isinstance(value, Words):
        if not value:
            return True
        value = Word(value[0]) if len(value) == 1 else list(map(Word, value))
    if isinstance(value, str):
        value = json_of(Word(value), list, place) if value.startswith("[") else Word(value)
    return types.plain_argument(plain_of(value), place)


@dataclasses.dataclass(frozen=True)
class Decoder:
    """Decoder of one file, dict or command line.

    Args:
        trusted: what may be named, besides the classes of `tfaip` and of the packages of declared types; None: the user
            has typed the values, which may name anything.
        directory: that of the file; its resources are relative to it.
        reads_text: a text in quotes, or of JSON, is as good as one without, for any type.
        imports: functions must exist.
    """

    trusted: Trust | None = Trust()
    directory: Path | None = None
    reads_text: bool = False
    imports: bool = False

    def decode(self, value: Any, declared: Any, place: str) -> Any:
        """Return a value of the declared type.

        Args:
            value: what JSON holds, or `Words`, or a `Word`.
            declared: the resolved type of the field.
            place: dotted path or flag, for messages.

        Raises:
            UsageError: value and type do not agree, an unknown key, a class that is not allowed.
        """
        declared = types.strip(declared)
        if types.is_union(declared):
            return self._decode_union(value, declared, place)
        if declared in (Any, object):
            if isinstance(value, Mapping) and CLASS_KEY in value:
                return self._decode_node(value, object, place)
            is_list = isinstance(value, list | tuple) and not isinstance(value, Words)
            declared = dict[Any, Any] if isinstance(value, Mapping) else list[Any] if is_list else Any
        origin = types.origin_of(declared)
        is_container = origin in types.SEQUENCE_TYPES or origin in types.DICT_TYPES
        kind = kind_of(declared)
        if self.reads_text and type(value) is str and (is_container or (kind is not None and not kind.is_text)):
            value = Words([value])
        if isinstance(value, Words):
            if origin in types.DICT_TYPES:
                value = pairs(value, place)
            else:
                value = list(map(Word, value)) if is_container else only_word(value, declared, place)
        if isinstance(value, Word) and (is_container or types.is_node_type(declared)):
            # Escapes of JSON hide names from a check of the text, as of overrides that a file holds.
            strict = dataclasses.replace(self, trusted=self.trusted or Trust())
            return strict.decode(json_of(value, declared, place), declared, place)
        if declared is Any:
            _check_number(value, place)
            return parse_any(value, place) if isinstance(value, Word) else value
        if types.is_node_type(declared):
            return self._decode_node(value, declared, place)
        if origin in types.SEQUENCE_TYPES:
            return self._decode_sequence(value, declared, place)
        if origin in types.DICT_TYPES:
            return self._decode_dict(value, declared, place)
        if types.is_subclass(declared, types.NamedObject):
            name, arguments = types.parts_of(plain_of(value) if isinstance(value, Mapping) else value, place)
            return declared(types.checked_name(name, self.trusted, place), **arguments)
        return self._decode_scalar(value, declared, place)

    def _decode_union(self, value: Any, declared: Any, place: str) -> Any:
        members, optional = types.members_of(declared)
        if optional and is_none(value):
            word = value[0] if isinstance(value, Words) else value
            choices = [choice for member in members for choice in choices_of(word, member)]
            return choices[0] if choices else None
        reason: UsageError | None = None
        for member in sorted(members, key=lambda member: distance(value, member)):
            try:
                return self.decode(value, member, place)
            except UntrustedName:
                raise  # not to be taken for a value of another member
            except UsageError as error:
                # It says more than "expected a str": of the only member, of params, of a function that a file names.
                is_params = isinstance(value, Mapping) and types.is_node_type(member)
                if len(members) == 1 or is_params or (member is types.FunctionName and type(value) is str):
                    reason = error
        if optional and self.reads_text and type(value) is str and is_none(Word(value)):
            return None  # in quotes, where no text is meant
        raise reason or mismatch(value, declared, place)

    def _decode_node(self, value: Any, declared: Any, place: str) -> Any:
        """Return the params that a mapping holds; `__post_init__` is left to the caller."""
        if not isinstance(value, Mapping):
            raise mismatch(value, declared, place)
        cls = getattr(types.origin_of(declared), "__default_choice__", declared)
        if CLASS_KEY in value:
            chosen = self._chosen_class(value[CLASS_KEY], declared, place)
            cls = declared if chosen is types.origin_of(declared) else chosen  # with its type arguments
        origin, types_of = types.origin_of(cls), types.field_types(cls)
        if inspect.isabstract(origin):
            raise UsageError(f"{place} needs a class: name it with {CLASS_KEY}")
        # The code of the package that declares the field runs already.
        inner = dataclasses.replace(self, trusted=self.trusted and self.trusted.and_code_of(declared))
        given = by_present_name(origin, {key: item for key, item in value.items() if key != CLASS_KEY}, place)
        known = [field.name for field in node_fields(origin)]
        for name, (key, _) in given.items():
            if name not in known:
                self._unknown(origin, str(key), known, place)
        decoded = {}
        for field in node_fields(origin):
            if field.name in given:
                key, item = given[field.name]
                where = f"{place}.{key}"
                decoded[field.name] = inner.decode_field(item, types_of[field.name], field, origin, where)
            elif field.init and not has_default(field):
                raise UsageError(f"{place}.{field.name}: {origin.__name__} needs this value")
        return make_node(origin, decoded)

    def _chosen_class(self, name: Any, declared: Any, place: str) -> type:
        return find_class(name, declared, self.trusted, place)

    def _unknown(self, cls: type, key: str, known: Sequence[str], place: str) -> None:
        """Raise for a key that is no field, but a removed one; else training would differ from what the file says."""
        if key not in removed_fields(cls):
            raise UsageError(f"{place}: {cls.__name__} has no {shorten(key)}{did_you_mean(key, known)}")

    def finish(self, params: Any, source: str) -> None:
        """Check params that were read from a file, or another source that messages name."""
        post_init(params, "params")

    def decode_field(self, value: Any, declared: Any, field: dataclasses.Field[Any], owner: type, place: str) -> Any:
        """Return the value of a field of a class; its own default need not fit the type."""
        try:
            return self.decode(value, declared, place)
        except UsageError:
            if is_own_default(field, value):
                return field_default(field)
            raise

    def _decode_sequence(self, value: Any, declared: Any, place: str) -> Any:
        if not isinstance(value, list | tuple):
            raise mismatch(value, declared, place)
        origin, arguments = types.origin_of(declared), get_args(declared)
        if origin is not tuple or not arguments or arguments[-1] is Ellipsis:
            arguments = (arguments[0] if arguments else Any,) * len(value)
        elif len(value) != len(arguments):
            given = f"{len(value)}: {shorten_text(' '.join(map(str, value)))}"
            raise UsageError(f"{place}: expected {len(arguments)} values, got {given}")
        items = []
        for index, (item, argument) in enumerate(zip(value, arguments, strict=True)):
            items.append(self.decode(item, argument, f"{place}.{index}"))
        return items if origin in types.LIST_TYPES else origin(items)

    def _decode_dict(self, value: Any, declared: Any, place: str) -> Any:
        if not isinstance(value, Mapping):
            raise mismatch(value, declared, place)
        key_type, item_type = get_args(declared) or (Any, Any)
        # JSON knows only strings as keys.
        is_number = types.is_subclass(types.strip(key_type), int | float)
        found: dict[Any, Any] = {}
        for key, item in value.items():
            item_place = f"{place}.{shorten_text(str(key))}"
            decoded = self.decode(Word(key) if is_number and isinstance(key, str) else key, key_type, item_place)
            if decoded in found:  # as 0 and 0.0
                raise UsageError(f"{place}: key {shorten(decoded)} is given twice")
            found[decoded] = self.decode(item, item_type, item_place)
        return found

    def _decode_scalar(self, value: Any, declared: Any, place: str) -> Any:
        for choice in choices_of(value, declared):
            return choice
        kind = kind_of(declared)
        if kind is None:
            raise mismatch(value, declared, place)
        try:
            return kind.decode(self, value, declared, place)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            if isinstance(error, UsageError):
                raise
            raise mismatch(value, declared, place) from None


def pairs(words: Words, flag: str, needs_value: bool = True) -> dict[Word, Word]:
    """Return the keys and values of words `key=value`, or `key`."""
    found: dict[Word, Word] = {}
    for word in words:
        key, equals, item = word.partition("=")
        if needs_value and not equals:
            raise UsageError(f"{flag}: expected key=value, got {shorten(word)}")
        if key in found:
            raise UsageError(f"{flag}: key {shorten(key)} is given twice")
        found[Word(key)] = Word(item)
    return found


def only_word(words: Words, declared: Any, flag: str) -> Any:
    """Return the word of a scalar; a bare flag of a bool means True."""
    if isinstance(words, Text):
        return Word(words.text)
    if declared is bool and not words:
        return True
    if not words:
        raise UsageError(f"{flag} needs a value: expected {types.expected(declared)}")
    if len(words) > 1:
        raise UsageError(f"{flag} takes one value, got {len(words)}: {shorten_text(' '.join(words))}")
    return Word(words[0])


def choices_of(value: Any, declared: Any) -> list[Any]:
    """Return the choices of a type, a `Literal` or an enum, that a word or plain value means exactly."""
    choices = named_choices(declared)
    if types.is_subclass(declared, Enum):
        choices += [(member.name, member) for member in declared]
    if isinstance(value, Word):
        return [choice for name, choice in choices if str(name) == value]
    # 1 == True == 1.0
    return [choice for name, choice in choices if type(name) is type(value) and name == value]


def named_choices(declared: Any) -> list[tuple[Any, Any]]:
    """Return the choices of a `Literal`, an enum or a bool, each with its plain value."""
    if declared is bool:
        return [(True, True), (False, False)]
    if get_origin(declared) is Literal:
        return [(choice, choice) for choice in get_args(declared)]
    return [(encode(member.value), member) for member in declared] if types.is_subclass(declared, Enum) else []


def parse_any(word: Word, flag: str, numbers: Sequence[Callable[[str], Any]] = (int, float)) -> Any:
    """Return what a word means for a field of any type: None, a number, True, False, or the text."""
    if is_none(word):
        return None
    text = word.strip().lower()
    for number in () if _LEADING_ZERO.match(text) else numbers:
        try:
            value = number(_DOTTED.get(text, text))
        except ValueError:
            continue
        _check_number(value, flag)
        if isinstance(value, float) and math.isinf(value) and "inf" not in text:
            raise UsageError(f"{flag}: {shorten_text(word)} is too large for a float")
        return value
    return {"true": True, "false": False}.get(word.lower(), str(word))


def plain_of(value: Any) -> Any:
    """Return a value of a file without `Word`: as of a field of any type."""
    if isinstance(value, Word):
        return parse_any(value, "value")
    if isinstance(value, Mapping):
        return {key: plain_of(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_of(item) for item in value]
    return value


def json_of(word: Word, declared: Any, flag: str) -> Any:
    """Return the value of a word that is JSON."""
    try:
        return json.loads(word)
    except (RecursionError, ValueError):
        raise mismatch(word, declared, flag) from None


def _check_number(value: Any, place: str) -> None:
    # More bits fit neither into the arrays nor into the files that params end up in.
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise UsageError(f"{place}: expected an int of at most 64 bits, got {shorten(value)}")


def is_other_word(text: str) -> bool:
    """Return True for a word that means a boolean, None or a number to a type, here or in YAML 1.1."""
    return text.lower() in _BOOLS or not isinstance(parse_any(Word(text), "value"), str)


def is_none(value: Any) -> bool:
    """Return True for None, and for a word that means it."""
    if isinstance(value, Words):
        return len(value) == 1 and value[0].lower() in _NONE
    return value is None or (isinstance(value, Word) and value.lower() in _NONE)


def distance(value: Any, member: Any) -> int:
    """Return how far a member of a union is from the type of a value; 0: it is this type."""
    if isinstance(value, Words | Word):
        # In the order of the union; but any word can be meant for the name of a function.
        return int(member is types.FunctionName)
    # 3 is an int before it is a float, and a float before it is a bool, whatever the order of the union.
    return 0 if type(value) is member else 1 + (member is bool)


def mismatch(value: Any, declared: Any, place: str) -> UsageError:
    """Return the error of a value that does not have the declared type."""
    shown = " ".join(value) if isinstance(value, Words) else value
    return UsageError(f"{place}: expected {shorten_text(types.expected(declared), 120)}, got {shorten(shown)}")


# --- Kinds of single values


class Kind(NamedTuple):
    """Kind of single values: a row of `KINDS`.

    Args:
        encode: returns a value as JSON has it, in a file of some directory.
        decode: returns the value of a declared type for a `Word`, or for what JSON has, at a place; an arithmetic,
            look-up, type or value error means that it does not fit.
        is_text: JSON has the values as texts.
    """

    encode: Callable[[Any, Path | None], Any]
    decode: Callable[[Decoder, Any, Any, str], Any]
    is_text: bool = True


def _number(_: Decoder, value: Any, declared: Any, place: str) -> Any:
    if isinstance(value, Word):
        if _LEADING_ZERO.match(value):
            wanted = types.expected(declared)
            raise UsageError(f"{place}: expected {wanted} without leading zeros, got {shorten(value)}")
        value = parse_any(value, place, [declared])
    if type(value) not in (int, float) or (not issubclass(declared, float) and value % 1 != 0):
        raise ValueError(value)
    number = declared(value)
    _check_number(number, place)
    return number


def _bool(_: Decoder, value: Any, __: Any, ___: str) -> bool:
    if isinstance(value, Word):
        return _BOOLS[value.lower()]
    if type(value) not in (bool, int) or value not in (0, 1):
        raise ValueError(value)
    return bool(value)


def _none(_: Decoder, value: Any, __: Any, ___: str) -> None:
    if not is_none(value):
        raise ValueError(value)


def _text(decoder: Decoder, value: Any, declared: Any, _: str) -> Any:
    if not isinstance(value, str):
        raise ValueError(value)
    # Shells replace `~/` at the beginning of a word only.
    is_home = value.startswith("~/") and (isinstance(value, Word) or decoder.reads_text)
    return declared(os.path.expanduser(value) if is_home else str(value))


def _path(decoder: Decoder, value: Any, declared: Any, place: str) -> Any:
    text = _text(decoder, value, str, place)
    if "\0" in text:
        raise ValueError(text)
    return declared.loaded(text, decoder.directory, place) if issubclass(declared, Resource) else declared(text)


def _function(decoder: Decoder, value: Any, declared: Any, place: str) -> Any:
    name = _text(decoder, value, declared, place)
    # "" is the placeholder of a function that is still to be named.
    if name and decoder.imports:
        types.load_function(name, place)
    if name and decoder.trusted is not None:
        check_function(name, decoder.trusted, place)
    return name


def _field_text(decoder: Decoder, value: Any, declared: Any, place: str) -> Any:
    text = _text(decoder, value if isinstance(value, str) else value_text(value), declared, place)
    if decoder.trusted is not None:
        check_text(text, decoder.trusted, place)
    return text


# Type of values, or base of it -> all that is special about them; the first that fits counts.
KINDS: dict[type, Kind] = {
    Enum: Kind(lambda value, directory: encode(value.value, directory), lambda _, value, declared, __: declared(value)),
    types.FunctionName: Kind(lambda value, _: value, _function),
    types.FieldText: Kind(lambda value, _: value, _field_text),
    str: Kind(lambda value, _: value, _text),
    type(None): Kind(lambda value, _: value, _none, False),
    bool: Kind(lambda value, _: value, _bool, False),
    Integral: Kind(lambda value, _: int(value), _number, False),  # also those of NumPy
    Real: Kind(lambda value, _: float(value), _number, False),
    Resource: Kind(lambda value, directory: value.stored(directory), _path),
    PurePath: Kind(lambda value, _: str(value), _path),
}


@cache
def kind_of(declared: Any) -> Kind | None:
    """Return the kind of values of a type; None if there is none."""
    return next((kind for base, kind in KINDS.items() if types.is_subclass(declared, base)), None)
