"""Words of a command line, as distinct from other text."""

from __future__ import annotations

import shlex
from collections.abc import Callable


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
    """One of these words: text that is parsed as the declared type."""

    __slots__ = ()
