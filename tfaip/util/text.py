"""Short, single-line forms of values for messages."""

import re
import reprlib
from collections.abc import Sequence

MESSAGE_LIMIT = 80
# Of the text of another error inside a message.
ERROR_LIMIT = 200
# Of the whole line that a command prints about an error.
LINE_LIMIT = 300
# Characters of the numbers that a training shows.
NUMBER_WIDTH = 7


# Part of a word at which a text is cut, after and before a space.
_SPLIT_END, _SPLIT_START = re.compile(r" \S{,20}$"), re.compile(r"^\S{,20} ")


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


_REPR = _ShortRepr()


def number_text(value: float) -> str:
    """Return a number with four decimals, if it is below 0.001 with four significant digits."""
    if value == 0:
        return "0.0000"  # also for -0.0
    return f"{value:.4f}" if not abs(value) < 0.001 else f"{value:.4g}"


def metric_text(value: float) -> str:
    """Return a number with 3 to 4 significant digits: `0.5700`, `5.70e-4`, `12.35`, `1.24e8`; exactly zero is `0`."""
    if value == 0:
        return "0"
    return _fitting(value, [f"{value:.0f}"] if abs(value) >= 999.95 else [f"{value:#.4g}", f"{value:#.3g}"])


def setting_text(value: float) -> str:
    """Return a rate, or another number that is set: up to three digits without zeros at the end, whole ones in full."""
    return _fitting(value, [f"{value + 0.0:.0f}" if float(value).is_integer() else f"{value:.3g}"])


def _fitting(value: float, texts: Sequence[str]) -> str:
    """Return the first text of at most 7 characters, else the number with an exponent (`1e-5`) and what digits fit."""
    for text in [*texts, *(f"{value:.{digits}e}" for digits in (2, 1, 0))]:
        short = text.replace("e+", "e").replace("e0", "e").replace("e-0", "e-")
        if len(short) <= NUMBER_WIDTH:
            break
    return short


def duration_text(seconds: float) -> str:
    """Return `1:02:03`, or `2:03` below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def shorten(value: object, limit: int = MESSAGE_LIMIT) -> str:
    """Return `repr(value)` on one line, cut to at most `limit` characters.

    Nested containers are cut while they are printed, so that the time does not depend on the size
    of the value. Every message that shows a value from a user or a file goes through this function.
    """
    try:
        text = _REPR.repr(value)
    except Exception as error:  # in a `__repr__` of the user
        text = f"<{type(value).__name__}, whose repr fails: {type(error).__name__}>"
    return shorten_text(text, limit)


def shorten_text(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return `text` on one printable line, without its middle if it exceeds `limit`; short words stay whole."""
    if len(text) > 4 * limit:
        text = text[: 2 * limit] + text[-2 * limit :]
    line = " ".join(text.split())
    line = "".join(character if character.isprintable() else "?" for character in line)
    if len(line) <= limit:
        return line
    size = (limit - 3) * 2 // 3
    head, tail = line[:size], line[size + 3 - limit :]
    return _SPLIT_END.sub(" ", head) + "..." + _SPLIT_START.sub(" ", tail)
