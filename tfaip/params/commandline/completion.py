"""Completion of command lines by shells: argcomplete's hook, with the flags that the words before allow."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Literal, get_args, get_origin

from tfaip.params.resolver import Entry, Leaf
from tfaip.params.types.kinds import is_subclass, is_union, members_of, strip

# Set by a shell for the command whose line it completes.
COMPLETION = "_ARGCOMPLETE"
_GENERAL = ("--help", "--config", "--print_config", "--trust")


def typed_words() -> list[str]:
    """Return the words before the cursor, without the program and without a flag whose values are being typed."""
    before = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
    words = shlex.split(before)
    prefix = "" if before.endswith(" ") else words.pop()
    starts = [index for index, word in enumerate(words) if word.startswith("--")]
    if starts and not prefix.startswith("-"):
        words = words[: starts[-1]]
    return words[1:]


def answer_shell(flags: Iterable[tuple[str, str, Sequence[str] | None]]) -> None:
    """Print the completions for the shell that has started this process, and end it.

    Args:
        flags: name, help and values (None: any, or a file) of each flag.
    """
    import argparse

    from argcomplete import autocomplete
    from argcomplete.completers import ChoicesCompleter

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("words", nargs="*")
    known = {name: (name, "", None) for name in _GENERAL}
    for name, text, values in {**known, **{flag[0]: flag for flag in flags}}.values():
        action: Any = parser.add_argument(name, nargs="*", help=text.replace("%", "%%"))
        if values is not None:
            action.completer = ChoicesCompleter(dict.fromkeys(values, ""))
    autocomplete(parser, always_complete_options=False)


def values_of(entry: Entry) -> list[str] | None:
    """Return the values of a flag that is a choice, none for a number; None for any other flag."""
    if not isinstance(entry, Leaf):
        return [] if entry.choice is None else list(entry.choice.names())
    if entry.meta.get("choices"):
        return [str(choice) for choice in entry.meta["choices"]]
    declared = strip(entry.declared)
    values: list[str] = []
    for member in members_of(declared)[0] if is_union(declared) else [declared]:
        if member is bool:
            values += ["True", "False"]
        elif get_origin(member) is Literal:
            values += map(str, get_args(member))
        elif is_subclass(member, Enum):
            values += [str(choice.value) for choice in member]
        elif not is_subclass(member, int | float):
            return None
    return values
