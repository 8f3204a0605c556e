"""Base of the params of all optimizers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tfaip.params import ParamsBase, pai_dataclass, pai_meta
from tfaip.trainer.optimizer.ranges import check_ranges
from tfaip.util.pathpatterns import compile_pattern
from tfaip.util.text import shorten

if TYPE_CHECKING:
    import keras


FOR_ALL_WEIGHTS = (
    "clip_value",
    "clip_norm",
    "clip_global_norm",
    "gradient_noise",
    "skip_nonfinite",
    "reset_every_n_epochs",
    "groups",
)


# Filled where the classes are defined, which derive from one below.
OPTIMIZERS: list[type] = []


@pai_dataclass
@dataclass
class GradientNoiseParams(ParamsBase):
    """Noise on the gradients of every update: normal(0, stddev / (1 + update)^gamma), updates counted from 0."""

    stddev: float = field(default=0.0, metadata=pai_meta(help="Standard deviation at the first update (0: no noise)"))
    gamma: float = field(
        default=0.0,
        metadata=pai_meta(help="How fast the noise falls (0: it stays; 0.55: as in Neelakantan et al., 2015)"),
    )

    def __post_init__(self) -> None:
        check_ranges(self, "--optimizer.gradient_noise")


@pai_dataclass
@dataclass
class OptimizerGroupParams(ParamsBase):
    """Weights with a learning rate factor, or an optimizer, of their own."""

    match: str = field(
        default="",
        metadata=pai_meta(help="Regex on paths of weights; it must match the whole path of a weight or layer"),
    )
    lr_factor: float = field(default=1.0, metadata=pai_meta(help="Factor on the learning rate of these weights"))
    optimizer: OptimizerParams | None = field(
        default=None,
        metadata=pai_meta(
            choices=OPTIMIZERS,
            help="Their optimizer (None: the same as that of the others); clips and noise are for all",
        ),
    )

    def __post_init__(self) -> None:
        if not self.match:
            raise ValueError("a group without weights: set match in --optimizer.groups")
        compile_pattern(self.match, "match in --optimizer.groups")
        check_ranges(self, f"--optimizer.groups ({shorten(self.match)})")
        misplaced = [] if self.optimizer is None else self.optimizer.changed_for_all()
        if misplaced:
            raise ValueError(
                f"the optimizer of the group {shorten(self.match)} sets {', '.join(misplaced)}, which holds for all "
                f"weights: set --optimizer.{misplaced[0]} instead"
            )


@pai_dataclass
@dataclass
class OptimizerParams(ParamsBase):
    """An optimizer. Order on the gradients of an update: noise, clips, skip if not finite, weight decay and update."""

    clip_value: float | None = field(
        default=None, metadata=pai_meta(help="Clip each gradient element to [-clip_value, clip_value]")
    )
    clip_norm: float | None = field(
        default=None, metadata=pai_meta(help="Clip the norm of the gradient of each variable")
    )
    clip_global_norm: float | None = field(
        default=None, metadata=pai_meta(help="Clip the norm of the gradients of all variables together")
    )
    gradient_noise: GradientNoiseParams = field(
        default_factory=GradientNoiseParams,
        metadata=pai_meta(fix_dc=True, help="Noise on the gradients, before they are clipped"),
    )
    skip_nonfinite: int = field(
        default=0,
        metadata=pai_meta(
            help="Skip up to so many updates in a row whose loss or gradients are not finite; one more ends the "
            "training (0: the first does)"
        ),
    )
    reset_every_n_epochs: int = field(
        default=0,
        metadata=pai_meta(help="Reset the moments, and their count of updates, after every n epochs (0: never)"),
    )
    groups: list[OptimizerGroupParams] = field(
        default_factory=list,
        metadata=pai_meta(
            help="Weights with a rate factor or an optimizer of their own; the first group that matches a weight has it"
        ),
    )
    weight_decay: float = field(
        default=0.0,
        metadata=pai_meta(help="Decoupled weight decay: weights shrink by rate * weight_decay per update"),
    )
    exclude_from_weight_decay: str | None = field(
        default=None,
        metadata=pai_meta(
            help="Regex on paths of weights that are not decayed; it must match the whole path of a weight or layer, "
            "e.g. '.*/(bias|gamma|beta)'"
        ),
    )

    def __post_init__(self) -> None:
        check_ranges(self, "--optimizer")
        if self.exclude_from_weight_decay is not None:
            compile_pattern(self.exclude_from_weight_decay, "--optimizer.exclude_from_weight_decay")

    def changed_for_all(self) -> list[str]:
        """Names of the fields that hold for all weights, also with groups, and have another value than the default."""
        return [name for name in FOR_ALL_WEIGHTS if getattr(self, name) != getattr(OptimizerParams(), name)]

    def cls(self) -> type[keras.optimizers.Optimizer]:
        """The Keras optimizer class."""
        raise NotImplementedError(f"{type(self).__name__} does not implement cls()")

    def arguments(self) -> dict[str, Any]:
        """Constructor arguments of the Keras class, without rate, clipping and weight decay."""
        return {}
