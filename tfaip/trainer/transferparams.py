"""Params of the weights that a stage takes over from the one before, and a training from other models; no backend."""

from enum import StrEnum

from tfaip.model.weightrules import TransferMode, WeightRules, expected_substitution, substituted
from tfaip.params import option


class TransferParams(WeightRules):
    """Weights that a stage takes over from the stage before it."""

    mode: TransferMode = option(
        TransferMode.SUBSET,
        "exact: weights of equal path and shape; subset: also parts of weights whose shape differs; none: no weight",
    )


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
