"""Updates whose loss or gradients are not finite: skipped, counted, and at last the end of the training.

Everything is decided inside the compiled step. The host may look as rarely as it likes: once there were too many, a
latch stops all further updates and keeps where it began.
"""

from __future__ import annotations

from collections.abc import Callable

import keras
from keras import ops

from tfaip.trainer.optimizer.branching import value_of
from tfaip.util.typing import Tensor


class NonFiniteUpdates:
    """Counts skipped updates.

    Args:
        tolerated: as many in a row are skipped; one more sets the latch.
        add_variable: creates an integer scalar variable of the optimizer, by name.
    """

    def __init__(self, tolerated: int, add_variable: Callable[[str], keras.Variable]) -> None:
        self._tolerated = tolerated
        self._in_a_row = add_variable("nonfinite_in_a_row")
        self._first = add_variable("nonfinite_first_batch")

    def is_stopped(self) -> Tensor:
        """Whether the latch is set, a boolean scalar."""
        return ops.greater(self._in_a_row.value, self._tolerated)

    def count(self, batch: Tensor, counts: Tensor | bool = True) -> None:
        """Count an update that was skipped.

        Args:
            batch: the last of its batches, as the optimizer counts them, an integer scalar.
            counts: False if there is a harmless reason, a boolean scalar.
        """
        in_a_row, first = self._in_a_row.value, self._first.value
        begins = ops.logical_and(counts, ops.equal(in_a_row, 0))
        self._first.assign(ops.where(begins, ops.cast(batch, first.dtype), first))
        is_counted = ops.logical_and(counts, ops.logical_not(self.is_stopped()))
        self._in_a_row.assign(in_a_row + ops.cast(is_counted, in_a_row.dtype))

    def forget(self) -> None:
        """An update was finite: the row ends."""
        if self._tolerated:
            self._in_a_row.assign(0)

    def stopped_at(self) -> tuple[int, int] | None:
        """Once the latch is set: the first batch of the row, as the optimizer counts them, and the updates in it."""
        in_a_row = value_of(self._in_a_row)
        if in_a_row <= self._tolerated:
            return None
        return value_of(self._first), in_a_row
