"""What an update does besides the rules of Keras: clips, loss scale, skips, averages; and AdaBelief.

Clips act on the gradient of the whole update: the mean over its batches, summed over the devices.
Keras' clip arguments act per replica under `MirroredStrategy`, and only one of them may be set.

Keras' `LossScaleOptimizer` wraps the optimizer and so hides averages, named variables and skipped updates. Its
`use_ema` overwrites the raw weights whenever `fit` ends, and a second `fit` fails on JAX (Keras 3.15).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import keras
from keras import ops

from tfaip.backend.kerastools import value_of
from tfaip.util.typing import Tensor

# A number of the params, or the variable of a schedule in its place.
Number: TypeAlias = "float | keras.Variable"


def clip(
    gradients: list[Tensor], value: Number | None, norm: Number | None, global_norm: Number | None
) -> tuple[Tensor, Callable[[], list[Tensor]]]:
    """Apply the limits of elements, of each gradient's norm, of the norm of all; check that all gradients are finite.

    A float32 gradient with a norm above 1.8e19 counts as not finite, since its square overflows.

    Returns:
        A boolean scalar, True if all are finite, and a function that returns the clipped gradients. Call it where they
        are used: compilers fuse the product with the update.
    """
    if value is not None:
        # What is infinite stays so: the check that comes after the clips must see it.
        limits = [_limit(value, gradient) for gradient in gradients]
        clipped = [ops.clip(gradient, -limit, limit) for gradient, limit in zip(gradients, limits, strict=True)]
        gradients = [ops.where(ops.isinf(g), g, c) for g, c in zip(gradients, clipped, strict=True)]
    # One sum of squares per gradient serves all: it is finite only if all elements are, and the norm after `clip_norm`
    # follows from the norm before. In float16 the square of 256 overflows.
    kinds = [keras.backend.result_type(gradient.dtype, "float32") for gradient in gradients]
    squares = ops.stack([ops.sum(ops.square(ops.cast(g, kind))) for g, kind in zip(gradients, kinds, strict=True)])
    is_finite = ops.isfinite(ops.sum(squares))
    if norm is None and global_norm is None:
        return is_finite, lambda: gradients
    scales = ops.ones_like(squares) if norm is None else _scale(squares, norm)
    if global_norm is not None:
        scales = scales * _scale(ops.sum(squares * ops.square(scales)), global_norm)
    pairs = list(zip(gradients, ops.unstack(scales), strict=True))
    return is_finite, lambda: [gradient * ops.cast(scale, gradient.dtype) for gradient, scale in pairs]


def _scale(square: Tensor, limit: Number) -> Tensor:
    """Return the factor (at most 1) that limits the norm of a vector with this square to `limit`."""
    # The maximum keeps the quotient finite for a gradient of 0, and at 1 for small gradients.
    limit = _limit(limit, square)
    return limit / ops.maximum(ops.sqrt(square), limit)


def _limit(limit: Number, of: Tensor) -> Any:
    return ops.cast(limit.value, of.dtype) if isinstance(limit, keras.Variable) else limit


class LossScale:
    """Dynamic loss scale of mixed_float16: without it, small gradients are rounded to zero.

    When gradients overflow, the update is skipped and the scale is halved; after many updates without an overflow it
    is doubled (Micikevicius et al. 2018, Mixed Precision Training, section 3.2).
    """

    initial, lowest, updates_until_growth = 2.0**15, 1.0, 2000

    def __init__(self, add_variable: Callable[..., keras.Variable]) -> None:
        initial = keras.initializers.Constant(self.initial)
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
        return ops.less_equal(self._scale.value, self.lowest)

    def shrink(self) -> None:
        """Halve the scale, after gradients that were not finite."""
        self._scale.assign(ops.maximum(self._scale.value / 2.0, self.lowest))
        self._good.assign(0)

    def keep_or_grow(self) -> None:
        """Count an update with finite gradients; double the scale after enough of them."""
        scale, good = self._scale.value, self._good.value + 1
        grows = ops.greater_equal(good, self.updates_until_growth)
        # With an infinite scale every later update would overflow.
        doubled = ops.where(ops.isfinite(scale * 2.0), scale * 2.0, scale)
        self._scale.assign(ops.where(grows, doubled, scale))
        self._good.assign(ops.where(grows, 0, good))


class NonFiniteUpdates:
    """Counter of consecutive skipped updates, with a latch: one more than are tolerated stops all further ones.

    The compiled step decides this. Reading a variable on the host synchronises with the device, so the host polls
    rarely: once per second, and before it writes anything.
    """

    def __init__(self, tolerated: int, add_variable: Callable[..., keras.Variable]) -> None:
        self._tolerated = min(tolerated, 2**31 - 2)  # JAX counts in 32 bits
        self._in_a_row = add_variable((), dtype="int", name="nonfinite_in_a_row")
        self._first = add_variable((), dtype="int", name="nonfinite_first_batch")

    def is_stopped(self) -> Tensor:
        """Return a boolean scalar: True if the latch is set."""
        return ops.greater(self._in_a_row.value, self._tolerated)

    def count(self, batch: Tensor, counts: Tensor | bool) -> None:
        """Count a skipped update by the number of its last batch, unless `counts` is False: its cause is harmless."""
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
        """Return the batch of the first counted update and the number of these updates; None: the latch is not set."""
        in_a_row = value_of(self._in_a_row)
        return None if in_a_row <= self._tolerated else (value_of(self._first), in_a_row)


@dataclass(frozen=True)
class AverageRate:
    """Rate of the average: `average = rate * average + (1 - rate) * weight` after each update.

    Args:
        ramp: use min(rate, (1 + n) / (10 + n)) after update n (from 1), so that a slow average soon
            forgets the initial weights.
    """

    rate: float
    ramp: bool

    @classmethod
    def of(cls, calc_ema: float, updates_per_epoch: float) -> AverageRate | None:
        """Return the rate for `trainer.calc_ema`: 0: None, -1: the automatic rate, else this rate."""
        if calc_ema >= 0:
            return cls(calc_ema, ramp=False) if calc_ema else None
        # After an epoch, three quarters of the average are of the weights at its beginning.
        return cls(min(max(0.75 ** (1 / updates_per_epoch), 0.99), 0.99975), ramp=True)

    def after(self, updates: Tensor) -> Tensor:
        """Return the rate for update number `updates` (from 1)."""
        if not self.ramp:
            return ops.convert_to_tensor(self.rate, dtype="float32")
        n = ops.cast(updates, "float32")
        return ops.minimum(self.rate, (1.0 + n) / (10.0 + n))


class WeightAverages:
    """Averages of the trained weights, one variable of the optimizer for each; the raw weights are as without them."""

    def __init__(self, weights: list[keras.Variable], averages: list[keras.Variable], rate: AverageRate) -> None:
        # Keras tracks variables in a list attribute of an optimizer as its own, but not those in this object.
        self._pairs, self._rate = list(zip(weights, averages, strict=True)), rate
        self.reset()

    def reset(self) -> None:
        """Set the averages to the weights."""
        for weight, average in self._pairs:
            average.assign(_copy(weight))

    def update(self, updates: Tensor, assign_sub: Callable[[keras.Variable, Tensor], None]) -> None:
        """Move the averages towards the weights after update number `updates` (from 1)."""
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


# Liu et al.: for rho_t up to this value the adaptive step has no finite variance.
_TRACTABLE = 4.0


class AdaBelief(keras.optimizers.Optimizer):
    """AdaBelief (Zhuang et al., 2020), by default with the rectified step of RAdam (Liu et al., 2019).

    With gradient g_t of update t = 1, 2, ... (Zhuang et al., algorithm 2):

        m_t = beta_1 m_(t-1) + (1 - beta_1) g_t
        s_t = beta_2 s_(t-1) + (1 - beta_2) (g_t - m_t)^2 + epsilon
        step = m_t / (1 - beta_1^t) / (sqrt(s_t / (1 - beta_2^t)) + epsilon)
        weight -= learning_rate * step

    Rectified (Liu et al., algorithm 2), with rho_inf = 2 / (1 - beta_2) - 1:

        rho_t = rho_inf - 2 t beta_2^t / (1 - beta_2^t)
        step *= sqrt((rho_t - 4) (rho_t - 2) rho_inf / ((rho_inf - 4) (rho_inf - 2) rho_t))    if rho_t > 4
        step = m_t / (1 - beta_1^t)                                                           otherwise

    Args:
        learning_rate: as in Keras.
        beta_1: decay rate of the mean of the gradients, in [0, 1).
        beta_2: decay rate of the mean of their squared deviation from it, in [0, 1), above 0.6 if rectified.
        epsilon: added to the mean squared deviation in every update, and to its root. The paper has 1e-8; its authors
            recommend 1e-14 for float32 (their package adabelief-tf 0.2).
        rectify: use the rectified step.
        name: as in Keras.
        kwargs: as in Keras.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-14,
        rectify: bool = True,
        name: str = "adabelief",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.beta_1, self.beta_2, self.epsilon, self.rectify = beta_1, beta_2, epsilon, rectify

    def build(self, variables: list[keras.Variable]) -> None:
        """Create the slots; see Keras."""
        if self.built:
            return
        super().build(variables)
        slots = zip(*self.add_optimizer_variables(variables, ["momentum", "belief"]), strict=True)
        self._slots: dict[int, Any] = {}
        for variable, pair in zip(variables, slots, strict=True):
            # Keras itself passes the variable of TensorFlow to `update_step`.
            self._slots[id(variable)] = self._slots[id(variable.value)] = pair

    def update_step(self, gradient: Tensor, variable: Any, learning_rate: Tensor) -> None:
        """Update one variable; see Keras."""
        m, s = self._slots[id(variable)]
        t = ops.cast(self.iterations + 1, variable.dtype)
        surprise = ops.subtract(ops.cast(gradient, variable.dtype), m)
        new_m = m + (1.0 - self.beta_1) * surprise
        # g_t - m_t = beta_1 (g_t - m_(t-1))
        deviation = self.beta_1 * surprise
        new_s = self.beta_2 * s + (1.0 - self.beta_2) * ops.square(deviation) + self.epsilon
        self.assign(m, new_m)
        self.assign(s, new_s)
        direction = new_m / _one_minus_power(self.beta_1, t)
        step = direction / (ops.sqrt(new_s / _one_minus_power(self.beta_2, t)) + self.epsilon)
        if self.rectify:
            # beta^t / (1 - beta^t) = 1 / (beta^-t - 1). With expm1, float32 keeps the digits of this difference, which
            # is small for beta close to 1.
            limit = 2.0 / (1.0 - self.beta_2) - 1.0
            rho = limit - 2.0 * t / ops.expm1(-math.log(self.beta_2) * t)
            r = ops.maximum(rho, _TRACTABLE)
            factor = ops.sqrt((r - 4.0) * (r - 2.0) * limit / ((limit - 4.0) * (limit - 2.0) * r))
            step = ops.where(rho > _TRACTABLE, factor * step, direction)
        self.assign_sub(variable, ops.cast(learning_rate, variable.dtype) * step)


def _one_minus_power(beta: float, t: Tensor) -> Tensor:
    """Return 1 - beta^t, without loss of digits for beta close to 1."""
    return -ops.expm1(math.log(beta) * t) if beta > 0 else ops.ones_like(t)
