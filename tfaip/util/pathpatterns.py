"""Regular expressions on the attribute paths of layers and weights (`encoder/layers/0/kernel`)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from itertools import accumulate

from tfaip.errors import UsageError
from tfaip.util.text import shorten, shorten_text


def expected_pattern(pattern: str) -> str | None:
    """Return in words what is expected instead of a text, or None if it is a regular expression.

    One that a later Python will read differently is refused, too.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(pattern)
    except FutureWarning as error:
        reason = f"{error}: escape what is meant literally, as in \\["
    except (re.error, OverflowError, RecursionError, DeprecationWarning) as error:
        reason = str(error)
    else:
        return None
    return f"a regular expression ({shorten_text(reason)})"


def compile_pattern(pattern: str, flag: str) -> re.Pattern[str]:
    """Return the compiled pattern of a user.

    Args:
        pattern: a regular expression.
        flag: its origin, for the message.

    Raises:
        ValueError: if it is not a regular expression; see `expected_pattern`.
    """
    expected = expected_pattern(pattern)
    if expected is not None:
        raise ValueError(f"{shorten(pattern)} is not {expected}: change {flag}")
    return re.compile(pattern)


def path_matches(pattern: re.Pattern[str], path: str) -> bool:
    """Return True if the pattern matches the whole path, or the whole path of something above it.

    So a pattern applies to everything below a layer: `encoder` matches `encoder/layers/0/kernel`.
    """
    return any(pattern.fullmatch(prefix) for prefix in accumulate(path.split("/"), "{}/{}".format))


def matching_paths(pattern: str, flag: str, kind: str, paths: Iterable[str]) -> list[str]:
    """Return the paths that a pattern of the user matches, in their order.

    Args:
        pattern: a regular expression, see `path_matches`.
        flag: where it came from, for messages.
        kind: what the paths name, for messages.
        paths: all paths.

    Raises:
        UsageError: if it matches none.
    """
    known = list(paths)
    compiled = compile_pattern(pattern, flag)
    found = [path for path in known if path_matches(compiled, path)]
    if not found:
        raise UsageError(
            f"{flag} {shorten(pattern)} matches no {kind}; it must match a whole path, e.g. '.*conv.*'; "
            f"the {kind}s are {shorten_text(', '.join(known), 120)}"
        )
    return found
