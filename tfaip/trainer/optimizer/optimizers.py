"""Params of the optimizers: of Keras, with its defaults, and AdaBelief. No backend is needed."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfaip.model.weightrules import expected_pattern
from tfaip.params import ParamsBase, option, pai_dataclass
from tfaip.params.fields import FieldError
from tfaip.util.oldnames import old_names

if TYPE_CHECKING:
    import keras


# Filled below, since the classes derive from `OptimizerParams` below.
OPTIMIZERS: list[type] = []


class GradientNoiseParams(ParamsBase):
    """Noise on the gradients of every update: normal(0, stddev / (1 + update)^gamma), updates counted from 0."""

    stddev: float = option(0.0, "Standard deviation at the first update (0: no noise)", low=0)
    gamma: float = option(
        0.0, "Exponent of the decay of the noise (0: constant; 0.55: as in Neelakantan et al., 2015)", low=0
    )


class OptimizerGroupParams(ParamsBase):
    """Weights with their own learning rate factor or optimizer."""

    match: str = option(
        "", "Regex on paths of weights; it must match the whole path of a weight or layer", text=expected_pattern
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
        defaults = OptimizerParams()
        for name in (field.name for field in dataclasses.fields(defaults)):
            # Noise, clips, skips and resets act on all weights together, so that groups cannot set them.
            of_group = name in ("weight_decay", "exclude_from_weight_decay")
            if not of_group and getattr(self.optimizer, name) != getattr(defaults, name):
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
        None, "Maximum norm of the gradients of all variables together (None: off)", above=0, common=True
    )
    gradient_noise: GradientNoiseParams = option(
        help="Noise on the gradients, before they are clipped", factory=GradientNoiseParams, fix_dc=True
    )
    skip_nonfinite: int = option(
        0, "Maximum number of consecutive non-finite updates to skip (0: stop at the first)", low=0
    )
    reset_every_n_epochs: int = option(
        0, "Reset the moments and their update count after every n epochs (0: never)", low=0
    )
    groups: list[OptimizerGroupParams] = option(
        [], "Weights with their own rate factor or optimizer; a weight belongs to the first group that matches it"
    )
    weight_decay: float = option(
        0.0, "Decoupled weight decay: weights shrink by rate * weight_decay per update", low=0, common=True
    )
    exclude_from_weight_decay: str | None = option(
        None,
        "Regex on paths of weights that are not decayed; it must match the whole path of a weight or layer, "
        "e.g. '.*/(bias|gamma|beta)'",
        text=expected_pattern,
    )

    def cls(self) -> type[keras.optimizers.Optimizer]:
        """Return the Keras optimizer class: the one with the name of this class or its nearest base class."""
        import keras

        names = [base.__name__.removesuffix("Optimizer") for base in type(self).__mro__]
        found = next((name for name in names if hasattr(keras.optimizers, name)), None)
        if found is None:
            raise NotImplementedError(f"{type(self).__name__} does not implement cls()")
        return getattr(keras.optimizers, found)

    def arguments(self) -> dict[str, Any]:
        """Return the constructor arguments of the Keras class: the fields that not all optimizers share."""
        shared = {field.name for field in dataclasses.fields(OptimizerParams)}
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in shared}


if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)


def _decay(default: float, help: str, above: float | None = None) -> float:  # noqa: A002
    """Declare the decay rate of a mean: with 1 it would never change."""
    return option(default, help, low=0 if above is None else None, above=above, below=1)


def _momentum(default: float, help: str) -> float:  # noqa: A002
    return option(default, help, low=0, high=1)


def _epsilon() -> float:
    # With 0, a gradient that has always been 0 (a dead unit) would be divided by 0.
    return option(1e-7, "Constant added to the denominator against division by zero", above=0)


class MomentsOptimizer(OptimizerParams):
    """An optimizer with the two means of Adam."""

    beta_1: float = _decay(0.9, "Decay rate of the mean of the gradients (first moment)")
    beta_2: float = _decay(0.999, "Decay rate of the mean of the squared gradients (second moment)")
    epsilon: float = _epsilon()


class SGDOptimizer(OptimizerParams):
    """Stochastic gradient descent, optionally with momentum."""

    momentum: float = _momentum(0.0, "Momentum, in [0, 1]")
    nesterov: bool = option(False, "Use Nesterov momentum")


class AdamOptimizer(MomentsOptimizer):
    """Adam (Kingma and Ba, 2014)."""

    amsgrad: bool = option(False, "Use the AMSGrad variant (Reddi et al., 2018)")


class AdamWOptimizer(AdamOptimizer):
    """Adam with decoupled weight decay on by default (Loshchilov and Hutter, 2017)."""

    weight_decay = 0.004

    def cls(self) -> type[keras.optimizers.Optimizer]:
        import keras

        # `GroupOptimizer` decouples the decay of every optimizer. Keras' AdamW would refuse a decay of 0.
        return keras.optimizers.Adam


class AdamaxOptimizer(MomentsOptimizer):
    """Adamax, Adam with the infinity norm (Kingma and Ba, 2014)."""


class NadamOptimizer(MomentsOptimizer):
    """Adam with Nesterov momentum (Dozat, 2015)."""


class RMSpropOptimizer(OptimizerParams):
    """RMSprop (Hinton, 2012)."""

    rho: float = _decay(0.9, "Decay rate of the mean of the squared gradients")
    momentum: float = _momentum(0.0, "Momentum, in [0, 1]")
    epsilon: float = _epsilon()
    centered: bool = option(False, "Normalise by the variance instead of the square")


class AdagradOptimizer(OptimizerParams):
    """Adagrad (Duchi et al., 2011)."""

    initial_accumulator_value: float = option(0.1, "Initial value of the sum of squares", low=0)
    epsilon: float = _epsilon()


class AdadeltaOptimizer(OptimizerParams):
    """Adadelta (Zeiler, 2012)."""

    rho: float = _decay(0.95, "Decay rate of the means of the squares")
    epsilon: float = _epsilon()


@pai_dataclass(alt="LAMB")
@dataclass
class LambOptimizer(MomentsOptimizer):
    """LAMB, layer-wise adapted Adam for large batches (You et al., 2019)."""


class LionOptimizer(OptimizerParams):
    """Lion, sign of an interpolated momentum (Chen et al., 2023)."""

    # Keras refuses beta_1 = 0, with which the update would be the sign of the gradient.
    beta_1: float = option(0.9, "Weight of the momentum, against that of the gradient, in the update", above=0, high=1)
    beta_2: float = _decay(0.99, "Decay rate of the momentum")


class AdafactorOptimizer(OptimizerParams):
    """Adafactor, factored second moments (Shazeer and Stern, 2018)."""

    beta_2_decay: float = option(-0.8, "Exponent of the decay of the second moment, at most 0", high=0)
    epsilon_1: float = option(1e-30, "Constant added to the squared gradients", above=0)
    # With 0, weights that begin at 0 never move.
    epsilon_2: float = option(1e-3, "Lower bound of the scale of the weights", above=0)
    clip_threshold: float = option(1.0, "Maximum root mean square of an update", above=0)
    relative_step: bool = option(True, "Bound the rate by 1/sqrt(updates)")


class MuonOptimizer(OptimizerParams):
    """Muon, orthogonalised momentum for matrices, Adam for the rest (Jordan et al., 2024)."""

    weight_decay = 0.004

    adam_beta_1: float = _decay(0.9, "Adam part: decay rate of the mean of the gradients")
    adam_beta_2: float = _decay(0.999, "Adam part: decay rate of the mean of the squared gradients")
    epsilon: float = _epsilon()
    momentum: float = _momentum(0.95, "Momentum of the Muon part")
    nesterov: bool = option(True, "Use Nesterov momentum in the Muon part")
    # The compiled step unrolls the iterations, so there must be few.
    ns_steps: int = option(5, "Newton-Schulz iterations", low=1, high=20)
    rms_rate: float = option(0.2, "Size of the updates of the Muon part", above=0)
    adam_lr_ratio: float = option(1.0, "Factor on the learning rate of the Adam part", low=0)
    exclude_embeddings: bool = option(True, "Use Adam for embeddings")


class AdaBeliefOptimizer(OptimizerParams):
    """AdaBelief (Zhuang et al., 2020), with the rectified step of RAdam (Liu et al., 2019)."""

    beta_1: float = _decay(0.9, "Decay rate of the mean of the gradients (first moment)")
    # Rectified, at 0.6 and below RAdam never leaves its first phase, in which the step is not adaptive.
    beta_2: float = _decay(0.999, "Decay rate of the mean of the squared deviations from the first moment", above=0.6)
    epsilon: float = option(1e-14, "Constant added to the mean of the squares in each update, and to its root", above=0)
    rectify: bool = option(True, "Rectify the first updates, in which the mean of the squares has a high variance")

    def cls(self) -> type[keras.optimizers.Optimizer]:
        from tfaip.trainer.optimizer.update import AdaBelief

        return AdaBelief


OPTIMIZERS += [
    AdamOptimizer,
    AdamWOptimizer,
    AdamaxOptimizer,
    AdaBeliefOptimizer,
    NadamOptimizer,
    SGDOptimizer,
    RMSpropOptimizer,
    AdagradOptimizer,
    AdadeltaOptimizer,
    LambOptimizer,
    LionOptimizer,
    AdafactorOptimizer,
    MuonOptimizer,
]
