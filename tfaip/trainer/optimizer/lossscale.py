"""The dynamic loss scale of mixed_float16, whose small gradients would be rounded to zero.

The loss is multiplied before gradients are taken, the gradients are divided behind it (Micikevicius et al. 2018, Mixed
Precision Training, section 3.2). When gradients overflow the update is skipped and the scale halved; after many updates
without an overflow it is doubled.
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
    """The scale and its state.

    Args:
        add_variable: creates a variable of the optimizer: shape, initializer, dtype and name.
    """

    def __init__(self, add_variable: Callable[..., keras.Variable]) -> None:
        initial = keras.initializers.Constant(INITIAL)
        self._scale = add_variable((), initializer=initial, dtype="float32", name="loss_scale")
        self._good = add_variable((), dtype="int", name="updates_at_loss_scale")

    def scaled(self, loss: Tensor) -> Tensor:
        """The loss, multiplied."""
        return loss * ops.cast(self._scale.value, loss.dtype)

    def unscaled(self, gradients: list[Tensor]) -> list[Tensor]:
        """The gradients, divided."""
        factor = 1.0 / self._scale.value
        return [gradient * ops.cast(factor, gradient.dtype) for gradient in gradients]

    def is_lowest(self) -> Tensor:
        """Whether an overflow cannot be cured by halving any more, a boolean scalar."""
        return ops.less_equal(self._scale.value, LOWEST)

    def shrink(self) -> None:
        """Gradients were not finite."""
        self._scale.assign(ops.maximum(self._scale.value / 2.0, LOWEST))
        self._good.assign(0)

    def keep_or_grow(self) -> None:
        """Gradients were finite."""
        scale, good = self._scale.value, self._good.value + 1
        grows = ops.greater_equal(good, UPDATES_UNTIL_GROWTH)
        # A scale beyond float32 would make every later update overflow.
        doubled = ops.where(ops.isfinite(scale * 2.0), scale * 2.0, scale)
        self._scale.assign(ops.where(grows, doubled, scale))
        self._good.assign(ops.where(grows, 0, good))
