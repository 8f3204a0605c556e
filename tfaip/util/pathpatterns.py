"""Regular expressions on the attribute paths of layers and weights (`encoder/layers/0/kernel`)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from itertools import accumulate

from tfaip.errors import UsageError
from tfaip.util.text import shorten, shorten_text


def compile_pattern(pattern: str, flag: str) -> re.Pattern[str]:
    """A pattern that a user gave.

    Args:
        pattern: a regular expression.
        flag: where it came from, for the message.

    Raises:
        ValueError: it is none.
    """
    try:
        with warnings.catch_warnings():
            # '[[' may get another meaning one day; until then it is what it was.
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        reason = shorten_text(str(error))
        raise ValueError(f"{shorten(pattern)} is not a regular expression ({reason}): change {flag}") from error


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
            f"{flag} {shorten(pattern)} matches no {kind}; it must match a whole path, e.g. '.*conv.*'; "
            f"the {kind}s are {shorten_text(', '.join(known))}"
        )
    return found
