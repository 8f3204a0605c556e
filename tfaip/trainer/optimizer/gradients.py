"""What happens to the gradients of one update before the optimizer sees them: noise, then the clips.

All of it acts on the gradient of the whole update: the mean over its batches, the sum over the devices.
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


@dataclass(frozen=True)
class Clipped:
    """Gradients on their way through the clips.

    Args:
        gradients: after `clip_value`.
        scales: what each of them is to be multiplied with, for `clip_norm` and `clip_global_norm`; None: with nothing.
        is_finite: whether all are finite, a boolean scalar.
    """

    gradients: list[Tensor]
    scales: list[Tensor] | None
    is_finite: Tensor

    def scaled(self) -> list[Tensor]:
        """The clipped gradients. Where they are used, compilers make one loop of this and the update."""
        if self.scales is None:
            return self.gradients
        return [g * ops.cast(scale, g.dtype) for g, scale in zip(self.gradients, self.scales, strict=True)]


def clip(gradients: list[Tensor], params: OptimizerParams) -> Clipped:
    """The gradients after `clip_value`, `clip_norm` and `clip_global_norm`, and whether all of them are finite.

    The norms are computed once: what `clip_norm` makes of a norm is known, and a sum of squares is finite only if all
    that was summed is. (A float32 gradient with a norm above 1.8e19 counts as not finite, since its square overflows.)
    """
    if params.clip_value is not None:
        gradients = [ops.clip(gradient, -params.clip_value, params.clip_value) for gradient in gradients]
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
    # Squares of half precision overflow early.
    return ops.sum(ops.square(ops.cast(gradient, keras.backend.result_type(gradient.dtype, "float32"))))


def _scale(square: Tensor, limit: float) -> Tensor:
    """The factor that takes a vector with this square to the norm `limit`, or 1 if it is shorter."""
    # The norm of a zero gradient is 0. The maximum keeps the quotient finite, and small gradients as they are.
    return limit / ops.maximum(ops.sqrt(square), limit)
