"""Base of the params of all optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfaip.params import ParamsBase, option
from tfaip.params.fields import FieldError
from tfaip.trainer.pathpatterns import expected_pattern

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


class GradientNoiseParams(ParamsBase):
    """Noise on the gradients of every update: normal(0, stddev / (1 + update)^gamma), updates counted from 0."""

    stddev: float = option(0.0, "Standard deviation at the first update (0: no noise)", low=0)
    gamma: float = option(
        0.0,
        "Exponent of the decay of the noise (0: constant; 0.55: as in Neelakantan et al., 2015)",
        low=0,
    )


def _expected_match(pattern: str) -> str | None:
    return expected_pattern(pattern) if pattern else "a regular expression on paths of weights"


class OptimizerGroupParams(ParamsBase):
    """Weights with their own learning rate factor or optimizer."""

    match: str = option(
        "",
        "Regex on paths of weights; it must match the whole path of a weight or layer",
        text=_expected_match,
    )
    lr_factor: float = option(1.0, "Factor on the learning rate of these weights", low=0)
    optimizer: OptimizerParams | None = option(
        None,
        "Optimizer of these weights (None: that of the other weights); clips and noise are set for all",
        choices=OPTIMIZERS,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer is None:
            return
        for name in self.optimizer.changed_for_all():
            expected = f"the default, since {name} applies to all weights (set it in the main optimizer)"
            raise FieldError(f"optimizer.{name}", getattr(self.optimizer, name), expected)


class OptimizerParams(ParamsBase):
    """An optimizer. Order on the gradients of an update: noise, clips, skip if not finite, weight decay and update."""

    # A clip at 0 would set all gradients to 0 or, by their norm, divide 0 by 0.
    clip_value: float | None = option(
        None, "Clip each gradient element to [-clip_value, clip_value] (None: off)", above=0
    )
    clip_norm: float | None = option(None, "Maximum norm of the gradient of each variable (None: off)", above=0)
    clip_global_norm: float | None = option(
        None,
        "Maximum norm of the gradients of all variables together (None: off)",
        above=0,
        common=True,
    )
    gradient_noise: GradientNoiseParams = option(
        help="Noise on the gradients, before they are clipped",
        factory=GradientNoiseParams,
        fix_dc=True,
    )
    skip_nonfinite: int = option(
        0, "Maximum number of consecutive non-finite updates to skip (0: stop at the first)", low=0
    )
    reset_every_n_epochs: int = option(
        0, "Reset the moments and their update count after every n epochs (0: never)", low=0
    )
    groups: list[OptimizerGroupParams] = option(
        [],
        "Weights with their own rate factor or optimizer; a weight belongs to the first group that matches it",
    )
    weight_decay: float = option(
        0.0,
        "Decoupled weight decay: weights shrink by rate * weight_decay per update",
        low=0,
        common=True,
    )
    exclude_from_weight_decay: str | None = option(
        None,
        "Regex on paths of weights that are not decayed; it must match the whole path of a weight or layer, "
        "e.g. '.*/(bias|gamma|beta)'",
        text=expected_pattern,
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
