"""Base of the params of all optimizers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tfaip.params import ParamsBase, pai_dataclass, pai_meta
from tfaip.params.common import COMMON
from tfaip.params.limits import FieldError, limits
from tfaip.util.pathpatterns import expected_pattern

if TYPE_CHECKING:
    import keras


# Noise, clips, skips and resets act on all weights together, so that groups cannot set them.
FOR_ALL_WEIGHTS = (
    "clip_value",
    "clip_norm",
    "clip_global_norm",
    "gradient_noise",
    "skip_nonfinite",
    "reset_every_n_epochs",
    "groups",
)


# Filled in `optimizers`, since the classes derive from `OptimizerParams` below.
OPTIMIZERS: list[type] = []


@pai_dataclass
@dataclass
class GradientNoiseParams(ParamsBase):
    """Noise on the gradients of every update: normal(0, stddev / (1 + update)^gamma), updates counted from 0."""

    stddev: float = field(
        default=0.0, metadata=pai_meta(help="Standard deviation at the first update (0: no noise)") | limits(low=0)
    )
    gamma: float = field(
        default=0.0,
        metadata=pai_meta(help="Exponent of the decay of the noise (0: constant; 0.55: as in Neelakantan et al., 2015)")
        | limits(low=0),
    )


def _expected_match(pattern: str) -> str | None:
    return expected_pattern(pattern) if pattern else "a regular expression on paths of weights"


@pai_dataclass
@dataclass
class OptimizerGroupParams(ParamsBase):
    """Weights with their own learning rate factor or optimizer."""

    match: str = field(
        default="",
        metadata=pai_meta(help="Regex on paths of weights; it must match the whole path of a weight or layer")
        | limits(text=_expected_match),
    )
    lr_factor: float = field(
        default=1.0, metadata=pai_meta(help="Factor on the learning rate of these weights") | limits(low=0)
    )
    optimizer: OptimizerParams | None = field(
        default=None,
        metadata=pai_meta(
            choices=OPTIMIZERS,
            help="Optimizer of these weights (None: that of the other weights); clips and noise are set for all",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer is None:
            return
        for name in self.optimizer.changed_for_all():
            expected = f"the default, since {name} applies to all weights (set it in the main optimizer)"
            raise FieldError(f"optimizer.{name}", getattr(self.optimizer, name), expected)


@pai_dataclass
@dataclass
class OptimizerParams(ParamsBase):
    """An optimizer. Order on the gradients of an update: noise, clips, skip if not finite, weight decay and update."""

    # A clip at 0 would set all gradients to 0 or, by their norm, divide 0 by 0.
    clip_value: float | None = field(
        default=None,
        metadata=pai_meta(help="Clip each gradient element to [-clip_value, clip_value] (None: off)") | limits(above=0),
    )
    clip_norm: float | None = field(
        default=None,
        metadata=pai_meta(help="Maximum norm of the gradient of each variable (None: off)") | limits(above=0),
    )
    clip_global_norm: float | None = field(
        default=None,
        metadata=pai_meta(help="Maximum norm of the gradients of all variables together (None: off)")
        | limits(above=0)
        | COMMON,
    )
    gradient_noise: GradientNoiseParams = field(
        default_factory=GradientNoiseParams,
        metadata=pai_meta(fix_dc=True, help="Noise on the gradients, before they are clipped"),
    )
    skip_nonfinite: int = field(
        default=0,
        metadata=pai_meta(help="Maximum number of consecutive non-finite updates to skip (0: stop at the first)")
        | limits(low=0),
    )
    reset_every_n_epochs: int = field(
        default=0,
        metadata=pai_meta(help="Reset the moments and their update count after every n epochs (0: never)")
        | limits(low=0),
    )
    groups: list[OptimizerGroupParams] = field(
        default_factory=list,
        metadata=pai_meta(
            help="Weights with their own rate factor or optimizer; a weight belongs to the first group that matches it"
        ),
    )
    weight_decay: float = field(
        default=0.0,
        metadata=pai_meta(help="Decoupled weight decay: weights shrink by rate * weight_decay per update")
        | limits(low=0)
        | COMMON,
    )
    exclude_from_weight_decay: str | None = field(
        default=None,
        metadata=pai_meta(
            help="Regex on paths of weights that are not decayed; it must match the whole path of a weight or layer, "
            "e.g. '.*/(bias|gamma|beta)'"
        )
        | limits(text=expected_pattern),
    )

    def changed_for_all(self) -> list[str]:
        """Return the names of the fields that apply to all weights and differ from their defaults."""
        defaults = OptimizerParams()
        return [name for name in FOR_ALL_WEIGHTS if getattr(self, name) != getattr(defaults, name)]

    def cls(self) -> type[keras.optimizers.Optimizer]:
        """Return the Keras optimizer class."""
        raise NotImplementedError(f"{type(self).__name__} does not implement cls()")

    def arguments(self) -> dict[str, Any]:
        """Return the constructor arguments of the Keras class, without rate, clipping and weight decay."""
        return {}
