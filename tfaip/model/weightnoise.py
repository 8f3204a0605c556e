"""Variational noise on weights: in the forward pass of the training they are drawn from a normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras
from keras import ops

from tfaip.backend import keras_private
from tfaip.util.typing import Tensor


class WeightNoise:
    """Noise normal(0, stddev) on weights in the forward pass of a training step (Graves, 2011).

    The gradients are those at the noisy weights; the update changes the weights themselves. The noise of an update is
    a function of the seed and of its number, the same on all devices and in all batches of the update.

    Args:
        stddev: standard deviation, a number or a variable.
        seed: of the noise.
    """

    def __init__(self, stddev: float | keras.Variable, seed: int) -> None:
        self._stddev = stddev
        self._seed = seed % 2**31
        self.generator = keras.random.SeedGenerator(seed)
        self._weights: Sequence[keras.Variable] = ()

    def bind(self, weights: Sequence[keras.Variable]) -> None:
        """Take the weights that get noise."""
        self._weights = list(weights)

    def begin_update(self, number: Tensor) -> None:
        """Choose the noise of an update, an integer from 0; called inside of the compiled step."""
        state = self.generator.state
        seed = ops.cast(ops.convert_to_tensor(self._seed, dtype="int32"), state.dtype)
        state.assign(ops.stack([seed, ops.cast(number, state.dtype)]))

    def applied(self, layer: keras.layers.Layer) -> AbstractContextManager[Any]:
        """Return a context in which the weights have noise; `layer` takes over the losses of layers in it."""
        if not self._weights:
            return nullcontext()
        values = [ops.convert_to_tensor(weight) for weight in self._weights]
        noisy = add_noise(values, ops.convert_to_tensor(self._stddev, dtype="float32"), self.generator)
        return keras_private.replaced_values(layer, list(zip(self._weights, noisy, strict=True)))


def add_noise(values: Sequence[Tensor], deviation: Tensor, generator: keras.random.SeedGenerator) -> list[Tensor]:
    """Return tensors with noise normal(0, deviation) on each element."""
    sizes = [math.prod(value.shape) for value in values]
    # One draw for all, since every draw has an overhead of its own. The numbers for 100,000 weights take 0.5 ms on JAX
    # and 0.9 ms on TensorFlow, with any generator.
    noise = deviation * keras.random.normal((sum(sizes),), dtype="float32", seed=generator)
    noisy, begin = [], 0
    for value, size in zip(values, sizes, strict=True):
        part = ops.reshape(noise[begin : begin + size], value.shape)
        noisy.append(value + ops.cast(part, value.dtype))
        begin += size
    return noisy
