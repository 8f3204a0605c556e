"""Answers to a shell that completes the arguments of a command.

The shell calls the command itself with `_ARGCOMPLETE` in the environment. argcomplete does what
differs between shells (quotes, colons, descriptions); flags and choices come from the same tables
as `--help`, for the scenario and the classes that the line has chosen already.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

from argcomplete import CompletionFinder, split_line
from argcomplete.completers import FilesCompleter

from tfaip.errors import UsageError
from tfaip.params.commandline.flagtable import REQUEST, Flag, FlagTable
from tfaip.scripts.common.commandline import CommandLine, take_words

SHELLS = ("bash", "zsh", "fish")
_FLAG = re.compile(r"(?<!\S)--[a-z_]+\b(?!\.)")
_GENERAL = [
    Flag("--help", "Show flags: a group, a flag, a word, or all"),
    Flag("--python", "With --help: show Python paths", []),
    Flag("--config", "Read flags from YAML or JSON files"),
    Flag("--print_config", "Print all values and where they come from", []),
    Flag("--trust", "Packages whose classes files may name", []),
]

Work = Callable[[Any, list[str]], None]


def complete(line: CommandLine, work: Work) -> None:
    """Answer the shell that has started this process, and end it.

    Args:
        line: the form of the command line.
        work: of the command; it is run up to the point at which the flags are known.
    """
    _, prefix, _, words, _ = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    subject, flags = _before_cursor(line, words[1:], prefix)
    known: Sequence[Flag] = []
    if line.choices is None and subject:
        known = _flags_of(work, subject, flags)
    if not known:
        known = [Flag(name, "", (line.choices or {}).get(name)) for name in dict.fromkeys(_FLAG.findall(line.usage))]
    known = [*known, *(flag for flag in _GENERAL if flag.name not in {other.name for other in known})]
    for flag in known:
        if flag.name == line.flag:
            continue
        # Values may be anything here: the command itself refuses wrong ones.
        action: Any = parser.add_argument(flag.name, nargs="*", help=flag.help.replace("%", "%%"))
        action.completer = _completer(flag)
    _add_subject(parser, line)
    finder = CompletionFinder()
    # After a flag its values alone; the others still follow when a dash is typed.
    is_value = words[-1].startswith("--")
    finder(parser, always_complete_options=prefix.startswith("-") or (bool(subject) and not is_value))


def _add_subject(parser: argparse.ArgumentParser, line: CommandLine) -> None:
    first: Any = parser.add_argument("subject" if line.flag is None else line.flag, nargs="*" if line.flag else 1)
    if line.noun == "scenario":
        first.completer = _scenarios
    elif line.noun == "shell":
        first.completer = lambda **_: SHELLS


def _scenarios(prefix: str, **_: Any) -> list[str]:
    from tfaip.components.finding import scenario_names

    return [*scenario_names(prefix), *FilesCompleter(["py"])(prefix)] if "/" in prefix else scenario_names(prefix)


def _completer(flag: Flag) -> Callable[..., Sequence[str]]:
    if flag.choices is None:
        files: Callable[..., Sequence[str]] = FilesCompleter()
        return files

    def complete_value(prefix: str, **_: Any) -> list[str]:
        key, equals, _value = prefix.partition("=")
        start = key + equals if flag.has_keys and equals else ""
        return [start + choice for choice in flag.choices or ()]

    return complete_value


def _before_cursor(line: CommandLine, words: Sequence[str], prefix: str) -> tuple[Any, list[str]]:
    """Return the subject, and the flags before the one whose values are being typed."""
    words = list(words)
    subject: Any = ""
    if line.flag is not None:
        with contextlib.suppress(UsageError):
            subject, words = take_words(line.flag, "", words)
    elif words and not words[0].startswith("-"):
        subject = words.pop(0)
    starts = [index for index, word in enumerate(words) if word.startswith("--")]
    if starts and not (prefix.startswith("--") and "=" not in prefix):
        words = words[: starts[-1]]
    return subject, words


def _flags_of(work: Work, subject: Any, flags: list[str]) -> Sequence[Flag]:
    # A line with an error has no flags to offer, and what a scenario prints is no answer.
    with contextlib.suppress(Exception), open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        try:
            work(subject, [*flags, f"--{REQUEST}"])
        except FlagTable as table:
            return table.flags
    return []
