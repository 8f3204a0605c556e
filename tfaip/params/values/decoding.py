"""From the text of a command line, or the plain values of JSON, to values of the declared types.

Both take the same way down through unions, lists and dicts; they differ at the leaves only. Text
(`Words`, `Word`) is parsed. A value of JSON must have the declared type, or be converted to it
without loss.

No library does this part, as 40 kinds of values have shown: cattrs converts with loss (1.5 to an int,
True to a float); msgspec and pydantic, both strict, refuse 4.0 as an int and names of enums, msgspec
also unions of several kinds of text. With a hook for every leaf, and messages of our own, only the
loops over containers would be left to them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, Literal, get_args, get_origin

from tfaip.errors import UsageError
from tfaip.params.generics import field_types
from tfaip.params.limits import FieldError
from tfaip.params.names import oldnames, suggestions
from tfaip.params.names.textnames import check_text
from tfaip.params.names.trust import Trust, UntrustedName, check_function, find_class
from tfaip.params.resource import Resource
from tfaip.params.tree.nodes import has_default, node_fields
from tfaip.params.types import (
    DICT_TYPES,
    LIST_TYPES,
    SEQUENCE_TYPES,
    FieldText,
    FunctionName,
    NamedObject,
    checked_name,
    is_node_type,
    is_subclass,
    is_union,
    members_of,
    origin_of,
    parts_of,
    plain_argument,
    strip,
)
from tfaip.params.values.encoding import CLASS_KEY, encode
from tfaip.params.values.jsonoptions import decode_with, options_of
from tfaip.params.values.scalars import (
    distance,
    former_member,
    is_none,
    mismatch,
    only_word,
    parse_any,
    parse_json,
    parse_word,
    plain,
    same,
)
from tfaip.params.values.words import Word, Words
from tfaip.util.text import ERROR_LIMIT, shorten, shorten_text


def parse_words(words: Sequence[str], declared: Any, flag: str) -> Any:
    """Return the value that the words after a flag mean.

    Args:
        words: one word for a scalar, any number for a list, `key=value` for a dict, none for a bare
            bool. A word for what cannot be written otherwise (a list of lists) is JSON.
        declared: the resolved type.
        flag: for messages, with dashes.

    Raises:
        UsageError: the words do not fit.
    """
    for word in words:
        if "\0" in word or any("\ud800" <= character <= "\udfff" for character in word):
            raise UsageError(f"{flag}: {shorten(word)} holds NUL or is no UTF-8, which cannot be stored")
    return Decoder().decode(words if isinstance(words, Words) else Words(words), declared, flag)


def parse_argument(words: Words, flag: str) -> Any:
    """Return the value of an argument of an object: as of a field of any type; several words are a list.

    Raises:
        UsageError: the words do not fit.
    """
    if not words:
        return True
    if len(words) == 1 and words[0].startswith("["):
        return plain_argument(Decoder().decode(Word(words[0]), list[Any], flag), flag)
    return parse_words(words, Any if len(words) == 1 else list[Any], flag)


def build(cls: Any, values: Mapping[str, Any], place: str) -> Any:
    """Construct a node; fields that its constructor does not take are set afterwards.

    Raises:
        UsageError: its constructor or `__post_init__` refuses the values.
    """
    origin = origin_of(cls)
    later = [field.name for field in dataclasses.fields(origin) if not field.init and field.name in values]
    try:
        node = origin(**{name: value for name, value in values.items() if name not in later})
        for name in later:
            setattr(node, name, values[name])
    except FieldError as error:  # short by itself
        raise UsageError(f"{place}: {error}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{place}: {shorten_text(str(error), ERROR_LIMIT)}") from error
    return node


@dataclasses.dataclass(frozen=True)
class Decoder:
    """Decoder of one file, dict or command line.

    Args:
        trusted: what may be named, besides the classes of `tfaip` and of the packages of declared types.
        directory: that of the file; its resources are relative to it.
    """

    trusted: Trust = Trust()
    directory: Path | None = None

    def decode(self, value: Any, declared: Any, place: str) -> Any:
        """Return a value of the declared type.

        Args:
            value: what JSON holds, or `Words`, or a `Word`.
            declared: the resolved type of the field.
            place: dotted path or flag, for messages.

        Raises:
            UsageError: value and type do not agree, an unknown key, a class that is not allowed.
        """
        declared = strip(declared)
        if is_union(declared):
            return self._decode_union(value, declared, place)
        origin = origin_of(declared)
        is_container = origin in SEQUENCE_TYPES or origin in DICT_TYPES
        if isinstance(value, Words) and not is_container:
            value = only_word(value, declared, place)
        if isinstance(value, Word) and (is_container or is_node_type(declared)):
            value = parse_json(value, declared, place)
        if declared is Any or declared is object:
            return self._decode_any(value, place)
        if is_node_type(declared):
            return self._decode_node(value, declared, place)
        if origin in SEQUENCE_TYPES:
            return self._decode_sequence(value, declared, place)
        if origin in DICT_TYPES:
            return self._decode_dict(value, declared, place)
        if is_subclass(declared, NamedObject):
            return self._decode_object(value, declared, place)
        if isinstance(value, Word):
            return parse_word(value, declared, place)
        return self._decode_scalar(value, declared, place)

    def _decode_any(self, value: Any, place: str) -> Any:
        if isinstance(value, Word):
            return parse_any(value, place)
        if isinstance(value, Mapping):
            if CLASS_KEY in value:
                return self._decode_node(value, object, place)
            return {key: self._decode_any(item, f"{place}.{key}") for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._decode_any(item, f"{place}.{index}") for index, item in enumerate(value)]
        return value

    def _decode_union(self, value: Any, declared: Any, place: str) -> Any:
        members, optional = members_of(declared)
        if optional and is_none(value):
            return None
        failure: UsageError | None = None
        for member in sorted(members, key=lambda member: distance(value, member)):
            try:
                return self.decode(value, member, place)
            except UntrustedName:
                raise  # not to be taken for a value of another member
            except UsageError as error:
                # Of several reasons the one about a class or a function says more than "expected a
                # str".
                if failure is None or is_node_type(member) or member is FunctionName:
                    failure = error
        is_text = isinstance(value, Words | Word)
        is_name = isinstance(value, str) and not is_text and FunctionName in members
        if failure is not None and (len(members) == 1 or isinstance(value, Mapping) or is_name):
            raise failure
        raise mismatch(value, declared, place)

    def _decode_node(self, value: Any, declared: Any, place: str) -> Any:
        if not isinstance(value, Mapping):
            raise mismatch(value, declared, place)
        cls = declared
        if CLASS_KEY in value:
            found = self._find_class(value[CLASS_KEY], declared, place)
            if found is not origin_of(declared):  # otherwise with its type arguments
                cls = found
        # The code of this package runs already: fields below may name more of its classes.
        inner = dataclasses.replace(self, trusted=self.trusted.and_code_of(declared))
        types_of = field_types(cls)
        origin = origin_of(cls)
        options = options_of(origin)
        values = self._current_values(origin, _by_field(origin, value), types_of, place)
        decoded = {}
        for key, item in values.items():
            option = options[key]
            found = inner._decode_field(item, types_of[key], option.decoder, f"{place}.{option.name}", origin)
            if found is not dataclasses.MISSING:
                decoded[key] = found
        required = [field.name for field in node_fields(origin) if field.init and not has_default(field)]
        missing = [name for name in required if name not in decoded]
        if missing:
            raise UsageError(f"{place}: {origin.__name__} needs a value for {', '.join(missing)}")
        return self._build(cls, decoded, place)

    def _current_values(
        self, cls: Any, values: dict[str, Any], types_of: Mapping[str, Any], place: str
    ) -> dict[str, Any]:
        """Return the values of a node by the present names of its fields, without those of removed ones.

        Raises:
            UsageError: if there is no such field: ignoring it would train with another value than the file says.
        """
        removed = oldnames.removed_fields(cls)
        values = {key: item for key, item in values.items() if key not in removed}
        try:
            current = oldnames.current_names(cls, values)
        except TypeError as error:
            raise UsageError(f"{place}: {error}") from error
        for key in current:
            if key not in types_of:
                hint = suggestions.did_you_mean(str(key), [options.name for options in options_of(cls).values()])
                raise UsageError(f"{place}: {cls.__name__} has no {shorten(key)}{hint}")
        return current

    def _decode_field(
        self, item: Any, declared: Any, decoder: Callable[[Any], Any] | None, place: str, owner: type
    ) -> Any:
        """Return the value of a field of the class `owner`; `MISSING` if it takes its default."""
        if decoder is None:
            return self.decode(item, declared, place)
        return decode_with(decoder, item, place)

    def _build(self, cls: Any, values: dict[str, Any], place: str) -> Any:
        return build(cls, values, place)

    def _decode_sequence(self, value: Any, declared: Any, place: str) -> Any:
        if not isinstance(value, list | tuple):
            raise mismatch(value, declared, place)
        origin, arguments = origin_of(declared), get_args(declared)
        if origin is not tuple or not arguments or arguments[-1] is Ellipsis:
            arguments = (arguments[0] if arguments else Any,) * len(value)
        elif len(value) != len(arguments):
            if isinstance(value, Words):
                given = shorten_text(" ".join(value))
                raise UsageError(f"{place} takes {len(arguments)} values, got {len(value)}: {given}")
            raise UsageError(f"{place}: expected {len(arguments)} values, got {len(value)}")
        items = []
        for index, (item, argument) in enumerate(zip(value, arguments, strict=True)):
            if isinstance(value, Words):
                items.append(self.decode(Word(item), argument, place))
            else:
                items.append(self.decode(item, argument, f"{place}.{index}"))
        return items if origin in LIST_TYPES else origin(items)

    def _decode_dict(self, value: Any, declared: Any, place: str) -> Any:
        if isinstance(value, Words):
            return self._decode_pairs(value, declared, place)
        if not isinstance(value, Mapping):
            raise mismatch(value, declared, place)
        key_type, item_type = get_args(declared) or (Any, Any)
        found = {}
        for key, item in value.items():
            item_place = f"{place}.{key}"
            # JSON knows only strings as keys.
            if isinstance(key, str) and is_subclass(strip(key_type), int | float):
                key = Word(key)
            decoded = self.decode(key, key_type, item_place)
            if decoded in found:  # as 0 and 0.0
                raise UsageError(f"{place}: key {shorten(decoded)} is given twice")
            found[decoded] = self.decode(item, item_type, item_place)
        return found

    def _decode_pairs(self, words: Words, declared: Any, flag: str) -> Any:
        key_type, item_type = get_args(declared) or (str, Any)
        found: dict[Any, Any] = {}
        for word in words:
            key_text, equals, text = word.partition("=")
            if not equals:
                raise UsageError(f"{flag}: expected key=value, got {shorten(word)}")
            key = self.decode(Word(key_text), key_type, flag)
            if key in found:
                raise UsageError(f"{flag}: key {shorten(key_text)} is given twice")
            found[key] = self.decode(Word(text), item_type, f"{flag} {shorten_text(key_text)}")
        return found

    def _decode_object(self, value: Any, declared: Any, place: str) -> Any:
        if isinstance(value, Word):
            return declared(checked_name(value, None, place))
        name, arguments = parts_of(value, place)
        return declared(self._checked_name(name, place), **arguments)

    def _decode_scalar(self, value: Any, declared: Any, place: str) -> Any:
        if get_origin(declared) is Literal:
            for choice in get_args(declared):
                if same(choice, value):
                    return choice
        elif is_subclass(declared, Enum):
            for member in declared:
                if same(encode(member.value), value) or member.name == value:
                    return member
            return former_member(declared, value, place)
        elif declared in (int, float, bool, str, type(None)):
            return plain(value, declared, place)
        elif isinstance(value, str) and is_subclass(declared, PurePath | Resource | FunctionName | FieldText):
            return self._decode_name(value, declared, place)
        raise mismatch(value, declared, place)

    def _decode_name(self, value: str, declared: Any, place: str) -> Any:
        if issubclass(declared, FunctionName):
            if value:  # "" is the placeholder of a function that is still to be named
                self._check_function(value, place)
            return FunctionName(value)
        if issubclass(declared, FieldText):
            self._check_text(value, place)
            return FieldText(value)
        if "\0" in value:
            raise UsageError(f"{place}: the name of a file holds a NUL character: {shorten(value)}")
        if not issubclass(declared, Resource):
            return declared(value)
        try:
            return declared.loaded(value, self.directory)
        except ValueError as error:
            raise UsageError(f"{place}: {error}") from error

    def _find_class(self, name: Any, declared: Any, place: str) -> type:
        return find_class(name, declared, self.trusted, place)

    def _check_function(self, name: str, place: str) -> None:
        check_function(name, self.trusted, place)

    def _checked_name(self, name: str, place: str) -> str:
        return checked_name(name, self.trusted, place)

    def _check_text(self, text: str, place: str) -> None:
        check_text(text, self.trusted, place)


def _by_field(cls: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what JSON holds of a node by the names of its fields, without its class."""
    fields = {options.name: name for name, options in options_of(cls).items()}
    return {fields.get(key, key): item for key, item in values.items() if key != CLASS_KEY}
