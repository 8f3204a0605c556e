"""The learning rate inside the compiled step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from tfaip.util.typing import Tensor


class ScheduledRate(keras.optimizers.schedules.LearningRateSchedule):
    """The one learning rate schedule of the toolkit: `base`, times a rule of time that the compiled step computes.

    The variables are set before every epoch. The optimizer owns them: a free variable would be compiled into the step
    as a constant on JAX.

    Args:
        rule: factor after so many completed epochs, a fractional number; None: always 1.
        accum_steps: batches per update.
    """

    base: keras.Variable
    batches_per_epoch: keras.Variable
    batch_offset: keras.Variable

    def __init__(self, rule: Callable[[Tensor], Tensor] | None, accum_steps: int) -> None:
        super().__init__()
        self._rule = rule
        self._accum_steps = accum_steps

    def __call__(self, step: Tensor) -> Tensor:
        """The rate of the update that the batch `step`, counted by the optimizer from 0, belongs to."""
        base = ops.convert_to_tensor(self.base)
        if self._rule is None:
            return base
        first = step - step % self._accum_steps + self.batch_offset
        return base * self._rule(ops.cast(first, "float32") / ops.cast(self.batches_per_epoch, "float32"))

    def get_config(self) -> dict[str, Any]:
        return {}
