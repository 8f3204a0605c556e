"""AdaBelief, which Keras does not have."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from tfaip.util.typing import Tensor

# Liu et al.: for rho_t up to this value the adaptive step has no finite variance.
_TRACTABLE = 4.0


class AdaBelief(keras.optimizers.Optimizer):
    """AdaBelief (Zhuang et al., 2020), by default with the rectified step of RAdam (Liu et al., 2019).

    With gradient g_t of update t = 1, 2, ... (Zhuang et al., algorithm 2):

        m_t = beta_1 m_(t-1) + (1 - beta_1) g_t
        s_t = beta_2 s_(t-1) + (1 - beta_2) (g_t - m_t)^2 + epsilon
        step = m_t / (1 - beta_1^t) / (sqrt(s_t / (1 - beta_2^t)) + epsilon)
        weight -= learning_rate * step

    Rectified (Liu et al., algorithm 2), with rho_inf = 2 / (1 - beta_2) - 1:

        rho_t = rho_inf - 2 t beta_2^t / (1 - beta_2^t)
        step *= sqrt((rho_t - 4) (rho_t - 2) rho_inf / ((rho_inf - 4) (rho_inf - 2) rho_t))    if rho_t > 4
        step = m_t / (1 - beta_1^t)                                                           otherwise

    Args:
        learning_rate: as in Keras.
        beta_1: decay rate of the mean of the gradients, in [0, 1).
        beta_2: decay rate of the mean of their squared deviation from it, in [0, 1), above 0.6 if rectified.
        epsilon: added to the mean squared deviation in every update, and to its root. The paper has 1e-8; its authors
            recommend 1e-14 for float32 (their package adabelief-tf 0.2).
        rectify: use the rectified step.
        name: as in Keras.
        kwargs: as in Keras.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-14,
        rectify: bool = True,
        name: str = "adabelief",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.beta_1, self.beta_2, self.epsilon, self.rectify = beta_1, beta_2, epsilon, rectify

    def build(self, variables: list[keras.Variable]) -> None:
        """Create the slots; see Keras."""
        if self.built:
            return
        super().build(variables)
        slots = zip(*self.add_optimizer_variables(variables, ["momentum", "belief"]), strict=True)
        self._slots: dict[int, Any] = {}
        for variable, pair in zip(variables, slots, strict=True):
            # Keras itself passes the variable of TensorFlow to `update_step`.
            self._slots[id(variable)] = self._slots[id(variable.value)] = pair

    def update_step(self, gradient: Tensor, variable: Any, learning_rate: Tensor) -> None:
        """Update one variable; see Keras."""
        m, s = self._slots[id(variable)]
        t = ops.cast(self.iterations + 1, variable.dtype)
        surprise = ops.subtract(ops.cast(gradient, variable.dtype), m)
        new_m = m + (1.0 - self.beta_1) * surprise
        # g_t - m_t = beta_1 (g_t - m_(t-1))
        deviation = self.beta_1 * surprise
        new_s = self.beta_2 * s + (1.0 - self.beta_2) * ops.square(deviation) + self.epsilon
        self.assign(m, new_m)
        self.assign(s, new_s)
        direction = new_m / _one_minus_power(self.beta_1, t)
        step = direction / (ops.sqrt(new_s / _one_minus_power(self.beta_2, t)) + self.epsilon)
        if self.rectify:
            # beta^t / (1 - beta^t) = 1 / (beta^-t - 1). With expm1, float32 keeps the digits of this difference, which
            # is small for beta close to 1.
            limit = 2.0 / (1.0 - self.beta_2) - 1.0
            rho = limit - 2.0 * t / ops.expm1(-math.log(self.beta_2) * t)
            r = ops.maximum(rho, _TRACTABLE)
            factor = ops.sqrt((r - 4.0) * (r - 2.0) * limit / ((limit - 4.0) * (limit - 2.0) * r))
            step = ops.where(rho > _TRACTABLE, factor * step, direction)
        self.assign_sub(variable, ops.cast(learning_rate, variable.dtype) * step)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor arguments; see Keras."""
        names = ("beta_1", "beta_2", "epsilon", "rectify")
        return super().get_config() | {name: getattr(self, name) for name in names}


def _one_minus_power(beta: float, t: Tensor) -> Tensor:
    """Return 1 - beta^t, without loss of digits for beta close to 1."""
    return -ops.expm1(math.log(beta) * t) if beta > 0 else ops.ones_like(t)
