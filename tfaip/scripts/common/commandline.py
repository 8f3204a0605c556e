"""Command lines before their flags are known: the argument that decides what flags there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tfaip.errors import UsageError


class CommandLine(NamedTuple):
    """Form of the command line of a command.

    Args:
        usage: printed for `--help` without the argument that decides what flags there are.
        noun: what this argument names.
        flag: that precedes it; None: it is the first word.
        choices: values of flags, if the flags that the usage names are all; None: they depend on
            the argument.
    """

    usage: str
    noun: str
    flag: str | None
    choices: Mapping[str, Sequence[str]] | None


def take_words(flag: str, what: str, flags: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split off a flag that decides what other flags there are.

    Args:
        flag: with dashes.
        what: it needs, for the message.
        flags: the command line.

    Returns:
        the words after the flag (none: it is not there), and the other flags.

    Raises:
        UsageError: if there is no word after it.
    """
    rest: list[str] = []
    for word in flags:
        rest += word.split("=", 1) if word.startswith(f"{flag}=") else [word]
    if flag not in rest:
        return [], rest
    start = rest.index(flag)
    end = start + 1
    while end < len(rest) and not rest[end].startswith("-"):
        end += 1
    if end == start + 1:
        raise UsageError(f"{flag} needs {what}")
    return rest[start + 1 : end], rest[:start] + rest[end:]
