"""Private names of optimizers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from tfaip.util.typing import Tensor


class OpenOptimizer(keras.optimizers.Optimizer):
    """Optimizer whose handling of a whole batch, and of a list of weights, can be replaced.

    The public `apply` and `update_step` come before and after what Keras does on its own: it reduces gradients over
    replicas within the update, and enters the context of all of them, which no branch of a compiled step can.
    """

    @property
    def trained_weights(self) -> Sequence[keras.Variable]:
        """The weights that the optimizer was built for."""
        weights: Sequence[keras.Variable] = self._trainable_variables
        return weights

    @property
    def batch_counter(self) -> keras.Variable:
        """The number of calls of `apply`; `iterations` of a subclass may count something else."""
        return self._iterations

    @property
    def state(self) -> list[keras.Variable]:
        """All variables but the counter and the learning rate."""
        return [v for v in self.variables if v is not self._iterations and v is not self._learning_rate]

    def track(self, variable: keras.Variable) -> None:
        """Take over a variable that was made elsewhere; the public `add_variable` only makes new ones."""
        self._track_variable(variable)

    def apply_gradients_of_batch(self, gradients: list[Tensor], weights: list[Any]) -> None:
        """Update the weights with the gradients of a batch; default: as Keras."""
        super()._backend_apply_gradients(gradients, weights)

    def run_update(self, gradients: list[Tensor], weights: Sequence[Any], rate: Tensor) -> None:
        """Call `update_weights`, after what the Keras class does once per update: Nadam multiplies a variable there."""
        self._backend_update_step(gradients, weights, rate)

    def update_weights(self, gradients: list[Tensor], weights: Sequence[Any], rate: Tensor) -> None:
        """Update each weight; default: as Keras."""
        super()._backend_update_step(gradients, weights, rate)

    def _backend_apply_gradients(self, grads: list[Tensor], trainable_variables: list[Any]) -> None:
        self.apply_gradients_of_batch(grads, trainable_variables)

    def _backend_update_step(self, grads: list[Tensor], trainable_variables: Any, learning_rate: Tensor) -> None:
        self.update_weights(grads, trainable_variables, learning_rate)


def adam_moments(optimizer: keras.optimizers.Adam, weight: Any) -> tuple[keras.Variable, keras.Variable]:
    """Return the two moments of a weight; the public `variables` does not tell which weight one belongs to."""
    index = optimizer._get_variable_index(weight)
    return optimizer._momentums[index], optimizer._velocities[index]
