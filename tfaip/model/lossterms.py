"""Terms of the total loss, weighted."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

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
    if isinstance(weight, keras.Variable):
        # It may become 0: then the loss counts nothing, whatever it is.
        return ops.where(ops.not_equal(weight.value, 0.0), weight.value * loss, 0.0)
    return weight * loss


def is_zero(weight: Any) -> bool:
    return isinstance(weight, int | float) and weight == 0


def weights_like(weights: Tensor, values: Tensor, name: str) -> Tensor:
    """Return the weights of samples, or of their steps, in the shape of the values of a loss.

    Raises:
        ValueError: if the loss is a scalar, or the shapes do not fit.
    """
    weights = ops.cast(weights, "float32")
    given = tuple(weights.shape)
    while len(weights.shape) > len(values.shape) and weights.shape[-1] == 1:
        weights = ops.squeeze(weights, axis=-1)
    while len(weights.shape) < len(values.shape):
        weights = ops.expand_dims(weights, axis=-1)
    sizes = zip(weights.shape, values.shape, strict=False)
    fits = all(size in (1, None, of_values) or of_values is None for size, of_values in sizes)
    if not given or not 0 < len(values.shape) == len(weights.shape) or not fits:
        raise ValueError(
            f"_sample_weights returned weights of the shape {given} for the loss {name!r}, whose values have the shape "
            f"{tuple(values.shape)}: return a value per sample from the loss, and a weight for each"
        )
    return ops.broadcast_to(weights, ops.shape(values))


def batch_size_of(x: Any) -> Tensor:
    return ops.shape(keras.tree.flatten(x)[0])[0]
