"""The words of a command line: split into flags, before anything is known about params."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tfaip.errors import UsageError
from tfaip.params.codec import Words
from tfaip.util.text import refuse_nul, shorten, shorten_text

_FLAG = re.compile(r"--[A-Za-z_]")
# -inf, -infinity and -nan are values.
_DASH_WORD = re.compile(r"-[A-Za-z](?!nf$|nfinity$|an$)")


def is_flag_word(word: str) -> bool:
    """Return True for a word that begins a flag."""
    return _FLAG.match(word) is not None


def is_value_word(word: str) -> bool:
    """Return True for a word that can be a value."""
    return not is_flag_word(word) and _DASH_WORD.match(word) is None


def split_arguments(
    argv: Sequence[str], repeatable: Sequence[str] = (), short: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Words]:
    """Return flags without their dashes, each with the words after it.

    Args:
        argv: as typed, without the program.
        repeatable: flags that may be given several times; their words are joined.
        short: short forms with their dash, and the flags they mean.

    Raises:
        UsageError: a word before the first flag, a flag given twice, or a word with one dash.
    """
    found: dict[str, Words] = {}
    current: Words | None = None
    takes_dashes = False  # after --flag=-a further words of the list may begin with a dash, too
    refuse_nul(argv)
    for word in argv:
        if word in short:
            word = f"--{short[word]}"
        shown = shorten_text(word)
        if _DASH_WORD.match(word) and not takes_dashes:
            raise UsageError(f"unknown flag {shown}: flags begin with --; a value is written --flag={shown}")
        if _FLAG.match(word):
            flag, has_value, value = word[2:].partition("=")
            takes_dashes = _DASH_WORD.match(value) is not None
            if flag in found and flag not in repeatable:
                raise UsageError(f"--{shorten_text(flag)} is given twice: give it once")
            current = found.setdefault(flag, Words())
            if has_value:
                current.append(value)
        elif current is None:
            raise UsageError(f"unexpected argument {shorten(word)}: a value follows its flag, as in --flag value")
        else:
            current.append(word)
    return found
