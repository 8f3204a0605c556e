"""Short, single-line forms of values for messages, and the character that no argument may hold."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence

from tfaip.errors import UsageError

MESSAGE_LIMIT = 80
# Of the text of another error inside a message.
ERROR_LIMIT = 200
# Of the whole line that a command prints about an error.
LINE_LIMIT = 300


class _ShortRepr(reprlib.Repr):
    """`repr` with bounded depth, number of items and length, whatever the value holds."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 2
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdict = self.maxarray = 6
        self.maxstring = self.maxother = 2 * MESSAGE_LIMIT

    def repr_int(self, x: int, level: int) -> str:
        """Return the digits; Python refuses to print integers of more than 4300 digits."""
        return repr(x) if x.bit_length() < 1024 else f"<integer of {x.bit_length()} bits>"

    repr_bool = repr_int


_REPR = _ShortRepr()


def number_text(value: float) -> str:
    """Return a number with four decimals, if it is below 0.001 with four significant digits."""
    if value == 0:
        return "0.0000"  # also for -0.0
    return f"{value:.4f}" if not abs(value) < 0.001 else f"{value:.4g}"


def shorten(value: object, limit: int = MESSAGE_LIMIT) -> str:
    """Return `repr(value)` on one line, cut to at most `limit` characters.

    Nested containers are cut while they are printed, so that the time does not depend on the size
    of the value. Every message that shows a value from a user or a file goes through this function.

    Args:
        value: anything; a string is shown with its quotes, and unprintable characters are escaped.
        limit: maximum length of the result, at least 20 characters.
    """
    try:
        text = _REPR.repr(value)
    except Exception as error:  # in a `__repr__` of the user
        text = f"<{type(value).__name__}, whose repr fails: {type(error).__name__}>"
    return shorten_text(text, limit)


def shorten_text(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return `text` on one printable line, without its middle if it exceeds `limit`."""
    if len(text) > 4 * limit:
        text = text[: 2 * limit] + text[-2 * limit :]
    line = " ".join(text.split())
    line = "".join(character if character.isprintable() else "?" for character in line)
    if len(line) <= limit:
        return line
    head = (limit - 3) * 2 // 3
    return f"{line[:head]}...{line[head + 3 - limit :]}"


def refuse_nul(argv: Sequence[str]) -> None:
    """Raise a UsageError if an argument holds a NUL character, which only a Python program can pass."""
    for word in argv:
        if "\0" in word:
            raise UsageError(f"the argument {shorten(word)} holds a NUL character")
