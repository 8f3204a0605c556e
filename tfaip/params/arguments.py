"""Splits a command line into flags and their words; knows nothing about params."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tfaip.errors import UsageError
from tfaip.util.text import shorten

# `-1`, `-.5e3` and `-inf` are values; a value that looks like a flag is written `--flag=--value`.
_FLAG = re.compile(r"--[A-Za-z_]")
_DASH_WORD = re.compile(r"-[A-Za-z](?!nf$|an$)")


class Words(list[str]):
    """What stands behind a flag; empty for a bare flag."""


def split_arguments(
    argv: Sequence[str], repeatable: Sequence[str] = (), short: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Words]:
    """Flags without their dashes, and the words behind each.

    Args:
        argv: as typed, without the program.
        repeatable: flags that may come several times; their words are joined.
        short: short forms with their dash, and the flags they stand for.

    Raises:
        UsageError: a word before the first flag, a flag given twice, or a word with one dash.
    """
    found: dict[str, Words] = {}
    current: Words | None = None
    for word in argv:
        if word in short:
            word = f"--{short[word]}"
        if _DASH_WORD.match(word):
            raise UsageError(f"unknown flag {word}: flags begin with --; a value is written --flag={word}")
        if _FLAG.match(word):
            flag, has_value, value = word[2:].partition("=")
            if flag in found and flag not in repeatable:
                raise UsageError(f"--{flag} is given twice: give it once")
            current = found.setdefault(flag, Words())
            if has_value:
                current.append(value)
        elif current is None:
            raise UsageError(f"unexpected argument {shorten(word)}: a value stands behind its flag, as in --flag VALUE")
        else:
            current.append(word)
    return found
