"""The optimizer of a training: all that the toolkit does around the update rules of Keras."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import keras
from keras import ops

from tfaip.trainer.optimizer.averaging import AverageRate, WeightAverages
from tfaip.trainer.optimizer.branching import branch, summed_over_replicas, value_of
from tfaip.trainer.optimizer.gradients import GradientNoise, clip
from tfaip.trainer.optimizer.lossscale import LossScale
from tfaip.trainer.optimizer.nonfinite import NonFiniteUpdates
from tfaip.trainer.optimizer.params import OptimizerParams
from tfaip.trainer.optimizer.part import PartOptimizer, SlotOptimizer
from tfaip.trainer.optimizer.scheduledrate import ScheduledRate
from tfaip.util.typing import Tensor


class TrainingOptimizer(SlotOptimizer):
    """One update: mean over its batches, noise, clips, skip if not finite, weight decay and update, averages.

    The update rules are those of its parts. The same numbers come out on one device, on several devices, and with
    several small batches per update instead of a large one.

    Args:
        params: the optimizer params.
        schedule: the learning rate.
        accum_steps: batches per update.
        seed: of the gradient noise.
        scales_loss: as float16 needs it.
    """

    averages: WeightAverages | None = None

    def __init__(
        self,
        params: OptimizerParams,
        schedule: ScheduledRate,
        accum_steps: int,
        seed: int,
        scales_loss: bool = False,
    ) -> None:
        super().__init__(learning_rate=schedule)
        self._params = params
        self._accum_steps = accum_steps
        self.schedule = schedule
        schedule.build(self.add_variable)
        self._uncounted = self._add_counter("updates_before_moments")
        self._nonfinite = NonFiniteUpdates(params.skip_nonfinite, self._add_counter)
        self._loss_scale = LossScale(self.add_variable) if scales_loss else None
        noise = params.gradient_noise
        self._noise = GradientNoise(noise.stddev, noise.gamma, seed) if noise.stddev else None
        if self._noise is not None:
            self._track_variable(self._noise.state)
        self._parts: Sequence[PartOptimizer] = ()
        self._buffers: Mapping[int, keras.Variable] = {}
        self._forgotten = self._add_counter("forgotten_batches") if accum_steps > 1 else None

    def build_parts(self, weights: list[keras.Variable], parts: Sequence[PartOptimizer]) -> None:
        """Take the parts, which together update all weights.

        Args:
            weights: the trained weights, in the order of the model.
            parts: built.
        """
        super().build(weights)
        self._parts = tuple(parts)
        if self._accum_steps > 1:
            buffers = [self.add_variable_from_reference(weight, name="gradient_accumulator") for weight in weights]
            self._buffers = {id(weight): buffer for weight, buffer in zip(weights, buffers, strict=True)}

    def build_averages(self, rate: AverageRate) -> None:
        """Keep averages of the weights from now on; call it after `build_parts`."""
        weights = list(self._trainable_variables)
        variables = [self.add_variable_from_reference(weight, name="average") for weight in weights]
        self.averages = WeightAverages(weights, variables, rate)

    @property
    def rate(self) -> keras.Variable:
        """The learning rate of the next updates, before the rule of time; a float32 scalar variable."""
        return self.schedule.base

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables, those of the parts included."""
        return [*super().variables, *(variable for part in self._parts for variable in part.state)]

    @property
    def batches(self) -> int:
        """Number of batches so far."""
        return value_of(self._iterations)

    @property
    def updates(self) -> int:
        """Number of updates so far, skipped ones included."""
        return int(self._update_number)

    @property
    def iterations(self) -> Tensor:
        """Number of updates that the moments have seen, an integer scalar."""
        return self._update_number - self._uncounted

    @property
    def _update_number(self) -> Tensor:
        return self._iterations // self._accum_steps

    def begin_epoch(self, rate: float, completed: int, batches: int, done: int, is_listed: bool = False) -> None:
        """Set rate and time; reset the moments if they are due.

        Args:
            rate: as in `rate`.
            completed: epochs.
            batches: of this epoch.
            done: batches of this epoch that are trained already.
            is_listed: the rate is not subject to a rule.
        """
        self.schedule.begin_epoch(rate, is_listed, completed, batches, done, self.batches)
        every = self._params.reset_every_n_epochs
        if every and completed and completed % every == 0 and not done:
            self.reset_moments()

    def next_rate(self) -> float:
        """The rate that the update of the next batch would have."""
        return float(self.schedule(self._iterations + 0))

    def reset_moments(self) -> None:
        """Let all moments, and the number of updates that they have seen, start anew.

        Averages, schedules, and gradients that wait for their update go on.
        """
        for part in self._parts:
            part.reset()
        self._uncounted.assign(self._update_number)

    def reset(self) -> None:
        """Let moments and averages start anew: the weights have been exchanged.

        Gradients that wait are those of other weights. They are forgotten: the next update comes when it would have
        come, with the mean over the batches that are left for it.
        """
        self.reset_moments()
        if self.averages is not None:
            self.averages.reset()
        if self._forgotten is not None:
            self._clear(self._buffers.values())
            self._forgotten.assign(self.batches % self._accum_steps)

    def with_averages(self) -> AbstractContextManager[None]:
        """Context in which the weights hold their averages, if there are any."""
        return contextlib.nullcontext() if self.averages is None else self.averages.in_place()

    def stopped_at(self) -> tuple[int, int] | None:
        """Once updates stopped since too many were not finite: the last batch of the first of them, and their number.

        Batches are counted as `batches` counts them, from 0.
        """
        return self._nonfinite.stopped_at()

    def scale_loss(self, loss: Tensor) -> Tensor:
        """The loss that gradients are taken of, scaled for float16; if it is not finite, neither are its gradients."""
        loss = loss * ops.where(ops.isfinite(loss), 1.0, float("nan"))
        return loss if self._loss_scale is None else self._loss_scale.scaled(loss)

    def named_variables(self, weights: Mapping[str, keras.Variable]) -> dict[str, keras.Variable]:
        """All variables of the built optimizer by stable names.

        Args:
            weights: variables of the graph by path; a slot is named after its kind and the weight it belongs to.
        """
        paths = {id(variable): path for path, variable in weights.items()}
        slots = [slot for optimizer in (self, *self._parts) for slot in optimizer.slots]
        named = {f"{slot.kind}/{paths[id(slot.weight)]}": slot.variable for slot in slots}
        known = {id(variable) for variable in named.values()}
        named.update({v.name: v for v in super().variables if id(v) not in known})
        for i, part in enumerate(self._parts):
            # Nadam and Adafactor leave it to Keras to name some of theirs, by a counter of the process.
            others = [variable for variable in part.state if id(variable) not in known]
            named.update({f"part_{i}/{j}": variable for j, variable in enumerate(others)})
        return named

    def _add_counter(self, name: str) -> keras.Variable:
        return self.add_variable((), dtype="int", name=name)

    @staticmethod
    def _clear(buffers: Iterable[keras.Variable]) -> None:
        for buffer in buffers:
            buffer.assign(ops.zeros(buffer.shape, buffer.dtype))

    def _branch(self, predicate: Tensor, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        branch(predicate, then, otherwise, [*self._trainable_variables, *self.variables])

    def _backend_apply_gradients(self, grads: list[Tensor], trainable_variables: list[Any]) -> None:
        """What Keras calls with the gradients of a batch."""
        gradients = summed_over_replicas(grads)
        if self._loss_scale is not None:
            gradients = self._loss_scale.unscaled(gradients)
        if self._forgotten is None:
            self._update(gradients, trainable_variables)
            return
        forgotten = self._forgotten
        # At least one: the checkpoint may come from a training with more batches per update.
        batches = ops.maximum(self._accum_steps - forgotten, 1)
        buffers = [self._buffers[id(weight)] for weight in trainable_variables]
        sums = [buffer + gradient for buffer, gradient in zip(buffers, gradients, strict=True)]

        def update() -> None:
            self._update([total / ops.cast(batches, total.dtype) for total in sums], trainable_variables)
            self._clear(buffers)
            forgotten.assign(0)

        def wait() -> None:
            for buffer, total in zip(buffers, sums, strict=True):
                buffer.assign(total)

        self._branch(ops.equal((self._iterations + 1) % self._accum_steps, 0), update, wait)

    def _update(self, gradients: list[Tensor], weights: list[Any]) -> None:
        """One update with the gradients of all its batches, on all devices."""
        if self._noise is not None:
            gradients = self._noise.add(gradients, self._update_number)
        # The norms wait in a branch until all gradients are there: between the operations of the backward pass they
        # would delay those, and cost XLA three to five times as much (benchmarks/overhead.py).
        goes_on = ops.logical_not(self._nonfinite.is_stopped())
        self._branch(goes_on, lambda: self._step_if_finite(gradients, weights), self._skip)

    def _step_if_finite(self, gradients: list[Tensor], weights: list[Any]) -> None:
        clipped = clip(gradients, self._params)
        self._branch(clipped.is_finite, lambda: self._step(clipped.scaled(), weights), self._skip)

    def _step(self, gradients: list[Tensor], weights: list[Any]) -> None:
        rate, updates = self.learning_rate, self.iterations
        self.schedule.observe(rate)
        by_weight = {id(weight): (gradient, weight) for gradient, weight in zip(gradients, weights, strict=True)}
        for part in self._parts:
            pairs = [by_weight[id(weight)] for weight in part._trainable_variables if id(weight) in by_weight]
            part.update([gradient for gradient, _ in pairs], [weight for _, weight in pairs], rate, updates)
        if self.averages is not None:
            self.averages.update(self._update_number + 1, self.assign_sub)
        self._nonfinite.forget()
        if self._loss_scale is not None:
            self._loss_scale.keep_or_grow()

    def _skip(self) -> None:
        self._uncounted.assign(self._uncounted + 1)
        if self._loss_scale is None:
            self._nonfinite.count(self._iterations.value)
        else:
            # Too large a scale is no fault of the training: skipped updates count when it cannot become smaller.
            self._nonfinite.count(self._iterations.value, self._loss_scale.is_lowest())
            self._loss_scale.shrink()
