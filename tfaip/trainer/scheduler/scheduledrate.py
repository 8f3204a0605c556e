"""The learning rate of an update, in the compiled step."""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from tfaip.trainer.scheduler.rules import LearningRateParams, UpdateTime
from tfaip.util.typing import Tensor


class ScheduledRate(keras.optimizers.schedules.LearningRateSchedule):
    """Learning rate schedule of the optimizer of a training: base, rule and modulation.

    The rate of an update is `base`, the rate of the epoch, or the result of the rule if it changes with
    every update; this is multiplied by the factor of the modulation. `begin_epoch` sets the variables.

    Keras cannot assign the rate of an optimizer that was created with a schedule, hence the variable
    `base`. The optimizer owns the variables: JAX would compile a free one into the step as a constant.

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
        """True if the updates of an epoch may have different rates."""
        return self._rule is not None or self._modulation is not None

    def build(self, add_variable: Callable[..., keras.Variable] | None = None) -> None:
        """Create the variables with the `add_variable` of the optimizer; None: there is no optimizer."""
        add_variable = add_variable or keras.optimizers.SGD().add_variable
        self.base = add_variable((), name="learning_rate", dtype="float32")
        self._batches_per_epoch = add_variable((), "ones", dtype="int", name="batches_per_epoch")
        self._batch_offset = add_variable((), dtype="int", name="batch_offset")
        self._is_listed = add_variable((), dtype="int", name="is_listed")
        self._mean = add_variable((), name="mean_rate", dtype="float32")
        self._epoch_updates = add_variable((), dtype="int", name="epoch_updates")

    def __call__(self, step: Tensor) -> Tensor:
        """Compute the rate of the update with batch `step`, from 0: Keras passes its counter of micro-batches."""
        rate = base = ops.convert_to_tensor(self.base)
        if not self.varies:
            return base
        time = UpdateTime(step // self._accum_steps, self.completed_epochs(step), base, self._network)
        if self._rule is not None:
            rate = ops.where(self._is_listed > 0, base, self._rule(time, ops))
        if self._modulation is not None:
            factor = self._modulation.factor(dataclasses.replace(time, lr=rate), ops)
            rate = rate * ops.cast(factor, "float32")
        return rate

    def completed_epochs(self, step: Tensor) -> Tensor:
        """Return the time of the update with batch `step`: completed epochs with a fraction, as at its first batch."""
        first = step - step % self._accum_steps
        return ops.cast(first + self._batch_offset, "float32") / ops.cast(self._batches_per_epoch, "float32")

    def observe(self, rate: Tensor) -> None:
        """Add the rate of an update to the mean of the epoch."""
        if self.varies:
            count = self._epoch_updates + 1
            self._mean.assign(self._mean + (rate - self._mean) / ops.cast(count, "float32"))
            self._epoch_updates.assign(count)

    def begin_epoch(self, rate: float, is_listed: bool, completed: int, batches: int, done: int, counted: int) -> None:
        """Set the rate and the time for an epoch.

        Time is derived from the completed epochs, so that it has no jump when epochs change their size.

        Args:
            rate: the base.
            is_listed: True if no rule applies to the rate.
            completed: number of completed epochs.
            batches: number of batches of this epoch.
            done: number of batches of this epoch that are already trained.
            counted: number of batches that the optimizer has counted.
        """
        self.base.assign(rate)
        self._is_listed.assign(int(is_listed))
        self._batches_per_epoch.assign(batches)
        self._batch_offset.assign(completed * batches + done - counted)
        if done == 0:
            self._mean.assign(0.0)
            self._epoch_updates.assign(0)

    def effective_rate(self, rate: float) -> float | None:
        """Return the mean rate of an epoch that began with `rate`; None: it varies, and there is no update yet."""
        if not self.varies:
            return rate
        # Under `MirroredStrategy` a variable cannot be converted to a number, but a sum can.
        return float(self._mean + 0.0) if int(self._epoch_updates + 0) else None

    def get_config(self) -> dict[str, Any]:
        return {}
