"""Params of a transfer of weights: selection, and the names by which source and target are matched; no backend."""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from tfaip.params import ParamsBase, option
from tfaip.params.fields import FieldError
from tfaip.trainer.pathpatterns import expected_pattern, path_matches
from tfaip.util.text import shorten_text

ARROW = "->"


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


class TransferParams(WeightRules):
    """Weights that a stage takes over from the stage before it."""

    mode: TransferMode = option(
        TransferMode.SUBSET,
        "exact: weights of equal path and shape; subset: also parts of weights whose shape differs; none: no weight",
    )


def substituted(name: str, substitutions: Sequence[str]) -> str:
    for text in substitutions:
        old, _, new = text.partition(ARROW)
        name = re.sub(old, new, name)
    return name


class WarmStartMode(StrEnum):
    """Weights that a warm start loads."""

    EXACT = "exact"
    SUBSET = "subset"


class WarmStartParams(WeightRules):
    """Initial weights of a fresh training.

    A regular expression must match the whole path of a weight, or of a layer above it. A single path as
    `model` is a text.
    """

    model: list[str] | str | None = option(
        None,
        "Sources of weights: exported models (best, export), runs, checkpoints, SavedModels; of several the "
        "first one that has a weight is used",
        common=True,
    )
    allow_partial: bool = option(False, "Leave weights fresh that the sources do not have, or have in another shape")
    rename_targets: list[str] = option(
        [],
        "Substitutions 'old->new' on paths of the new model, before the sources are searched",
        text=expected_substitution,
    )
    add_suffix: str = option("", "Suffix of the paths of the new model, added before the sources are searched")
    trim_graph_name: bool = option(True, "Find the variables of a SavedModel also by the last parts of their names")
    mode: WarmStartMode = option(
        WarmStartMode.EXACT, "exact: weights of equal shape; subset: also parts of weights whose shape differs"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model is None:
            self.model = []
        elif isinstance(self.model, list) and len(self.model) == 1:
            self.model = self.model[0]

    def wanted_name(self, path: str) -> str:
        """Return the name under which a target weight is looked up."""
        return substituted(path, self.rename_targets) + self.add_suffix

    def sources(self) -> list[str]:
        """Return the path of each source."""
        return [self.model] if isinstance(self.model, str) else self.model or []


WarmstartParams = WarmStartParams
