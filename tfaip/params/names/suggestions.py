"""Suggestions for mistyped names, for messages."""

from __future__ import annotations

from collections.abc import Iterable

# Of a list of known names, so that an error stays one line of 300 characters.
_LIST_LIMIT = 140


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names that resemble `name`, best first; case does not matter."""
    import difflib  # 4 ms, and only messages need it

    spelling: dict[str, str] = {}
    for candidate in known:
        spelling.setdefault(candidate.lower(), candidate)
    return [spelling[match] for match in difflib.get_close_matches(name.lower(), spelling)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `"; did you mean a or b?"`, or the known names if none is near, for a message.

    For an option of RETURNN the answer is its name here.
    """
    from tfaip.params.names.returnn import RETURNN_OPTIONS

    known = list(known)
    near = nearest(name, known)
    counterpart = RETURNN_OPTIONS.get(name, "").rpartition(".")[2]
    if counterpart in known:
        near = [counterpart]
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; {one_of(known)}" if known else ""


def one_of(known: Iterable[str]) -> str:
    """Return `"expected one of: a, b"`, to be appended to a message."""
    return f"expected one of: {listed(known)}"


def listed(known: Iterable[str]) -> str:
    """Return `"a, b, ..."`: the sorted names, as many as a message has room for; none is cut."""
    names = ", ".join(sorted(known))
    if len(names) > _LIST_LIMIT:
        names = names[:_LIST_LIMIT].rpartition(", ")[0] + ", ..."
    return names
