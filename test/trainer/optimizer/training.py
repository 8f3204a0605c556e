"""Weights with an optimizer, for tests that give the gradients themselves."""

from typing import Any

import keras
import numpy as np
from keras import ops

from tfaip.trainer.optimizer import OptimizerParams
from tfaip.trainer.optimizer.trainingoptimizer import TrainingOptimizer


class Training:
    """Variables by path with an optimizer of rate 1.

    Args:
        params: the optimizer params.
        starts: first values by path.
        arguments: of `TrainingOptimizer`.
    """

    def __init__(self, params: OptimizerParams, starts: dict[str, Any], **arguments: Any) -> None:
        self.weights = {path: keras.Variable(np.array(value, np.float32)) for path, value in starts.items()}
        self.optimizer = TrainingOptimizer(params, self.weights, list(self.weights.values()), **arguments)
        self.optimizer.schedule.base.assign(1.0)

    def step(self, *gradients: Any) -> list[Any]:
        """Apply the gradients of a batch, one per variable; the values afterwards."""
        self.optimizer.apply([ops.convert_to_tensor(np.array(g, np.float32)) for g in gradients])
        return self.values()

    def values(self) -> list[Any]:
        """The values as they are now."""
        return [ops.convert_to_numpy(variable.value).tolist() for variable in self.weights.values()]

    def state(self) -> dict[str, Any]:
        """Values of all variables of the optimizer by name."""
        named = self.optimizer.named_variables(self.weights)
        return {name: ops.convert_to_numpy(variable.value).tolist() for name, variable in named.items()}
