"""Regular expressions on the attribute paths of layers and weights (`encoder/layers/0/kernel`)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate

from tfaip.errors import UsageError


def compile_pattern(pattern: str, flag: str) -> re.Pattern[str]:
    """A pattern that a user gave.

    Args:
        pattern: a regular expression.
        flag: where it came from, for the message.

    Raises:
        ValueError: it is none.
    """
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression ({error}): change {flag}") from error


def path_matches(pattern: re.Pattern[str], path: str) -> bool:
    """Whether the pattern matches the whole path, or the whole path of something above it.

    So a pattern for a layer holds for everything below the layer: `encoder` matches `encoder/layers/0/kernel`.
    """
    return any(pattern.fullmatch(prefix) for prefix in accumulate(path.split("/"), "{}/{}".format))


def matching_paths(pattern: str, flag: str, kind: str, paths: Iterable[str]) -> list[str]:
    """The paths that a pattern of the user matches, in their order.

    Args:
        pattern: a regular expression, see `path_matches`.
        flag: where it came from, for messages.
        kind: what the paths lead to, for messages.
        paths: of all that there are.

    Raises:
        UsageError: it matches none.
    """
    known = list(paths)
    compiled = compile_pattern(pattern, flag)
    found = [path for path in known if path_matches(compiled, path)]
    if not found:
        raise UsageError(
            f"{flag} {pattern!r} matches no {kind}; it must match a whole path, e.g. '.*conv.*'; "
            f"the {kind}s are {', '.join(known)}"
        )
    return found
