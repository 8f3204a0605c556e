"""Params of a warm start; needs no backend."""

from __future__ import annotations

from dataclasses import dataclass, field

from tfaip.params import ParamsBase, pai_dataclass, pai_meta
from tfaip.params.common import COMMON
from tfaip.params.limits import check_fields, limits
from tfaip.trainer.transfer.names import NameRules, expected_substitution
from tfaip.util.pathpatterns import expected_pattern


@pai_dataclass
@dataclass
class WarmStartParams(ParamsBase):
    """Initial weights of a fresh training.

    A regular expression must match the whole path of a weight, or of a layer above it. A single path or None as
    `model` becomes a list.
    """

    model: list[str] | str | None = field(
        default=None,
        metadata=pai_meta(
            help="Sources of weights: exported models (best, export), runs, checkpoints, SavedModels; of several the "
            "first one that has a weight is used"
        )
        | COMMON,
    )
    allow_partial: bool = field(
        default=False,
        metadata=pai_meta(help="Leave weights fresh that the sources do not have, or have in another shape"),
    )
    include: str | None = field(
        default=None,
        metadata=pai_meta(help="Regex on paths of the new model: only these weights are loaded (None: all)")
        | limits(text=expected_pattern),
    )
    exclude: str | None = field(
        default=None,
        metadata=pai_meta(help="Regex on paths of the new model: these weights stay fresh (None: no weight)")
        | limits(text=expected_pattern),
    )
    rename: list[str] = field(
        default_factory=list,
        metadata=pai_meta(help="Substitutions on names of the sources, in order, as 'old->new' with a regex old")
        | limits(text=expected_substitution),
    )
    rename_targets: list[str] = field(
        default_factory=list,
        metadata=pai_meta(help="Substitutions 'old->new' on paths of the new model, before the sources are searched")
        | limits(text=expected_substitution),
    )
    add_suffix: str = field(
        default="",
        metadata=pai_meta(help="Suffix of the paths of the new model, added before the sources are searched"),
    )
    trim_graph_name: bool = field(
        default=True,
        metadata=pai_meta(help="Find the variables of a SavedModel also by the last parts of their names"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model is None:
            self.model = []
        elif isinstance(self.model, str):
            self.model = [self.model]

    def rules(self) -> NameRules:
        """Return the rules of the transfer: selection and names of the weights.

        Raises:
            FieldError: if a text is not a regular expression, or not `old->new`.
        """
        check_fields(self)
        return NameRules.parse(self.include, self.exclude, self.rename, self.rename_targets, add_suffix=self.add_suffix)


WarmstartParams = WarmStartParams
