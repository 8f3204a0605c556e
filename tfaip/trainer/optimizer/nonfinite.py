"""Updates with a loss or gradients that are not finite: skipped; too many in a row stop the training.

The compiled step decides this. Reading a variable on the host synchronises with the device, so the
host polls rarely: once per second, and before it writes anything. That is enough, since a latch stops
all further updates after too many were skipped, and stores the batch at which this began.
"""

from __future__ import annotations

from collections.abc import Callable

import keras
from keras import ops

from tfaip.backend.kerastools import value_of
from tfaip.util.typing import Tensor

# JAX counts in 32 bits.
_LARGEST_COUNT = 2**31 - 1


class NonFiniteUpdates:
    """Counter of consecutive skipped updates, with a latch.

    Args:
        tolerated: number of consecutive updates that may be skipped; one more sets the latch.
        add_variable: creates an integer scalar variable of the optimizer, by name.
    """

    def __init__(self, tolerated: int, add_variable: Callable[[str], keras.Variable]) -> None:
        self._tolerated = min(tolerated, _LARGEST_COUNT - 1)
        self._in_a_row = add_variable("nonfinite_in_a_row")
        self._first = add_variable("nonfinite_first_batch")

    def is_stopped(self) -> Tensor:
        """Return a boolean scalar: True if the latch is set."""
        return ops.greater(self._in_a_row.value, self._tolerated)

    def count(self, batch: Tensor, counts: Tensor | bool = True) -> None:
        """Count an update that was skipped.

        Args:
            batch: number of its last batch, as the optimizer counts them, an integer scalar.
            counts: False if the cause is harmless, a boolean scalar.
        """
        in_a_row, first = self._in_a_row.value, self._first.value
        begins = ops.logical_and(counts, ops.equal(in_a_row, 0))
        self._first.assign(ops.where(begins, ops.cast(batch, first.dtype), first))
        is_counted = ops.logical_and(counts, ops.logical_not(self.is_stopped()))
        self._in_a_row.assign(in_a_row + ops.cast(is_counted, in_a_row.dtype))

    def forget(self) -> None:
        """Count from 0 again, after a finite update."""
        # If none is tolerated, the first skipped update stops all others: there is no count to reset.
        if self._tolerated:
            self._in_a_row.assign(0)

    def stopped_at(self) -> tuple[int, int] | None:
        """Return None unless the latch is set.

        Returns:
            The batch of the first counted update, as passed to `count`, and the number of these updates.
        """
        in_a_row = value_of(self._in_a_row)
        if in_a_row <= self._tolerated:
            return None
        return value_of(self._first), in_a_row
