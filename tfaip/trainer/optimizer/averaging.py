"""Exponential moving averages (EMA) of the weights, updated where the optimizer updates the weights.

Keras' own `use_ema` overwrites the raw weights whenever `fit` ends, also by an exception, and a
second `fit` fails on JAX ("donate the same buffer twice", Keras 3.15). Here averages are optimizer
variables beside the raw weights, so that the raw weights of a training are the same, bit for bit,
with and without averages.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import keras
from keras import ops

from tfaip.util.typing import Tensor

AUTOMATIC = -1.0
_AUTOMATIC_BOUNDS = (0.99, 0.99975)
# Share of the weights at the beginning of an epoch in the average at its end, with the automatic rate.
_SHARE_AFTER_AN_EPOCH = 0.75


@dataclass(frozen=True)
class AverageRate:
    """Rate of the average: `average = rate * average + (1 - rate) * weight` after each update.

    Args:
        rate: in (0, 1).
        ramp: use min(rate, (1 + n) / (10 + n)) after update n (from 1), so that a slow average soon
            forgets the initial weights.
    """

    rate: float
    ramp: bool

    @classmethod
    def of(cls, calc_ema: float, updates_per_epoch: float) -> AverageRate | None:
        """Return the rate for `trainer.calc_ema`: 0: None, -1: the automatic rate, else this rate."""
        if calc_ema == 0:
            return None
        if calc_ema != AUTOMATIC:
            return cls(calc_ema, ramp=False)
        low, high = _AUTOMATIC_BOUNDS
        return cls(min(max(_SHARE_AFTER_AN_EPOCH ** (1 / updates_per_epoch), low), high), ramp=True)

    def after(self, updates: Tensor) -> Tensor:
        """Return the rate for update number `updates` (from 1)."""
        if not self.ramp:
            return ops.convert_to_tensor(self.rate, dtype="float32")
        n = ops.cast(updates, "float32")
        return ops.minimum(self.rate, (1.0 + n) / (10.0 + n))


class WeightAverages:
    """Averages of the trained weights.

    Keras tracks variables in a list attribute of an optimizer as its own, but not those in this object.

    Args:
        weights: the trained weights.
        averages: a variable for each of them.
        rate: of the average.
    """

    def __init__(self, weights: list[keras.Variable], averages: list[keras.Variable], rate: AverageRate) -> None:
        self._pairs = list(zip(weights, averages, strict=True))
        self._rate = rate
        self.reset()

    def reset(self) -> None:
        """Set the averages to the weights."""
        for weight, average in self._pairs:
            average.assign(_copy(weight))

    def update(self, updates: Tensor, assign_sub: Callable[[keras.Variable, Tensor], None]) -> None:
        """Move the averages towards the weights.

        Args:
            updates: number of the update that just happened, from 1.
            assign_sub: method of the optimizer, which subtracts in place where the backend can.
        """
        share = 1.0 - self._rate.after(updates)
        for weight, average in self._pairs:
            assign_sub(average, ops.cast(share, average.dtype) * (average - weight))

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the weights hold the averages inside the block.

        Validation, LAV and exports use it, for as long as they run; never use it within `fit`.
        """
        raw = [_copy(weight) for weight, _ in self._pairs]
        for weight, average in self._pairs:
            weight.assign(_copy(average))
        try:
            yield
        finally:
            for (weight, _), value in zip(self._pairs, raw, strict=True):
                weight.assign(value)


def _copy(variable: keras.Variable) -> Tensor:
    # Two variables must never share a buffer: JAX donates the buffers of a step to its results.
    return ops.copy(ops.convert_to_tensor(variable.value))
