"""Dynamic loss scale of mixed_float16: without it, small gradients are rounded to zero.

The loss is multiplied before gradients are taken, and the gradients are divided afterwards
(Micikevicius et al. 2018, Mixed Precision Training, section 3.2). When gradients overflow, the update
is skipped and the scale is halved; after many updates without an overflow the scale is doubled.

Keras' `LossScaleOptimizer` is not used: it wraps the optimizer and so hides averages, named variables
and skipped updates.
"""

from __future__ import annotations

from collections.abc import Callable

import keras
from keras import ops

from tfaip.util.typing import Tensor

INITIAL = 2.0**15
LOWEST = 1.0
UPDATES_UNTIL_GROWTH = 2000


class LossScale:
    """Loss scale and number of finite updates with it, as variables of the optimizer.

    Args:
        add_variable: creates a variable of the optimizer: shape, initializer, dtype and name.
    """

    def __init__(self, add_variable: Callable[..., keras.Variable]) -> None:
        initial = keras.initializers.Constant(INITIAL)
        self._scale = add_variable((), initializer=initial, dtype="float32", name="loss_scale")
        self._good = add_variable((), dtype="int", name="updates_at_loss_scale")

    def scaled(self, loss: Tensor) -> Tensor:
        """Return the loss times the scale."""
        return loss * ops.cast(self._scale.value, loss.dtype)

    def unscaled(self, gradients: list[Tensor]) -> list[Tensor]:
        """Return the gradients divided by the scale."""
        factor = 1.0 / self._scale.value
        return [gradient * ops.cast(factor, gradient.dtype) for gradient in gradients]

    def is_lowest(self) -> Tensor:
        """Return a boolean scalar: True if the scale is minimal, so that overflows have another cause."""
        return ops.less_equal(self._scale.value, LOWEST)

    def shrink(self) -> None:
        """Halve the scale, after gradients that were not finite."""
        self._scale.assign(ops.maximum(self._scale.value / 2.0, LOWEST))
        self._good.assign(0)

    def keep_or_grow(self) -> None:
        """Count an update with finite gradients; double the scale after enough of them."""
        scale, good = self._scale.value, self._good.value + 1
        grows = ops.greater_equal(good, UPDATES_UNTIL_GROWTH)
        # With an infinite scale every later update would overflow.
        doubled = ops.where(ops.isfinite(scale * 2.0), scale * 2.0, scale)
        self._scale.assign(ops.where(grows, doubled, scale))
        self._good.assign(ops.where(grows, 0, good))
