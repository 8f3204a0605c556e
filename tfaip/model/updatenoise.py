"""Noise on the weights of a model in each update, which the trainer params ask for (`trainer.weight_noise`).

The noise on the weights of single layers, which a scenario asks for, is `tfaip.layers.weightnoise`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras
from keras import ops

from tfaip.backend.active import backend
from tfaip.layers.noisyvalues import add_noise
from tfaip.util.typing import Tensor


class UpdateNoise:
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
        return backend.replaced_values(layer, list(zip(self._weights, noisy, strict=True)))
