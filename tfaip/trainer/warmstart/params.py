"""Params of a warm start; needs no backend."""

from __future__ import annotations

from dataclasses import dataclass, field

from tfaip.params import ParamsBase, pai_dataclass, pai_meta
from tfaip.trainer.transfer.names import NameRules

FLAG = "--warmstart"


@pai_dataclass
@dataclass
class WarmStartParams(ParamsBase):
    """Weights to begin a fresh training with.

    A regular expression must match the whole path of a weight, or of a layer above it. A single path or None as
    `model` becomes a list.
    """

    model: list[str] | str | None = field(
        default=None,
        metadata=pai_meta(
            help="Where weights come from: exported models (best, export), runs, checkpoints, SavedModels; of several "
            "the first one that has a weight wins"
        ),
    )
    allow_partial: bool = field(
        default=False, metadata=pai_meta(help="Leave weights fresh that the sources do not have, or in another shape")
    )
    include: str | None = field(
        default=None, metadata=pai_meta(help="Regex on paths of the new model: only these weights are loaded")
    )
    exclude: str | None = field(
        default=None, metadata=pai_meta(help="Regex on paths of the new model: these weights are left fresh")
    )
    rename: list[str] = field(
        default_factory=list,
        metadata=pai_meta(help="Substitutions on names of the sources, in order, as 'old->new' with a regex old"),
    )
    rename_targets: list[str] = field(
        default_factory=list,
        metadata=pai_meta(help="Substitutions 'old->new' on paths of the new model, before they are looked up"),
    )
    add_suffix: str = field(
        default="",
        metadata=pai_meta(help="Appended to paths of the new model before they are looked up"),
    )
    trim_graph_name: bool = field(
        default=True,
        metadata=pai_meta(help="Find the variables of a SavedModel also by the last parts of their names"),
    )

    def __post_init__(self) -> None:
        if self.model is None:
            self.model = []
        elif isinstance(self.model, str):
            self.model = [self.model]
        self.rules()

    def rules(self) -> NameRules:
        """What takes part, under which names.

        Raises:
            ValueError: something is not a regular expression, or not `old->new`.
        """
        return NameRules.parse(
            FLAG, self.include, self.exclude, self.rename, self.rename_targets, add_suffix=self.add_suffix
        )


WarmstartParams = WarmStartParams
