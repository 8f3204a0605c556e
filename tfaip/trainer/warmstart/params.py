"""Params of a warm start; needs no backend."""

from __future__ import annotations

from enum import StrEnum

from tfaip.params import option
from tfaip.params.fields import FieldError
from tfaip.trainer.transfer.params import WeightRules, expected_substitution, substituted


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
        self.sources()

    def wanted_name(self, path: str) -> str:
        """Return the name under which a target weight is looked up."""
        return substituted(path, self.rename_targets) + self.add_suffix

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
