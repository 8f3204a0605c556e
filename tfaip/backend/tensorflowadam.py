"""Adam on TensorFlow, with one operation for each weight."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfaip.util.typing import Tensor

# Of `1 - beta`, relative: 0.999 has 1.3e-5, 0.9999 has 1.7e-4.
_LARGEST_ROUNDING = 2e-5


class FusedAdam(keras.optimizers.Adam):
    """Adam whose update is one kernel of TensorFlow, instead of a dozen operations that each read and write a weight.

    The kernel computes `1 - beta` in float32, which is 0.00099998713 for `beta_2 = 0.999`: an update differs from that
    of Keras by less than a 100,000th of its size. What would differ by more, betas that are closer to 1, is
    left to Keras.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._moments: dict[tuple[Any, str], keras.Variable] = {}

    def add_variable_from_reference(
        self, reference_variable: keras.Variable, name: str | None = None, initializer: Any = "zeros"
    ) -> keras.Variable:
        """Create a moment of a weight; see Keras."""
        variable = super().add_variable_from_reference(reference_variable, name=name, initializer=initializer)
        self._moments[id(_variable(reference_variable)), str(name)] = variable
        return variable

    def update_step(self, gradient: Tensor, variable: keras.Variable | tf.Variable, learning_rate: Tensor) -> None:
        """Update a weight by the kernel; with AMSGrad or a gradient that is sparse or not float32, as Keras does."""
        weight = _variable(variable)
        is_dense = isinstance(gradient, tf.Tensor) and gradient.dtype == weight.dtype == tf.float32
        if self.amsgrad or not is_dense or not (_is_precise(self.beta_1) and _is_precise(self.beta_2)):
            super().update_step(gradient, variable, learning_rate)
            return
        momentum, velocity = (self._moments[id(weight), name] for name in ("momentum", "velocity"))
        beta_1, beta_2 = tf.cast(self.beta_1, tf.float32), tf.cast(self.beta_2, tf.float32)
        count = tf.cast(self.iterations + 1, tf.float32)
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle,
            m=momentum.value.handle,
            v=velocity.value.handle,
            beta1_power=tf.pow(beta_1, count),
            beta2_power=tf.pow(beta_2, count),
            lr=tf.cast(learning_rate, tf.float32),
            beta1=beta_1,
            beta2=beta_2,
            epsilon=tf.cast(self.epsilon, tf.float32),
            grad=gradient,
        )


def _variable(variable: keras.Variable | tf.Variable) -> tf.Variable:
    """Return the variable of TensorFlow, which Keras itself passes to `update_step`."""
    return variable.value if isinstance(variable, keras.Variable) else variable


def _is_precise(beta: float) -> bool:
    """Return True if float32 has enough digits for `1 - beta`."""
    return abs(float(1 - np.float32(beta)) - (1 - beta)) <= _LARGEST_ROUNDING * (1 - beta)
