"""Terms of the total loss, weighted."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

from tfaip.backend.keras_private.numbers import NumberVariable
from tfaip.util.typing import Tensor

# Samples of the batch that is trained, over all devices, as float32. Replicas of TensorFlow are threads.
batch_samples: ContextVar[Any] = ContextVar("batch_samples", default=1.0)


def with_weight(loss: Tensor, weight: Any) -> Tensor:
    """Return a loss times its weight, a number or a variable.

    If that is the number 0 nothing is left of the loss, which need not be finite: after a variable of 0 the gradient
    would be computed all the same, and NaN times 0 is NaN.
    """
    if is_zero(weight):
        return ops.zeros((), dtype="float32")
    if isinstance(weight, NumberVariable):
        # One that is scheduled may become 0: then the loss counts nothing, whatever it is.
        return ops.where(weight.value > 0, weight.value * loss, 0.0)
    return weight * loss


def is_zero(weight: Any) -> bool:
    return isinstance(weight, int | float) and weight == 0


def with_sample_weights(value: Tensor, sample_weight: Tensor | None) -> Tensor:
    value = ops.cast(value, "float32")
    if sample_weight is not None:
        weight = ops.cast(sample_weight, "float32")
        value = value * ops.reshape(weight, (-1, *([1] * (len(value.shape) - 1))))
    return value


def batch_size_of(x: Any) -> Tensor:
    return ops.shape(keras.tree.flatten(x)[0])[0]
