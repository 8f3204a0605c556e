"""Completion of command lines by shells, as `argcomplete` registers the commands with them."""

import os
import shlex
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from typing import Any

from argcomplete import autocomplete
from argcomplete.completers import ChoicesCompleter

from tfaip.params.codec import named_choices
from tfaip.params.help import GENERAL_FLAGS
from tfaip.params.resolver import Entry
from tfaip.params.types import members_of, strip


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
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("words", nargs="*")
    known = {f"--{name}": (f"--{name}", text, None) for name, (_, text) in GENERAL_FLAGS.items()}
    for name, text, values in {**known, **{flag[0]: flag for flag in flags}}.values():
        action: Any = parser.add_argument(name, nargs="*", help=text.replace("%", "%%"))
        if values is not None:
            action.completer = ChoicesCompleter(dict.fromkeys(values, ""))
    autocomplete(parser, always_complete_options=False)


def completions_of(entry: Entry) -> list[str] | None:
    """Return the values of a flag that is a choice; None for any other flag."""
    if entry.kind != "leaf":
        return [] if entry.choice is None else list(entry.choice.names())
    if entry.meta.get("choices"):
        return [str(choice) for choice in entry.meta["choices"]]
    return [str(plain) for member in members_of(strip(entry.declared))[0] for plain, _ in named_choices(member)] or None
