"""Params of a warm start; needs no backend."""

from __future__ import annotations

from enum import StrEnum

from tfaip.params import ParamsBase, option
from tfaip.params.fields import FieldError, check_fields
from tfaip.trainer.pathpatterns import expected_pattern
from tfaip.trainer.transfer.names import NameRules, expected_substitution
from tfaip.trainer.transfer.params import check_block_patterns, expected_sizes


class WarmStartMode(StrEnum):
    """Weights that a warm start loads."""

    EXACT = "exact"
    SUBSET = "subset"


class WarmStartParams(ParamsBase):
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
    include: str | None = option(
        None,
        "Regex on paths of the new model: only these weights are loaded (None: all)",
        text=expected_pattern,
    )
    exclude: str | None = option(
        None,
        "Regex on paths of the new model: these weights stay fresh (None: no weight)",
        text=expected_pattern,
    )
    rename: list[str] = option(
        [],
        "Substitutions on names of the sources, in order, as 'old->new' with a regex old",
        text=expected_substitution,
    )
    rename_targets: list[str] = option(
        [],
        "Substitutions 'old->new' on paths of the new model, before the sources are searched",
        text=expected_substitution,
    )
    add_suffix: str = option("", "Suffix of the paths of the new model, added before the sources are searched")
    trim_graph_name: bool = option(True, "Find the variables of a SavedModel also by the last parts of their names")
    mode: WarmStartMode = option(
        WarmStartMode.EXACT,
        "exact: weights of equal shape; subset: also parts of weights whose shape differs",
    )
    blocks: dict[str, list[int]] = option(
        {},
        "With mode subset, sizes in the sources of the inputs that a layer joins, by a regex on the paths of its "
        "weights, e.g. 'top=[3,5]'",
        text=expected_sizes,
    )
    prefixes: list[str] = option(
        [],
        "For each source a path in the new model, below which its weights belong: with encoder, encoder/out/kernel "
        "takes out/kernel of this source (an empty text: the whole model; []: for all sources)",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model is None:
            self.model = []
        elif isinstance(self.model, list) and len(self.model) == 1:
            self.model = self.model[0]
        check_block_patterns(self.blocks)
        self.sources()

    def rules(self) -> NameRules:
        """Return the rules of the transfer: selection and names of the weights.

        Raises:
            FieldError: if a text is not a regular expression, or not `old->new`.
        """
        check_fields(self)
        check_block_patterns(self.blocks)
        return NameRules(self.include, self.exclude, self.rename, self.rename_targets, self.add_suffix)

    def sources(self) -> list[tuple[str, str]]:
        """Return the path of each source with its prefix, which is empty for the whole model.

        Raises:
            FieldError: if only some of the sources have a prefix.
        """
        models = [self.model] if isinstance(self.model, str) else self.model or []
        if self.prefixes and len(self.prefixes) != len(models):
            expected = f"one for each source ({len(models)}) of model, or none"
            raise FieldError("prefixes", self.prefixes, expected, others=["model"])
        prefixes = [prefix.strip("/") for prefix in self.prefixes] or [""] * len(models)
        return list(zip(models, prefixes, strict=True))


WarmstartParams = WarmStartParams
