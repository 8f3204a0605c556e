"""Params of a transfer of weights; needs no backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from tfaip.params import ParamsBase, option
from tfaip.params.fields import FieldError, check_fields
from tfaip.trainer.pathpatterns import expected_pattern
from tfaip.trainer.transfer.names import NameRules, expected_substitution


class TransferMode(StrEnum):
    """Weights that a transfer copies."""

    EXACT = "exact"
    SUBSET = "subset"
    NONE = "none"


def expected_sizes(sizes: Any) -> str | None:
    """Return in words what is expected instead of the sizes of joined inputs; None: nothing else."""
    is_list = isinstance(sizes, list | tuple) and len(sizes) > 0
    if is_list and all(type(size) is int and size > 0 for size in sizes):
        return None
    return "a list of positive sizes, e.g. [3,5]"


def check_block_patterns(blocks: Mapping[str, Sequence[int]]) -> None:
    """Raise unless the keys of `blocks` are patterns.

    Raises:
        FieldError: if one is not a regular expression.
    """
    for pattern in blocks:
        expected = expected_pattern(pattern)
        if expected is not None:
            raise FieldError("blocks", pattern, f"{expected} as a key")


class TransferParams(ParamsBase):
    """Weights that a stage takes over from the stage before it."""

    mode: TransferMode = option(
        TransferMode.SUBSET,
        "exact: weights of equal path and shape; subset: also parts of weights whose shape differs; none: no weight",
    )
    include: str | None = option(
        None, "Regex on paths of the new model: only these weights are copied (None: all)", text=expected_pattern
    )
    exclude: str | None = option(
        None, "Regex on paths of the new model: these weights stay fresh (None: no weight)", text=expected_pattern
    )
    rename: list[str] = option(
        [], "Substitutions on the old paths, in order, as 'old->new' with a regex old", text=expected_substitution
    )
    blocks: dict[str, list[int]] = option(
        {},
        "Old sizes of the inputs that a layer joins, by a regex on the paths of its weights, e.g. 'top=[3,5]'",
        text=expected_sizes,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_block_patterns(self.blocks)

    def rules(self) -> NameRules:
        """Return the selection and the names of the weights.

        Raises:
            FieldError: if a text is not a regular expression, or not `old->new`.
        """
        check_fields(self)
        check_block_patterns(self.blocks)
        return NameRules(self.include, self.exclude, self.rename)
