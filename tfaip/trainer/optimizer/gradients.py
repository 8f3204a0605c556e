"""What happens to the gradients of one update before the optimizer sees them: noise, then the clips.

All of it acts on the gradient of the whole update: the mean over its batches, the sum over the devices.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import keras
from keras import ops

from tfaip.util.typing import Tensor

if TYPE_CHECKING:
    from tfaip.trainer.optimizer.params import OptimizerParams


class GradientNoise:
    """Adds normal(0, stddev / (1 + update)^gamma) to every number of a gradient (Neelakantan et al., 2015).

    Args:
        stddev: standard deviation at the first update.
        gamma: how fast it falls; 0: it stays.
        seed: of the generator.
    """

    def __init__(self, stddev: float, gamma: float, seed: int) -> None:
        self._stddev = stddev
        self._gamma = gamma
        self._generator = keras.random.SeedGenerator(seed)

    @property
    def state(self) -> keras.Variable:
        """The state of the generator."""
        return self._generator.state

    def add(self, gradients: list[Tensor], update: Tensor) -> list[Tensor]:
        """The gradients with noise; all of it is one draw, since a draw costs much whatever its size is.

        Args:
            gradients: of all variables.
            update: number of the update, from 0.
        """
        deviation = self._stddev / ops.power(1.0 + ops.cast(update, "float32"), self._gamma)
        sizes = [math.prod(gradient.shape) for gradient in gradients]
        noise = deviation * keras.random.normal((sum(sizes),), dtype="float32", seed=self._generator)
        noisy, begin = [], 0
        for gradient, size in zip(gradients, sizes, strict=True):
            part = ops.reshape(noise[begin : begin + size], gradient.shape)
            noisy.append(gradient + ops.cast(part, gradient.dtype))
            begin += size
        return noisy


def clipped(gradients: list[Tensor], params: OptimizerParams) -> tuple[list[Tensor], Tensor]:
    """The gradients after `clip_value`, `clip_norm` and `clip_global_norm`, and whether all of them are finite.

    The norms are computed once: what `clip_norm` makes of a norm is known, and a sum of squares is finite only if all
    that was summed is. (A float32 gradient with a norm above 1.8e19 counts as not finite, since its square overflows.)
    """
    if params.clip_value is not None:
        gradients = [ops.clip(gradient, -params.clip_value, params.clip_value) for gradient in gradients]
    squares = [_sum_of_squares(gradient) for gradient in gradients]
    is_finite = ops.isfinite(_total(squares))
    if params.clip_norm is None and params.clip_global_norm is None:
        return gradients, is_finite
    scales: list[Tensor] = [1.0] * len(gradients)
    if params.clip_norm is not None:
        scales = [_scale(ops.sqrt(square), params.clip_norm) for square in squares]
        squares = [square * scale * scale for square, scale in zip(squares, scales, strict=True)]
    if params.clip_global_norm is not None:
        common = _scale(ops.sqrt(_total(squares)), params.clip_global_norm)
        scales = [scale * common for scale in scales]
    return [g * ops.cast(scale, g.dtype) for g, scale in zip(gradients, scales, strict=True)], is_finite


def _sum_of_squares(gradient: Tensor) -> Tensor:
    # Squares of half precision overflow early.
    return ops.sum(ops.square(ops.cast(gradient, keras.backend.result_type(gradient.dtype, "float32"))))


def _total(squares: list[Tensor]) -> Tensor:
    return ops.sum(ops.stack(squares))


def _scale(norm: Tensor, limit: float) -> Tensor:
    # The norm of a zero gradient is 0. The maximum keeps the quotient finite, and small gradients as they are.
    return limit / ops.maximum(norm, limit)
