"""Params of a transfer of weights; needs no backend."""

from __future__ import annotations

from enum import StrEnum

from tfaip.params import ParamsBase, option
from tfaip.trainer.pathpatterns import expected_pattern
from tfaip.trainer.transfer.names import expected_substitution


class TransferMode(StrEnum):
    """Weights that a transfer copies."""

    EXACT = "exact"
    SUBSET = "subset"
    NONE = "none"


class NewRows(StrEnum):
    """Values of the entries that a larger weight has and its source lacks."""

    INIT = "init"
    ZERO = "zero"


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
    new_rows: NewRows = option(
        NewRows.INIT, "Values of the new rows of a grown kernel: init (as initialised), zero (outputs stay equal)"
    )
    blocks: dict[str, list[int]] = option(
        {}, "Old sizes of the inputs that a layer joins, by a regex on the paths of its weights, e.g. top=3,5"
    )
