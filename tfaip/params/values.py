"""From the words behind a flag to a value of the declared type."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import PurePath
from typing import Any, Literal, get_args, get_origin

from tfaip.errors import UsageError
from tfaip.params.decoding import (
    DICT_TYPES,
    LIST_TYPES,
    SET_TYPES,
    Decoder,
    check_number,
    is_union,
    strip,
    type_name,
)
from tfaip.params.functions import FunctionName
from tfaip.params.resource import Resource
from tfaip.util.text import shorten, shorten_text

_TRUE = {"true", "yes", "y", "on", "1"}
_FALSE = {"false", "no", "n", "off", "0"}
_NONE = {"none", "null"}


def parse_words(words: Sequence[str], declared: Any, flag: str) -> Any:
    """A value of the declared type.

    Args:
        words: what stands behind the flag; one word for a scalar, any number for a list, `key=value` for a dict,
            none for a bare bool. A word for what cannot be written otherwise (a list of lists) is JSON.
        declared: the resolved type.
        flag: for messages, with dashes.

    Raises:
        UsageError: the words do not fit.
    """
    declared = strip(declared)
    _require_text(words, flag)
    if is_union(declared):
        return _parse_union(words, declared, flag)
    origin = get_origin(declared) or declared
    if origin in LIST_TYPES or origin in SET_TYPES or origin is tuple:
        return _parse_sequence(words, declared, flag)
    if origin in DICT_TYPES:
        return _parse_dict(words, declared, flag)
    if declared is bool and not words:
        return True
    if not words:
        raise UsageError(f"{flag} needs a value: expected {expected(declared)}")
    if len(words) > 1:
        raise UsageError(f"{flag} takes one value, got {len(words)}: {shorten_text(' '.join(words))}")
    return _parse_word(words[0], declared, flag)


def _require_text(words: Sequence[str], flag: str) -> None:
    """Raise unless all words can be stored, as params are with each run."""
    for word in words:
        if "\0" in word or any("\ud800" <= character <= "\udfff" for character in word):
            raise UsageError(f"{flag}: {shorten(word)} holds NUL or is no UTF-8, which cannot be stored")


def expected(declared: Any) -> str:
    """The type in words that a user reads: a name, or the choices."""
    if declared in (bool, Any):
        return {bool: "True or False", Any: "a value"}[declared]
    return type_name(declared)


def _parse_union(words: Sequence[str], declared: Any, flag: str) -> Any:
    members = get_args(declared)
    if type(None) in members and len(words) == 1 and words[0].lower() in _NONE:
        return None
    # Any word can be meant for the name of a function.
    members = tuple(sorted((m for m in members if m is not type(None)), key=lambda member: member is FunctionName))
    for member in members:
        try:
            return parse_words(words, member, flag)
        except UsageError:
            # With one member left its own message is the best one.
            if len(members) == 1:
                raise
    raise _mismatch(" ".join(words), declared, flag)


def _parse_sequence(words: Sequence[str], declared: Any, flag: str) -> Any:
    origin, arguments = get_origin(declared) or declared, get_args(declared)
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        if len(words) != len(arguments):
            raise UsageError(f"{flag} takes {len(arguments)} values, got {len(words)}: {shorten_text(' '.join(words))}")
    else:
        arguments = (arguments[0] if arguments else Any,) * len(words)
    items = [_parse_word(word, strip(a), flag) for word, a in zip(words, arguments, strict=True)]
    return items if origin in LIST_TYPES else origin(items)


def _parse_dict(words: Sequence[str], declared: Any, flag: str) -> Any:
    key_type, item_type = get_args(declared) or (str, Any)
    found: dict[Any, Any] = {}
    for word in words:
        key_text, equals, text = word.partition("=")
        if not equals:
            raise UsageError(f"{flag}: expected key=value, got {shorten(word)}")
        key = _parse_word(key_text, strip(key_type), flag)
        if key in found:
            raise UsageError(f"{flag}: key {shorten(key_text)} is given twice")
        found[key] = _parse_word(text, strip(item_type), f"{flag} {shorten_text(key_text)}")
    return found


def _parse_word(word: str, declared: Any, flag: str) -> Any:
    if is_union(declared):
        return _parse_union([word], declared, flag)
    if declared is Any or declared is object:
        return _parse_any(word, flag)
    if declared is bool:
        return _parse_bool(word, flag)
    if declared is str:
        return word
    if declared in (int, float):
        return _parse_number(word, declared, flag)
    if get_origin(declared) is Literal:
        return _pick({str(choice): choice for choice in get_args(declared)}, word, declared, flag)
    if isinstance(declared, type) and issubclass(declared, Enum):
        by_name = {member.name: member for member in declared}
        return _pick({**by_name, **{str(member.value): member for member in declared}}, word, declared, flag)
    if isinstance(declared, type) and issubclass(declared, PurePath | Resource | FunctionName):
        return declared(word)
    return _parse_json(word, declared, flag)


def _parse_number(word: str, declared: Any, flag: str) -> Any:
    number = _convert(word, declared, declared, flag)
    check_number(number, flag)
    if isinstance(number, float) and math.isinf(number) and "inf" not in word.lower():
        raise UsageError(f"{flag}: {shorten_text(word)} is too large for a float")
    return number


def _parse_any(word: str, flag: str) -> Any:
    if word.lower() in _NONE:
        return None
    for number in (int, float):
        with contextlib.suppress(ValueError):
            number(word)
            return _parse_number(word, number, flag)
    return {"true": True, "false": False}.get(word.lower(), word)


def _parse_bool(word: str, flag: str) -> bool:
    if word.lower() in _TRUE | _FALSE:
        return word.lower() in _TRUE
    raise _mismatch(word, bool, flag)


def _parse_json(word: str, declared: Any, flag: str) -> Any:
    value = _convert(word, json.loads, declared, flag)
    return Decoder().decode(value, declared, flag)


def _convert(word: str, function: Callable[[str], Any], declared: Any, flag: str) -> Any:
    try:
        return function(word)
    except ValueError:
        raise _mismatch(word, declared, flag) from None
    except RecursionError:
        raise UsageError(f"{flag}: the value is nested too deeply") from None


def _pick(choices: dict[str, Any], word: str, declared: Any, flag: str) -> Any:
    if word not in choices:
        raise _mismatch(word, declared, flag)
    return choices[word]


def _mismatch(word: str, declared: Any, flag: str) -> UsageError:
    return UsageError(f"{flag}: expected {shorten_text(expected(declared), 120)}, got {shorten(word)}")
