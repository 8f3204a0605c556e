"""Callback that compares the weights before and after a training."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from tfaip.model.variables import variables_by_path
from tfaip.model.weights import variable_arrays


class WatchedWeights(keras.callbacks.Callback):
    """Names of the trained weights that a training has changed.

    Args:
        trainer: whose scenario is trained.
    """

    def __init__(self, trainer: Any) -> None:
        super().__init__()
        self._trainer = trainer
        self._before: dict[str, np.ndarray] = {}
        self.changed: set[str] = set()

    def on_train_begin(self, logs: Any = None) -> None:
        """Copy the first values."""
        self._before = self._weights()

    def on_train_end(self, logs: Any = None) -> None:
        """Compare the last values with them."""
        after = self._weights()
        self.changed = {path for path, values in self._before.items() if not np.array_equal(values, after[path])}

    def _weights(self) -> dict[str, np.ndarray]:
        variables = variables_by_path(self._trainer.scenario.graph)
        return variable_arrays({path: variable for path, variable in variables.items() if variable.trainable})
