"""Params of the optimizers: those of Keras, with its defaults, and AdaBelief. Needs no backend."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tfaip.params import pai_dataclass, pai_meta
from tfaip.params.limits import FieldError, limits
from tfaip.trainer.optimizer.params import OPTIMIZERS, OptimizerParams

if TYPE_CHECKING:
    import keras

_DECAY = limits(low=0, below=1)  # with 1 the mean would never change
_MOMENTUM = limits(low=0, high=1)
_BETA_1 = pai_meta(help="Decay rate of the mean of the gradients (first moment)") | _DECAY
_BETA_2 = pai_meta(help="Decay rate of the mean of the squared gradients (second moment)") | _DECAY
# With 0, a gradient that has always been 0 (a dead unit) would be divided by 0.
_EPSILON = pai_meta(help="Constant added to the denominator against division by zero") | limits(above=0)


@pai_dataclass
@dataclass
class KerasOptimizerParams(OptimizerParams):
    """An optimizer of Keras: its own fields are the constructor arguments of the Keras class of the same name.

    A subclass of a user describes the Keras class of its nearest base class.
    """

    def cls(self) -> type[keras.optimizers.Optimizer]:
        import keras

        names = [base.__name__.removesuffix("Optimizer") for base in type(self).__mro__]
        found = [getattr(keras.optimizers, name) for name in names if hasattr(keras.optimizers, name)]
        if not found:
            raise TypeError(f"keras.optimizers has no {names[0]}: override cls() of {type(self).__name__}")
        return found[0]

    def arguments(self) -> dict[str, Any]:
        shared = {field.name for field in dataclasses.fields(OptimizerParams)}
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in shared}


@pai_dataclass
@dataclass
class SGDOptimizer(KerasOptimizerParams):
    """Stochastic gradient descent, optionally with momentum."""

    momentum: float = field(default=0.0, metadata=pai_meta(help="Momentum, in [0, 1]") | _MOMENTUM)
    nesterov: bool = field(default=False, metadata=pai_meta(help="Use Nesterov momentum"))


@pai_dataclass
@dataclass
class AdamOptimizer(KerasOptimizerParams):
    """Adam (Kingma and Ba, 2014)."""

    beta_1: float = field(default=0.9, metadata=_BETA_1)
    beta_2: float = field(default=0.999, metadata=_BETA_2)
    epsilon: float = field(default=1e-7, metadata=_EPSILON)
    amsgrad: bool = field(default=False, metadata=pai_meta(help="Use the AMSGrad variant (Reddi et al., 2018)"))


@pai_dataclass
@dataclass
class AdamWOptimizer(AdamOptimizer):
    """Adam with decoupled weight decay on by default (Loshchilov and Hutter, 2017)."""

    weight_decay: float = field(
        default=0.004,
        metadata=pai_meta(help="Decoupled weight decay: weights shrink by rate * weight_decay per update"),
    )

    def cls(self) -> type[keras.optimizers.Optimizer]:
        import keras

        # `GroupOptimizer` decouples the decay of every optimizer. Keras' AdamW would refuse a decay of 0.
        return keras.optimizers.Adam


@pai_dataclass
@dataclass
class AdamaxOptimizer(KerasOptimizerParams):
    """Adamax, Adam with the infinity norm (Kingma and Ba, 2014)."""

    beta_1: float = field(default=0.9, metadata=_BETA_1)
    beta_2: float = field(default=0.999, metadata=_BETA_2)
    epsilon: float = field(default=1e-7, metadata=_EPSILON)


@pai_dataclass
@dataclass
class NadamOptimizer(KerasOptimizerParams):
    """Adam with Nesterov momentum (Dozat, 2015)."""

    beta_1: float = field(default=0.9, metadata=_BETA_1)
    beta_2: float = field(default=0.999, metadata=_BETA_2)
    epsilon: float = field(default=1e-7, metadata=_EPSILON)


@pai_dataclass
@dataclass
class RMSpropOptimizer(KerasOptimizerParams):
    """RMSprop (Hinton, 2012)."""

    rho: float = field(default=0.9, metadata=pai_meta(help="Decay rate of the mean of the squared gradients") | _DECAY)
    momentum: float = field(default=0.0, metadata=pai_meta(help="Momentum, in [0, 1]") | _MOMENTUM)
    epsilon: float = field(default=1e-7, metadata=_EPSILON)
    centered: bool = field(default=False, metadata=pai_meta(help="Normalise by the variance instead of the square"))


@pai_dataclass
@dataclass
class AdagradOptimizer(KerasOptimizerParams):
    """Adagrad (Duchi et al., 2011)."""

    initial_accumulator_value: float = field(
        default=0.1, metadata=pai_meta(help="Initial value of the sum of squares") | limits(low=0)
    )
    epsilon: float = field(default=1e-7, metadata=_EPSILON)


@pai_dataclass
@dataclass
class AdadeltaOptimizer(KerasOptimizerParams):
    """Adadelta (Zeiler, 2012)."""

    rho: float = field(default=0.95, metadata=pai_meta(help="Decay rate of the means of the squares") | _DECAY)
    epsilon: float = field(default=1e-7, metadata=_EPSILON)


@pai_dataclass(alt="LAMB")
@dataclass
class LambOptimizer(KerasOptimizerParams):
    """LAMB, layer-wise adapted Adam for large batches (You et al., 2019)."""

    beta_1: float = field(default=0.9, metadata=_BETA_1)
    beta_2: float = field(default=0.999, metadata=_BETA_2)
    epsilon: float = field(default=1e-7, metadata=_EPSILON)


@pai_dataclass
@dataclass
class LionOptimizer(KerasOptimizerParams):
    """Lion, sign of an interpolated momentum (Chen et al., 2023)."""

    # Keras refuses beta_1 = 0, with which the update would be the sign of the gradient.
    beta_1: float = field(
        default=0.9,
        metadata=pai_meta(help="Weight of the momentum, against that of the gradient, in the update")
        | limits(above=0, high=1),
    )
    beta_2: float = field(default=0.99, metadata=pai_meta(help="Decay rate of the momentum") | _DECAY)


@pai_dataclass(alt="FTRL")
@dataclass
class FtrlOptimizer(KerasOptimizerParams):
    """FTRL (McMahan et al., 2013)."""

    learning_rate_power: float = field(
        default=-0.5, metadata=pai_meta(help="Exponent of the decay of the rate, at most 0") | limits(high=0)
    )
    # The root of the sum is a denominator, so it cannot be 0.
    initial_accumulator_value: float = field(
        default=0.1, metadata=pai_meta(help="Initial value of the sum of squares") | limits(above=0)
    )
    l1_regularization_strength: float = field(
        default=0.0, metadata=pai_meta(help="Factor of the L1 penalty") | limits(low=0)
    )
    l2_regularization_strength: float = field(
        default=0.0, metadata=pai_meta(help="Factor of the L2 penalty") | limits(low=0)
    )
    l2_shrinkage_regularization_strength: float = field(
        default=0.0,
        metadata=pai_meta(help="Factor of the L2 penalty on the size of the weights alone") | limits(low=0),
    )
    beta: float = field(
        default=0.0, metadata=pai_meta(help="Smoothing of the rates, added to the L2 penalty") | limits(low=0)
    )


@pai_dataclass
@dataclass
class AdafactorOptimizer(KerasOptimizerParams):
    """Adafactor, factored second moments (Shazeer and Stern, 2018)."""

    beta_2_decay: float = field(
        default=-0.8, metadata=pai_meta(help="Exponent of the decay of the second moment, at most 0") | limits(high=0)
    )
    epsilon_1: float = field(
        default=1e-30, metadata=pai_meta(help="Constant added to the squared gradients") | limits(above=0)
    )
    # With 0, weights that begin at 0 never move.
    epsilon_2: float = field(
        default=1e-3, metadata=pai_meta(help="Lower bound of the scale of the weights") | limits(above=0)
    )
    clip_threshold: float = field(
        default=1.0, metadata=pai_meta(help="Maximum root mean square of an update") | limits(above=0)
    )
    relative_step: bool = field(default=True, metadata=pai_meta(help="Bound the rate by 1/sqrt(updates)"))


@pai_dataclass
@dataclass
class MuonOptimizer(KerasOptimizerParams):
    """Muon, orthogonalised momentum for matrices, Adam for the rest (Jordan et al., 2024)."""

    adam_beta_1: float = field(
        default=0.9, metadata=pai_meta(help="Adam part: decay rate of the mean of the gradients") | _DECAY
    )
    adam_beta_2: float = field(
        default=0.999, metadata=pai_meta(help="Adam part: decay rate of the mean of the squared gradients") | _DECAY
    )
    epsilon: float = field(default=1e-7, metadata=_EPSILON)
    momentum: float = field(default=0.95, metadata=pai_meta(help="Momentum of the Muon part") | _MOMENTUM)
    nesterov: bool = field(default=True, metadata=pai_meta(help="Use Nesterov momentum in the Muon part"))
    # The compiled step unrolls the iterations, so there must be few.
    ns_steps: int = field(default=5, metadata=pai_meta(help="Newton-Schulz iterations") | limits(low=1, high=20))
    rms_rate: float = field(
        default=0.2,
        metadata=pai_meta(help="Size of the updates of the Muon part") | limits(above=0),
    )
    adam_lr_ratio: float = field(
        default=1.0, metadata=pai_meta(help="Factor on the learning rate of the Adam part") | limits(low=0)
    )
    exclude_embeddings: bool = field(default=True, metadata=pai_meta(help="Use Adam for embeddings"))


@pai_dataclass
@dataclass
class AdaBeliefOptimizer(KerasOptimizerParams):
    """AdaBelief (Zhuang et al., 2020), with the rectified step of RAdam (Liu et al., 2019)."""

    beta_1: float = field(default=0.9, metadata=_BETA_1)
    beta_2: float = field(
        default=0.999,
        metadata=pai_meta(help="Decay rate of the mean of the squared deviations from the first moment") | _DECAY,
    )
    epsilon: float = field(
        default=1e-14,
        metadata=pai_meta(help="Constant added to the mean of the squares in each update, and to its root")
        | limits(above=0),
    )
    rectify: bool = field(
        default=True,
        metadata=pai_meta(help="Rectify the first updates, in which the mean of the squares has a high variance"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        # At 0.6 and below RAdam never leaves its first phase, in which the step is not adaptive.
        if self.rectify and self.beta_2 <= 0.6:
            raise FieldError("beta_2", self.beta_2, "a number in (0.6, 1) if rectify is True", others=["rectify"])

    def cls(self) -> type[keras.optimizers.Optimizer]:
        from tfaip.trainer.optimizer.adabelief import AdaBelief

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
    FtrlOptimizer,
    AdafactorOptimizer,
    MuonOptimizer,
]
