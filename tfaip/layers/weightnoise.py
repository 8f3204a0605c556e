"""Normal noise on weights in the updates of a training (`trainer.weight_noise`)."""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras
import numpy as np
from keras import ops

from tfaip.backend.active import backend
from tfaip.util.typing import Tensor

# An integer hash of 32 bits whose every output bit depends on every input bit (Wellons, 2018: "lowbias32").
_FACTORS = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
# Between the two hashes of a number.
_STEP = np.uint32(0x9E3779B9)
# Of a count of 32 random bits and two uniform numbers below 1: variance, excess kurtosis, and mean, in units of 2^-24.
_VARIANCE = 8 + 2 / 12
_EXCESS = -(4 + 2 / 120) / _VARIANCE**2
_MEAN = np.int32(17 * 2**24 - 128)


def add_noise(values: Sequence[Tensor], deviation: Tensor, generator: keras.random.SeedGenerator) -> list[Tensor]:
    """Return tensors with noise normal(0, deviation) on each element.

    Args:
        values: of any shapes.
        deviation: a scalar.
        generator: whose next seed decides about the noise.
    """
    sizes = [math.prod(value.shape) for value in values]
    noise = deviation * backend.fused(normal)(ops.cast(generator.next(), "uint32"), sum(sizes))
    noisy, begin = [], 0
    for value, size in zip(values, sizes, strict=True):
        part = ops.reshape(noise[begin : begin + size], value.shape)
        noisy.append(value + ops.cast(part, value.dtype))
        begin += size
    return noisy


def normal(seed: Tensor, size: int) -> Tensor:
    """Return normal float32 numbers: the shares below any limit are those of the normal distribution up to 0.0002.

    The generators of the backends take 0.4 to 0.9 ms for the 100,000 weights of a tiny model, several times its step.
    These numbers cost a tenth: each is a function of its position and of the seed, and simple enough for one loop of
    vector instructions. The number of ones among 32 random bits is almost normal; two uniform numbers fill the gaps
    between the integers, and a cubic term (Cornish and Fisher) corrects the tails, which would be too light. The
    variance is 0.9997, the largest possible value 6.43.

    Args:
        seed: two numbers (uint32).
        size: how many.
    """
    # Each seed walks through the 32-bit integers from another place and in steps of another length.
    start = _scrambled(_scrambled(seed[0] + _STEP) + seed[1])
    step = _scrambled(start + _STEP) | np.uint32(1)
    first = _scrambled(ops.cast(ops.arange(size, dtype="int32"), "uint32") * step + start)
    second = _scrambled(first + _STEP)
    uniform = ops.right_shift(second, np.uint32(16)) + (second & np.uint32(0xFFFF))
    # In units of 2^-24, so that the sum is exact; below 2^-16 some bits of the first number do.
    units = (
        ops.left_shift(_ones(first), np.uint32(24)) + ops.left_shift(uniform, np.uint32(8)) + (first & np.uint32(0xFF))
    )
    x = ops.cast(ops.cast(units, "int32") - _MEAN, "float32") * np.float32(2**-24 * _VARIANCE**-0.5)
    return x - np.float32(_EXCESS / 24) * (x * x * x - 3 * x)


def _scrambled(bits: Tensor) -> Tensor:
    bits = (bits ^ ops.right_shift(bits, np.uint32(16))) * _FACTORS[0]
    bits = (bits ^ ops.right_shift(bits, np.uint32(15))) * _FACTORS[1]
    return bits ^ ops.right_shift(bits, np.uint32(16))


def _ones(bits: Tensor) -> Tensor:
    """Return how many bits of each number are set."""
    bits = bits - (ops.right_shift(bits, np.uint32(1)) & np.uint32(0x55555555))
    bits = (bits & np.uint32(0x33333333)) + (ops.right_shift(bits, np.uint32(2)) & np.uint32(0x33333333))
    bits = (bits + ops.right_shift(bits, np.uint32(4))) & np.uint32(0x0F0F0F0F)
    return ops.right_shift(bits * np.uint32(0x01010101), np.uint32(24))


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
