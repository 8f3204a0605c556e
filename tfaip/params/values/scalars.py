"""Single values: parsed from words of a command line, or taken from JSON and converted without loss."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable
from enum import Enum
from pathlib import PurePath
from typing import Any, Literal, get_args, get_origin

from tfaip.errors import UsageError
from tfaip.params.resource import Resource
from tfaip.params.types import FunctionName, expected, is_subclass
from tfaip.params.values.words import Text, Word, Words
from tfaip.util.text import shorten, shorten_text

_TRUE = {"true", "yes", "y", "on", "1"}
_FALSE = {"false", "no", "n", "off", "0"}
_NONE = {"none", "null"}


def only_word(words: Words, declared: Any, flag: str) -> Any:
    """Return the word of a scalar; a bare flag of a bool means True."""
    if isinstance(words, Text):
        return Word(words.text)
    if declared is bool and not words:
        return True
    if not words:
        raise UsageError(f"{flag} needs a value: expected {expected(declared)}")
    if len(words) > 1:
        raise UsageError(f"{flag} takes one value, got {len(words)}: {shorten_text(' '.join(words))}")
    return Word(words[0])


def parse_word(word: Word, declared: Any, flag: str) -> Any:
    """Return the value of a scalar type that a word means."""
    choices: dict[str, Any] = {}
    if declared is bool:
        if word.lower() in _TRUE | _FALSE:
            return word.lower() in _TRUE
    elif get_origin(declared) is Literal:
        choices = {str(choice): choice for choice in get_args(declared)}
    elif is_subclass(declared, Enum):
        choices = {member.name: member for member in declared}
        choices |= {str(member.value): member for member in declared}
        if word not in choices:
            return former_member(declared, str(word), flag)
    elif declared in (int, float):
        return _parse_number(word, declared, flag)
    elif is_subclass(declared, str | PurePath | Resource):
        return declared(word)
    if word not in choices:
        raise mismatch(word, declared, flag)
    return choices[word]


def _parse_number(word: Word, declared: Any, flag: str) -> Any:
    number = _convert(word, declared, declared, flag)
    _check_number(number, flag)
    # float("1e400") is infinite.
    if isinstance(number, float) and math.isinf(number) and "inf" not in word.lower():
        raise UsageError(f"{flag}: {shorten_text(word)} is too large for a float")
    return number


def parse_any(word: Word, flag: str) -> Any:
    """Return what a word means for a field of any type: None, a number, a bool, or the text."""
    if is_none(word):
        return None
    for number in (int, float):
        with contextlib.suppress(ValueError):
            number(word)
            return _parse_number(word, number, flag)
    return {"true": True, "false": False}.get(word.lower(), str(word))


def parse_json(word: Word, declared: Any, flag: str) -> Any:
    """Return the value of a word that is JSON."""
    return _convert(word, json.loads, declared, flag)


def _convert(word: Word, function: Callable[[str], Any], declared: Any, flag: str) -> Any:
    try:
        return function(word)
    except ValueError:
        raise mismatch(word, declared, flag) from None
    except RecursionError:
        raise UsageError(f"{flag}: the value is nested too deeply") from None


def _check_number(value: Any, place: str) -> None:
    # More bits fit neither into the arrays nor into the files that params end up in.
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise UsageError(f"{place}: expected an int of at most 64 bits, got {shorten(value)}")


def plain(value: Any, declared: Any, place: str) -> Any:
    """Return a number, string or None; what the type can hold without loss is converted."""
    if declared is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise mismatch(value, declared, place) from None
    _check_number(value, place)
    if type(value) is declared:
        return value
    if declared is int and type(value) is float and value.is_integer():
        _check_number(int(value), place)
        return int(value)
    if declared is bool and type(value) is int and value in (0, 1):
        return bool(value)
    raise mismatch(value, declared, place)


def former_member(declared: type[Enum], value: Any, place: str) -> Enum:
    """Return the member of an enum that a value of tfaip 1.2 means (`_missing_` of the enum).

    Raises:
        UsageError: if it means none.
    """
    member = declared._missing_(value)
    if member is None:
        raise mismatch(value, declared, place)
    return member


def is_none(value: Any) -> bool:
    """Return True for None, and for a word that means it."""
    if isinstance(value, Words):
        return len(value) == 1 and value[0].lower() in _NONE
    return value is None or (isinstance(value, Word) and value.lower() in _NONE)


def distance(value: Any, member: Any) -> int:
    """Return how far a member of a union is from the type of a value; 0: it is this type."""
    if isinstance(value, Words | Word):
        # In the order of the union; but any word can be meant for the name of a function.
        return int(member is FunctionName)
    if type(value) is member:
        return 0
    # 3 is an int before it is a float, and a float before it is a bool, whatever the order of the
    # union.
    return 1 if type(value) in (int, float) and member in (int, float) else 2


def same(a: Any, b: Any) -> bool:
    """Return True for equal values of the same type."""
    # 1 == True == 1.0
    return type(a) is type(b) and bool(a == b)


def mismatch(value: Any, declared: Any, place: str) -> UsageError:
    """Return the error of a value that does not have the declared type."""
    shown = " ".join(value) if isinstance(value, Words) else value
    return UsageError(f"{place}: expected {shorten_text(expected(declared), 120)}, got {shorten(shown)}")
