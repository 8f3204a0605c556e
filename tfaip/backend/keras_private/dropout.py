"""Dropout layers whose rate is a variable."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tfaip.util.typing import Tensor

_DROPOUTS = (
    keras.layers.Dropout,
    keras.layers.SpatialDropout1D,
    keras.layers.SpatialDropout2D,
    keras.layers.SpatialDropout3D,
    keras.layers.GaussianDropout,
)


def is_dropout(layer: keras.layers.Layer) -> bool:
    """Return True if the rate of a layer can be a variable, see `set_dropout_rate`."""
    return type(layer) in _DROPOUTS


def set_dropout_rate(layer: keras.layers.Layer, rate: keras.Variable, seed: int) -> None:
    """Let a dropout layer of Keras read its rate from a variable; `reset_dropout_rate` undoes it.

    The `call` of Keras asks `if self.rate > 0`, and divides by 0 at rate 1. This one gives zeros there, whose gradient
    is 0. The class and the config of the layer stay, so that Keras can store it.

    Args:
        layer: one for which `is_dropout` is True.
        rate: in [0, 1].
        seed: of its random numbers, if the rate of the layer is 0: then it has no generator.
    """
    if not hasattr(layer, "seed_generator"):
        layer._tracker.unlock()
        layer.seed_generator = keras.random.SeedGenerator(seed)
        layer._tracker.lock()
    is_gaussian = isinstance(layer, keras.layers.GaussianDropout)

    def call(inputs: Tensor, training: bool = False) -> Tensor:
        if not training:
            return inputs
        share = ops.cast(rate.value, "float32")
        kept = ops.maximum(1.0 - share, keras.config.epsilon())
        if is_gaussian:
            noise = keras.random.normal(ops.shape(inputs), dtype="float32", seed=layer.seed_generator)
            factor = ops.where(share < 1.0, 1.0 + ops.sqrt(share / kept) * noise, 0.0)
        else:
            shape = _noise_shape(layer, inputs)
            drawn = keras.random.uniform(shape, dtype="float32", seed=layer.seed_generator)
            factor = ops.where(drawn >= share, 1.0 / kept, 0.0)
        return inputs * ops.cast(factor, inputs.dtype)

    object.__setattr__(layer, "call", call)


def reset_dropout_rate(layer: keras.layers.Layer) -> None:
    """Let a dropout layer read its rate from its own attribute again."""
    vars(layer).pop("call", None)


def _noise_shape(layer: Any, inputs: Tensor) -> tuple[Any, ...]:
    sizes = ops.shape(inputs)
    chosen = layer._get_noise_shape(inputs) if hasattr(layer, "_get_noise_shape") else layer.noise_shape
    if chosen is None:
        return tuple(sizes)
    return tuple(size if own is None else own for own, size in zip(chosen, sizes, strict=True))
