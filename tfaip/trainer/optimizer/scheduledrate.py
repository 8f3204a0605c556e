"""The learning rate inside the compiled step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from tfaip.trainer.scheduler import LearningRateParams, UpdateTime
from tfaip.util.typing import Tensor


class ScheduledRate(keras.optimizers.schedules.LearningRateSchedule):
    """The one learning rate schedule of the toolkit: base, rule of time and modulation.

    The rate is `base`; where it changes with every update, it is what the rule makes of `base`; times the factor of
    the modulation. The variables are set before every epoch. The optimizer owns them: a free variable would be
    compiled into the step as a constant on JAX.

    Args:
        params: rule and modulation; None: the rate is `base`.
        accum_steps: batches per update.
        network: the training graph, for functions of the user.
    """

    base: keras.Variable

    def __init__(self, params: LearningRateParams | None, accum_steps: int, network: Any = None) -> None:
        super().__init__()
        self._rule = params.rate_of_update if params is not None and params.is_continuous() else None
        self._modulation = None if params is None else params.modulation
        self._accum_steps = accum_steps
        self._network = network

    @property
    def varies(self) -> bool:
        """Whether the updates of an epoch may have different rates."""
        return self._rule is not None or self._modulation is not None

    def build(self, add_variable: Callable[..., keras.Variable]) -> None:
        """Create the variables with the `add_variable` of the optimizer."""
        self.base = add_variable((), name="learning_rate", dtype="float32")
        self._batches_per_epoch = add_variable((), "ones", dtype="int", name="batches_per_epoch")
        self._batch_offset = add_variable((), dtype="int", name="batch_offset")
        self._is_listed = add_variable((), dtype="int", name="is_listed")
        self._mean = add_variable((), name="mean_rate", dtype="float32")
        self._epoch_updates = add_variable((), dtype="int", name="epoch_updates")

    def __call__(self, step: Tensor) -> Tensor:
        """The rate of the update that the batch `step`, counted by the optimizer from 0, belongs to."""
        rate = base = ops.convert_to_tensor(self.base)
        if not self.varies:
            return base
        first = step - step % self._accum_steps
        time = UpdateTime(
            update=first // self._accum_steps,
            epoch=ops.cast(first + self._batch_offset, "float32") / ops.cast(self._batches_per_epoch, "float32"),
            lr=base,
            network=self._network,
        )
        if self._rule is not None:
            rate = ops.where(self._is_listed > 0, base, self._rule(time, ops))
        if self._modulation is not None:
            factor = self._modulation.factor(dataclasses.replace(time, lr=rate), ops)
            rate = rate * ops.cast(factor, "float32")
        return rate

    def observe(self, rate: Tensor) -> None:
        """Take the rate of an update into the mean of the epoch."""
        if self.varies:
            count = self._epoch_updates + 1
            self._mean.assign(self._mean + (rate - self._mean) / ops.cast(count, "float32"))
            self._epoch_updates.assign(count)

    def begin_epoch(self, rate: float, is_listed: bool, completed: int, batches: int, done: int, counted: int) -> None:
        """Set rate and time.

        Time is derived from the progress of the training, so that it goes on when epochs change their size.

        Args:
            rate: the base.
            is_listed: no rule applies to it.
            completed: epochs.
            batches: of this epoch.
            done: batches of this epoch that are trained already.
            counted: batches that the optimizer has counted.
        """
        self.base.assign(rate)
        self._is_listed.assign(int(is_listed))
        self._batches_per_epoch.assign(batches)
        self._batch_offset.assign(completed * batches + done - counted)
        if done == 0:
            self._mean.assign(0.0)
            self._epoch_updates.assign(0)

    def effective_rate(self, rate: float) -> float | None:
        """The mean over the updates of the epoch; None if it had none.

        Args:
            rate: what the epoch began with; it is given back, unrounded, if nothing has changed it.
        """
        # A variable that has a copy on each of several devices has no value, a sum has.
        if self.varies:
            return float(self._mean + 0.0) if int(self._epoch_updates + 0) else None
        base = float(self.base + 0.0)
        return rate if base == np.float32(rate) else base

    def get_config(self) -> dict[str, Any]:
        return {}
