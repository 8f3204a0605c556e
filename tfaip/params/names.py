"""Suggestions for mistyped names, used by every error message about params."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from tfaip.params.foreign import RETURNN_OPTIONS

_LIST_LIMIT = 140


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The known names that resemble `name`, best first; upper and lower case count as equal."""
    spelling: dict[str, str] = {}
    for candidate in known:
        spelling.setdefault(candidate.lower(), candidate)
    return [spelling[match] for match in difflib.get_close_matches(name.lower(), spelling, count, 0.6)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`"; did you mean a or b?"`, or, when nothing is near, the known names; to be appended to a message.

    An option of RETURNN is near to what it is called here.
    """
    known = list(known)
    foreign = RETURNN_OPTIONS.get(name, "").rpartition(".")[2]
    near = [foreign] if foreign in known else nearest(name, known)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; {one_of(known)}" if known else ""


def one_of(known: Iterable[str]) -> str:
    """`"expected one of: a, b"`, to be appended to a message."""
    names = ", ".join(sorted(known))
    if len(names) > _LIST_LIMIT:
        names = names[:_LIST_LIMIT].rpartition(", ")[0] + ", ..."
    return f"expected one of: {names}"
