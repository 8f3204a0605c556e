"""Regular expressions on the attribute paths of layers and weights (`encoder/layers/0/kernel`)."""

import re
from collections.abc import Iterable
from itertools import accumulate

from tfaip.params.fields import FieldAdvice
from tfaip.util.text import shorten, shorten_text


def expected_pattern(pattern: str) -> str | None:
    """Return in words what is expected instead of a text, or None if it is a regular expression."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"a regular expression ({shorten_text(str(error))})"
    return None


def path_matches(pattern: re.Pattern[str], path: str) -> bool:
    """Return True if the pattern matches the whole path, or the whole path of something above it.

    So a pattern applies to everything below a layer: `encoder` matches `encoder/layers/0/kernel`.
    """
    return any(pattern.fullmatch(prefix) for prefix in accumulate(path.split("/"), "{}/{}".format))


def matching_paths(pattern: str, field: str, kind: str, paths: Iterable[str]) -> list[str]:
    """Return the paths that a pattern of the user matches, in their order.

    Args:
        pattern: a regular expression, see `path_matches`.
        field: path of the field that holds it, for the message.
        kind: what the paths name, for the message.

    Raises:
        FieldAdvice: if it matches none.
    """
    known = list(paths)
    compiled = re.compile(pattern)
    found = [path for path in known if path_matches(compiled, path)]
    if not found:
        raise FieldAdvice(
            f"{{{field}}} {shorten(pattern)} matches no {kind}; it must match a whole path, e.g. '.*conv.*'; "
            f"the {kind}s are {shorten_text(', '.join(known), 120)}",
            field,
        )
    return found
