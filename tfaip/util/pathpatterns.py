"""Regular expressions on the attribute paths of layers and weights (`encoder/layers/0/kernel`)."""

from __future__ import annotations

import re
from itertools import accumulate


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
