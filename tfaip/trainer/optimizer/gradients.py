"""Noise and clips, applied in this order to the gradients of an update before its update rule.

They act on the gradient of the whole update: the mean over its batches, summed over the devices.
Keras' clip arguments act per replica under `MirroredStrategy`, and only one of them may be set.
"""

from __future__ import annotations

from dataclasses import dataclass

import keras
from keras import ops

from tfaip.layers.weightnoise import add_noise
from tfaip.util.typing import Tensor


class GradientNoise:
    """Noise normal(0, stddev / (1 + update)^gamma) on each gradient element (Neelakantan et al., 2015).

    Args:
        stddev: standard deviation at the first update, a number or a variable.
        gamma: exponent of its decay; 0: it is constant.
        seed: of the generator.
    """

    def __init__(self, stddev: float | keras.Variable, gamma: float, seed: int) -> None:
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
        return add_noise(gradients, deviation, self._generator)


@dataclass(frozen=True)
class Clips:
    """Limits of the gradients, each a number, a variable, or None for no limit.

    Args:
        value: of each element.
        norm: of the gradient of each variable.
        global_norm: of all gradients together.
    """

    value: float | keras.Variable | None = None
    norm: float | keras.Variable | None = None
    global_norm: float | keras.Variable | None = None


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


def clip(gradients: list[Tensor], clips: Clips) -> Clipped:
    """Apply `clip_value`, `clip_norm` and `clip_global_norm`, and check that all gradients are finite.

    A float32 gradient with a norm above 1.8e19 counts as not finite, since its square overflows.
    """
    if clips.value is not None:
        gradients = [_clipped(gradient, clips.value) for gradient in gradients]
    # One sum of squares per gradient serves all: it is finite only if all elements are, and the
    # norm after `clip_norm` follows from the norm before.
    squares = ops.stack([_sum_of_squares(gradient) for gradient in gradients])
    is_finite = ops.isfinite(ops.sum(squares))
    if clips.norm is None and clips.global_norm is None:
        return Clipped(gradients, None, is_finite)
    scales = ops.ones_like(squares)
    if clips.norm is not None:
        scales = _scale(squares, clips.norm)
    if clips.global_norm is not None:
        scales = scales * _scale(ops.sum(squares * ops.square(scales)), clips.global_norm)
    return Clipped(gradients, ops.unstack(scales), is_finite)


def _clipped(gradient: Tensor, limit: float | keras.Variable) -> Tensor:
    if isinstance(limit, keras.Variable):
        limit = ops.cast(limit.value, gradient.dtype)
    # What is infinite stays so: the check that comes after the clips must see it.
    return ops.where(ops.isinf(gradient), gradient, ops.clip(gradient, -limit, limit))


def _sum_of_squares(gradient: Tensor) -> Tensor:
    # In float16 the square of 256 overflows.
    return ops.sum(ops.square(ops.cast(gradient, keras.backend.result_type(gradient.dtype, "float32"))))


def _scale(square: Tensor, limit: float | keras.Variable) -> Tensor:
    """Return the factor (at most 1) that limits the norm of a vector with this square to `limit`."""
    # The maximum keeps the quotient finite for a gradient of 0, and at 1 for small gradients.
    if isinstance(limit, keras.Variable):
        limit = ops.cast(limit.value, square.dtype)
    return limit / ops.maximum(ops.sqrt(square), limit)
