"""The optimizers as params: those of Keras, with the defaults of Keras, and ours. Needs no backend."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tfaip.params import pai_dataclass, pai_meta
from tfaip.trainer.optimizer.params import OPTIMIZERS, OptimizerParams

if TYPE_CHECKING:
    import keras

_BETA_1 = "Decay rate of the mean of the gradients (first moment)"
_BETA_2 = "Decay rate of the mean of the squared gradients (second moment)"
_EPSILON = "Added to the denominator against division by zero; never changed by anything else"


@pai_dataclass
@dataclass
class KerasOptimizerParams(OptimizerParams):
    """An optimizer of Keras whose own fields are the constructor arguments of the Keras class of the same name.

    A subclass of a user has the Keras class of the nearest class that it derives from.
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

    momentum: float = field(default=0.0, metadata=pai_meta(help="Momentum, in [0, 1]"))
    nesterov: bool = field(default=False, metadata=pai_meta(help="Use Nesterov momentum"))


@pai_dataclass
@dataclass
class AdamOptimizer(KerasOptimizerParams):
    """Adam (Kingma and Ba, 2014)."""

    beta_1: float = field(default=0.9, metadata=pai_meta(help=_BETA_1))
    beta_2: float = field(default=0.999, metadata=pai_meta(help=_BETA_2))
    epsilon: float = field(default=1e-7, metadata=pai_meta(help=_EPSILON))
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

        # The decay is decoupled on every optimizer of the toolkit, and may be 0, which the AdamW of Keras refuses.
        return keras.optimizers.Adam


@pai_dataclass
@dataclass
class AdamaxOptimizer(KerasOptimizerParams):
    """Adamax, Adam with the infinity norm (Kingma and Ba, 2014)."""

    beta_1: float = field(default=0.9, metadata=pai_meta(help=_BETA_1))
    beta_2: float = field(default=0.999, metadata=pai_meta(help=_BETA_2))
    epsilon: float = field(default=1e-7, metadata=pai_meta(help=_EPSILON))


@pai_dataclass
@dataclass
class NadamOptimizer(KerasOptimizerParams):
    """Adam with Nesterov momentum (Dozat, 2015)."""

    beta_1: float = field(default=0.9, metadata=pai_meta(help=_BETA_1))
    beta_2: float = field(default=0.999, metadata=pai_meta(help=_BETA_2))
    epsilon: float = field(default=1e-7, metadata=pai_meta(help=_EPSILON))


@pai_dataclass
@dataclass
class RMSpropOptimizer(KerasOptimizerParams):
    """RMSprop (Hinton, 2012)."""

    rho: float = field(default=0.9, metadata=pai_meta(help="Decay rate of the mean of the squared gradients"))
    momentum: float = field(default=0.0, metadata=pai_meta(help="Momentum, in [0, 1]"))
    epsilon: float = field(default=1e-7, metadata=pai_meta(help=_EPSILON))
    centered: bool = field(default=False, metadata=pai_meta(help="Normalise by the variance instead of the square"))


@pai_dataclass
@dataclass
class AdagradOptimizer(KerasOptimizerParams):
    """Adagrad (Duchi et al., 2011)."""

    initial_accumulator_value: float = field(default=0.1, metadata=pai_meta(help="Start value of the sum of squares"))
    epsilon: float = field(default=1e-7, metadata=pai_meta(help=_EPSILON))


@pai_dataclass
@dataclass
class AdadeltaOptimizer(KerasOptimizerParams):
    """Adadelta (Zeiler, 2012)."""

    rho: float = field(default=0.95, metadata=pai_meta(help="Decay rate of the means of the squares"))
    epsilon: float = field(default=1e-7, metadata=pai_meta(help=_EPSILON))


@pai_dataclass(alt="LAMB")
@dataclass
class LambOptimizer(KerasOptimizerParams):
    """LAMB, layer-wise adapted Adam for large batches (You et al., 2019)."""

    beta_1: float = field(default=0.9, metadata=pai_meta(help=_BETA_1))
    beta_2: float = field(default=0.999, metadata=pai_meta(help=_BETA_2))
    epsilon: float = field(default=1e-7, metadata=pai_meta(help=_EPSILON))


@pai_dataclass
@dataclass
class LionOptimizer(KerasOptimizerParams):
    """Lion, sign of an interpolated momentum (Chen et al., 2023)."""

    beta_1: float = field(default=0.9, metadata=pai_meta(help="Interpolation of momentum and gradient for the update"))
    beta_2: float = field(default=0.99, metadata=pai_meta(help="Decay rate of the momentum"))


@pai_dataclass(alt="FTRL")
@dataclass
class FtrlOptimizer(KerasOptimizerParams):
    """FTRL (McMahan et al., 2013)."""

    learning_rate_power: float = field(default=-0.5, metadata=pai_meta(help="Power of the decay of the rate, <= 0"))
    initial_accumulator_value: float = field(default=0.1, metadata=pai_meta(help="Start value of the sum of squares"))
    l1_regularization_strength: float = field(default=0.0, metadata=pai_meta(help="L1 penalty, >= 0"))
    l2_regularization_strength: float = field(default=0.0, metadata=pai_meta(help="L2 penalty, >= 0"))


@pai_dataclass
@dataclass
class AdafactorOptimizer(KerasOptimizerParams):
    """Adafactor, factored second moments (Shazeer and Stern, 2018)."""

    beta_2_decay: float = field(default=-0.8, metadata=pai_meta(help="Exponent of the decay of the second moment"))
    epsilon_1: float = field(default=1e-30, metadata=pai_meta(help="Added to the squared gradients"))
    epsilon_2: float = field(default=1e-3, metadata=pai_meta(help="Lower bound of the scale of the weights"))
    clip_threshold: float = field(default=1.0, metadata=pai_meta(help="Clip threshold of the update"))
    relative_step: bool = field(default=True, metadata=pai_meta(help="Bound the rate by 1/sqrt(updates)"))


@pai_dataclass
@dataclass
class MuonOptimizer(KerasOptimizerParams):
    """Muon, orthogonalised momentum for matrices, Adam for the rest (Jordan et al., 2024)."""

    adam_beta_1: float = field(default=0.9, metadata=pai_meta(help=f"Adam part: {_BETA_1}"))
    adam_beta_2: float = field(default=0.999, metadata=pai_meta(help=f"Adam part: {_BETA_2}"))
    epsilon: float = field(default=1e-7, metadata=pai_meta(help=_EPSILON))
    momentum: float = field(default=0.95, metadata=pai_meta(help="Momentum of the Muon part"))
    nesterov: bool = field(default=True, metadata=pai_meta(help="Use Nesterov momentum in the Muon part"))
    ns_steps: int = field(default=5, metadata=pai_meta(help="Newton-Schulz iterations"))


@pai_dataclass
@dataclass
class AdaBeliefOptimizer(KerasOptimizerParams):
    """AdaBelief (Zhuang et al., 2020), with the rectified step of RAdam (Liu et al., 2019)."""

    beta_1: float = field(default=0.9, metadata=pai_meta(help=_BETA_1))
    beta_2: float = field(
        default=0.999,
        metadata=pai_meta(help="Decay rate of the mean of the squared deviations from the first moment"),
    )
    epsilon: float = field(
        default=1e-14, metadata=pai_meta(help="Added to the mean of the squares in each update, and to its root")
    )
    rectify: bool = field(
        default=True, metadata=pai_meta(help="Rectify the first steps, while the mean of the squares varies much")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        # At 0.6 and below RAdam never leaves its first phase, in which the step is not adaptive.
        if self.rectify and self.beta_2 <= 0.6:
            raise ValueError(
                f"beta_2 is {self.beta_2}, expected a number in (0.6, 1) with --optimizer.rectify: change "
                "--optimizer.beta_2"
            )

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
