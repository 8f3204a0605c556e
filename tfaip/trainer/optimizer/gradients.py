"""Noise and clips, applied in this order to the gradients of an update before its update rule.

They act on the gradient of the whole update: the mean over its batches, summed over the devices.
Keras' clip arguments act per replica under `MirroredStrategy`, and only one of them may be set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import keras
from keras import ops

from tfaip.util.typing import Tensor

if TYPE_CHECKING:
    from tfaip.trainer.optimizer.params import OptimizerParams


class GradientNoise:
    """Noise normal(0, stddev / (1 + update)^gamma) on each gradient element (Neelakantan et al., 2015).

    Args:
        stddev: standard deviation at the first update.
        gamma: exponent of its decay; 0: it is constant.
        seed: of the generator.
    """

    def __init__(self, stddev: float, gamma: float, seed: int) -> None:
        self._stddev = stddev
        self._gamma = gamma
        self._generator = keras.random.SeedGenerator(seed)

    @property
    def state(self) -> keras.Variable:
        """State of the generator."""
        return self._generator.state

    def add(self, gradients: list[Tensor], update: Tensor) -> list[Tensor]:
        """Return the gradients with noise.

        Args:
            gradients: of all variables.
            update: number of the update, from 0.
        """
        deviation = self._stddev / ops.power(1.0 + ops.cast(update, "float32"), self._gamma)
        sizes = [math.prod(gradient.shape) for gradient in gradients]
        # One draw for all gradients, since every draw has an overhead of its own. The numbers
        # for 100,000 weights take 0.5 ms on JAX and 0.9 ms on TensorFlow, with any generator.
        noise = deviation * keras.random.normal((sum(sizes),), dtype="float32", seed=self._generator)
        noisy, begin = [], 0
        for gradient, size in zip(gradients, sizes, strict=True):
            part = ops.reshape(noise[begin : begin + size], gradient.shape)
            noisy.append(gradient + ops.cast(part, gradient.dtype))
            begin += size
        return noisy


@dataclass(frozen=True)
class Clipped:
    """Gradients after the clips, not yet multiplied by the factors that limit their norms.

    Args:
        gradients: after `clip_value`.
        scales: a factor for each of them, of `clip_norm` and `clip_global_norm`; None: no factors.
        is_finite: True if all are finite, a boolean scalar.
    """

    gradients: list[Tensor]
    scales: list[Tensor] | None
    is_finite: Tensor

    def scaled(self) -> list[Tensor]:
        """Return the clipped gradients.

        Call it where they are used: compilers fuse the product with the update.
        """
        if self.scales is None:
            return self.gradients
        return [g * ops.cast(scale, g.dtype) for g, scale in zip(self.gradients, self.scales, strict=True)]


def clip(gradients: list[Tensor], params: OptimizerParams) -> Clipped:
    """Apply `clip_value`, `clip_norm` and `clip_global_norm`, and check that all gradients are finite.

    A float32 gradient with a norm above 1.8e19 counts as not finite, since its square overflows.
    """
    if params.clip_value is not None:
        gradients = [ops.clip(gradient, -params.clip_value, params.clip_value) for gradient in gradients]
    # One sum of squares per gradient serves all: it is finite only if all elements are, and the
    # norm after `clip_norm` follows from the norm before.
    squares = ops.stack([_sum_of_squares(gradient) for gradient in gradients])
    is_finite = ops.isfinite(ops.sum(squares))
    if params.clip_norm is None and params.clip_global_norm is None:
        return Clipped(gradients, None, is_finite)
    scales = ops.ones_like(squares)
    if params.clip_norm is not None:
        scales = _scale(squares, params.clip_norm)
    if params.clip_global_norm is not None:
        scales = scales * _scale(ops.sum(squares * ops.square(scales)), params.clip_global_norm)
    return Clipped(gradients, ops.unstack(scales), is_finite)


def _sum_of_squares(gradient: Tensor) -> Tensor:
    # In float16 the square of 256 overflows.
    return ops.sum(ops.square(ops.cast(gradient, keras.backend.result_type(gradient.dtype, "float32"))))


def _scale(square: Tensor, limit: float) -> Tensor:
    """Return the factor (at most 1) that limits the norm of a vector with this square to `limit`."""
    # The maximum keeps the quotient finite for a gradient of 0, and at 1 for small gradients.
    return limit / ops.maximum(ops.sqrt(square), limit)
