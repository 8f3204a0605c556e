"""Penalties on the size of weights, chosen by rules of the training instead of by the layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import keras
from keras import ops

from tfaip.util.typing import Tensor


@dataclass(frozen=True)
class WeightPenalty:
    """Sum of l1 |w| + l2 w^2 over all elements of some weights, as the regularisers of Keras have it.

    Args:
        weights: the weights.
        l1: factor of the absolute values, a number or a variable; 0: none.
        l2: factor of the squares, likewise.
    """

    weights: Sequence[keras.Variable]
    l1: float | keras.Variable
    l2: float | keras.Variable

    def value(self) -> Tensor:
        """Return the penalty, a float32 scalar."""
        total = ops.zeros((), dtype="float32")
        for weight in self.weights:
            w = ops.cast(weight, "float32")
            if _is_used(self.l1):
                total = total + self.l1 * ops.sum(ops.abs(w))
            if _is_used(self.l2):
                total = total + self.l2 * ops.sum(ops.square(w))
        return total


def _is_used(factor: float | keras.Variable) -> bool:
    return isinstance(factor, keras.Variable) or factor != 0
