"""Weights by their paths (`encoder/layers/0/kernel`): patterns, new names, and the selection that a transfer takes."""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import Any

from tfaip.params import ParamsBase, option
from tfaip.params.fields import FieldAdvice, FieldError
from tfaip.util.text import shorten, shorten_text

ARROW = "->"


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


def substituted(name: str, substitutions: Sequence[str]) -> str:
    for text in substitutions:
        old, _, new = text.partition(ARROW)
        name = re.sub(old, new, name)
    return name


class TransferMode(StrEnum):
    """Weights that a transfer copies."""

    EXACT = "exact"
    SUBSET = "subset"
    NONE = "none"


def expected_sizes(sizes: Any) -> str | None:
    """Return in words what is expected instead of the sizes of joined inputs; None: nothing else."""
    is_list = isinstance(sizes, list | tuple) and len(sizes) > 0 and len(sizes) % 2 == 0
    if is_list and all(type(size) is int and size > 0 for size in sizes):
        return None
    return "positive sizes, the old ones and then as many new ones, e.g. [3,5,5,7]"


def expected_substitution(text: str) -> str | None:
    """Return in words what is expected instead of a text, or None if it is `old->new` with a regular expression old."""
    old, _, new = text.partition(ARROW)
    form = f"'old{ARROW}new' with a regular expression old and a replacement new"
    if not old or text.count(ARROW) != 1 or expected_pattern(old) is not None:
        return form
    try:
        re.compile(old).sub(new, "")
    except (re.error, IndexError) as error:
        return f"{form} ({shorten_text(str(error))})"
    return None


class WeightRules(ParamsBase):
    """Selection and names of the weights that a model takes over."""

    include: str | None = option(
        None, "Regex on paths of the new model: only these weights are taken over (None: all)", text=expected_pattern
    )
    exclude: str | None = option(
        None, "Regex on paths of the new model: these weights stay fresh (None: no weight)", text=expected_pattern
    )
    rename: list[str] = option(
        [],
        "Substitutions on names of the old model, in order, as 'old->new' with a regex old",
        text=expected_substitution,
    )
    blocks: dict[str, list[int]] = option(
        {},
        "With mode subset, old and then new sizes of the inputs that a layer joins, by a regex on the paths of its "
        "weights, e.g. 'top=[3,5,5,7]'",
        text=expected_sizes,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for pattern in self.blocks:
            expected = expected_pattern(pattern)
            if expected is not None:
                raise FieldError("blocks", pattern, f"{expected} as a key")

    def selects(self, path: str) -> bool:
        """Return True if a target weight takes part."""
        if self.include is not None and not path_matches(re.compile(self.include), path):
            return False
        return self.exclude is None or not path_matches(re.compile(self.exclude), path)

    def renamed_source(self, name: str) -> str:
        """Return the name under which a weight of the source is found."""
        return substituted(name, self.rename)

    def wanted_name(self, path: str) -> str:
        """Return the name under which a target weight is looked up."""
        return path
