"""The optimizer of a training: everything in an update except the update rules of Keras."""

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from tfaip.backend.active import backend
from tfaip.backend.keras_private import OpenOptimizer
from tfaip.backend.kerastools import value_of
from tfaip.layers.weightnoise import add_noise
from tfaip.model.losses import batch_samples
from tfaip.model.weightrules import matching_paths
from tfaip.trainer.optimizer.optimizers import OptimizerGroupParams, OptimizerParams
from tfaip.trainer.optimizer.update import (
    AverageRate,
    LossScale,
    NonFiniteUpdates,
    WeightAverages,
    clip,
)
from tfaip.trainer.scheduler import LearningRateParams
from tfaip.trainer.scheduler.scheduledrate import ScheduledRate
from tfaip.util.logging import logger
from tfaip.util.typing import Tensor

log = logger(__name__)


class SlotOptimizer(OpenOptimizer):
    """Optimizer that records the weight of each of its slots."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.slots: dict[int, tuple[str, int]] = {}
        """Kind of each slot, e.g. `momentum`, and id of its weight, by the id of the slot."""

    def add_variable_from_reference(
        self, reference_variable: keras.Variable, name: str | None = None, initializer: Any = "zeros"
    ) -> keras.Variable:
        """Create a slot and record its weight; see Keras."""
        variable = super().add_variable_from_reference(reference_variable, name=name, initializer=initializer)
        self.slots[id(variable)] = name or "slot", id(reference_variable)
        return variable


@dataclass(frozen=True)
class GroupSetup:
    """Settings of the optimizer of a group.

    Args:
        params: they give the Keras class, its arguments, and the weight decay.
        rate_factor: factor on the learning rate, a number or a variable.
        undecayed: ids of the weights that do not decay.
        weight_decay: the weight decay, a number or a variable.
        momentum: path of the momentum from the params of the optimizer, if the Keras class has one.
    """

    params: OptimizerParams
    rate_factor: float | keras.Variable
    undecayed: Collection[int]
    weight_decay: float | keras.Variable = 0.0
    momentum: str = ""


class GroupOptimizer(SlotOptimizer):
    """Mixin placed after the Keras class in the MRO, to override the methods that all of them share.

    It only applies the update rule of its Keras class. `TrainingOptimizer` does the rest (mean,
    noise, clips, skips, averages, rate), for all weights together.
    """

    setup: GroupSetup
    _updates: Tensor = 0

    @property
    def iterations(self) -> Tensor:
        """Number of updates so far, as passed to `update`: a group does not count by itself."""
        return self._updates

    def reset(self) -> None:
        """Reset the state to its initial values."""
        fresh = build_group(self.setup, list(self.trained_weights))
        for variable, start in zip(self.state, fresh.state, strict=True):
            variable.assign(start.value)

    def update(self, gradients: list[Tensor], weights: list[keras.Variable], rate: Tensor, updates: Tensor) -> None:
        """Update weights.

        Args:
            weights: all or some of those that it was built for.
            rate: the learning rate.
            updates: number of updates so far, as the moments count them.
        """
        # Read once for all weights: this saves five operations per weight on TensorFlow.
        self._updates = updates
        self.run_update(gradients, weights, rate)

    def update_weights(self, gradients: list[Tensor], weights: Sequence[keras.Variable], rate: Tensor) -> None:
        """Apply weight decay and the update rule; the gradients are already summed over the replicas."""
        factor, decay = self.setup.rate_factor, self.setup.weight_decay
        if isinstance(factor, keras.Variable) or factor != 1:
            rate = rate * factor
        decays = isinstance(decay, keras.Variable) or decay != 0
        for gradient, weight in zip(gradients, weights, strict=True):
            if decays and id(weight) not in self.setup.undecayed:
                shrink = keras.ops.cast(decay * rate, weight.dtype)
                self.assign_sub(weight, shrink * weight)
            self.update_step(gradient, weight, rate)


def build_group(setup: GroupSetup, weights: list[keras.Variable]) -> Any:
    """Build the optimizer of a group, which updates `weights`."""
    keras_class = setup.params.cls()
    group_class = type(keras_class.__name__, (backend.with_fewest_operations(keras_class), GroupOptimizer), {})
    # `update` gets the rate as an argument, so the group needs none of its own.
    group = group_class(learning_rate=0.0, **setup.params.arguments())
    group.setup = setup
    group.build(weights)
    return group


class TrainingOptimizer(SlotOptimizer):
    """Optimizer of a training, which contains a Keras optimizer for each group of weights.

    Order of an update: mean over its batches, each with the weight of its samples, noise, clips, skip
    if not finite, weight decay and update rule of the groups, averages. Everything but the groups acts
    on all weights together. The results are the same on one device, on several devices, and with
    several small batches per update instead of a large one.

    Args:
        params: the optimizer params.
        weights: all variables of the graph by path.
        trainable: those that are trained, in the order of the model (JAX passes them by position).
        accum_steps: batches per update; the gradient of an update is the mean over them.
        average_rate: keep averages of the weights with this rate; None: keep none.
        rate: rule and modulation of the learning rate, see `ScheduledRate`; None: the caller sets the rate.
        network: the training graph, for functions of the user.
        seed: of the gradient noise.
        scales_loss: scale the loss, as mixed_float16 needs it.
        number: called with path and value of a number of the params that a schedule may change; returns the number, or
            the variable of its schedule. None: there are no schedules.

    Raises:
        FieldAdvice: if `exclude_from_weight_decay` or a group matches no weight; its path begins at `params`.
    """

    averages: WeightAverages | None = None
    leaves_out_losses: Callable[[], bool] = staticmethod(lambda: False)
    """Returns True if a loss has the weight 0, so that weights may be without a gradient."""
    _without_gradient = ""

    def __init__(
        self,
        params: OptimizerParams,
        weights: Mapping[str, keras.Variable],
        trainable: list[keras.Variable],
        accum_steps: int = 1,
        average_rate: AverageRate | None = None,
        rate: LearningRateParams | None = None,
        network: Any = None,
        seed: int = 0,
        scales_loss: bool = False,
        number: Callable[[str, Any], Any] | None = None,
    ) -> None:
        schedule = ScheduledRate(rate, accum_steps, network)
        super().__init__(learning_rate=schedule)
        self.schedule = schedule
        self._params = params
        self._find_number = number
        self._scheduled: list[keras.Variable] = []  # Keras tracks the variables of an attribute
        self.accum_steps = accum_steps
        self.schedule.build(self.add_variable)
        # Batches are counted from the start of the training, and the number of updates follows from
        # them. Resets and skipped updates only move this offset between updates and those that the
        # moments have seen, so they disturb neither schedules nor the accumulation.
        self._uncounted = self.add_variable((), dtype="int", name="updates_before_moments")
        self._nonfinite = NonFiniteUpdates(params.skip_nonfinite, self.add_variable)
        self._loss_scale = LossScale(self.add_variable) if scales_loss else None
        stddev = self._number("gradient_noise.stddev", params.gradient_noise.stddev)
        has_noise = isinstance(stddev, keras.Variable) or stddev > 0
        self._noise = (stddev, keras.random.SeedGenerator(seed)) if has_noise else None
        if self._noise is not None:
            self.track(self._noise[1].state)
        clips = ("clip_value", "clip_norm", "clip_global_norm")
        self._clips = {name.removeprefix("clip_"): self._number(name, getattr(params, name)) for name in clips}
        trained = {id(weight) for weight in trainable}
        paths = {path: weight for path, weight in weights.items() if id(weight) in trained}
        self._paths: Mapping[int, str] = {id(weight): path for path, weight in paths.items()}
        self.groups: Sequence[GroupOptimizer] = tuple(self._built_groups(paths, trainable))
        """The optimizers of the groups of weights."""
        self.build(trainable)
        # Samples of the batches that wait, in units of the first one, and its number of samples.
        self._waiting: list[keras.Variable] = []
        self._buffers: Mapping[int, keras.Variable] = {}
        if accum_steps > 1:
            names = ("gradient_accumulator_size", "gradient_accumulator_unit")
            self._waiting = [self.add_variable((), dtype="float32", name=name) for name in names]
            name = "gradient_accumulator"
            self._buffers = {id(weight): self.add_variable_from_reference(weight, name) for weight in trainable}
        if average_rate is not None:
            averages = [self.add_variable_from_reference(weight, name="average") for weight in trainable]
            self.averages = WeightAverages(trainable, averages, average_rate)

    def _number(self, path: str, value: Any) -> Any:
        """Return a number of the params, or the variable of its schedule."""
        found = value if self._find_number is None else self._find_number(path, value)
        if isinstance(found, keras.Variable):
            self._scheduled.append(found)
        return found

    def _built_groups(
        self, paths: Mapping[str, keras.Variable], trainable: list[keras.Variable]
    ) -> Iterator[GroupOptimizer]:
        """Yield the optimizers of the groups: a weight belongs to the first one that matches it, or to the last one."""
        left = {id(weight) for weight in trainable}
        for index, group in enumerate([*self._params.groups, OptimizerGroupParams(match=".*")]):
            place, own, prefix = f"groups.{index}", self._params, ""
            if group.optimizer is not None:
                own, prefix = group.optimizer, f"{place}.optimizer."
            members = _matching(group.match, f"{place}.match", paths) & left
            left -= members
            if members:
                setup = GroupSetup(
                    own,
                    self._number(f"{place}.lr_factor", group.lr_factor),
                    _matching(own.exclude_from_weight_decay, f"{prefix}exclude_from_weight_decay", paths),
                    self._number(f"{prefix}weight_decay", own.weight_decay),
                    f"{prefix}momentum",
                )
                yield build_group(setup, [weight for weight in trainable if id(weight) in members])

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables, those of the groups included."""
        return [*super().variables, *(variable for group in self.groups for variable in group.state)]

    @property
    def batches(self) -> int:
        """Number of batches so far."""
        return value_of(self.batch_counter)

    @property
    def iterations(self) -> Tensor:
        """Number of updates that the moments have seen, an integer scalar."""
        return self.update_number - self._uncounted

    @property
    def update_number(self) -> Tensor:
        """Number of the update that the next batch belongs to, from 0."""
        return self.batch_counter // self.accum_steps

    def begin_epoch(self, rate: float, completed: int, batches: int, done: int, is_listed: bool = False) -> None:
        """Set rate and time for an epoch; reset the moments if a reset is due.

        Args:
            rate: base of the learning rate, see `rate`.
            completed: number of completed epochs.
            batches: number of batches of this epoch.
            done: number of batches of this epoch that are already trained.
            is_listed: True if no rule applies to the rate.
        """
        self.schedule.begin_epoch(rate, is_listed, completed, batches, done, self.batches)
        every = self._params.reset_every_n_epochs
        if every and completed and completed % every == 0 and not done:
            self.reset_moments()

    @property
    def uncounted(self) -> int:
        """Number of updates that `iterations` leaves out: those that were skipped, or before the moments were reset."""
        return value_of(self._uncounted)

    def next_rate(self) -> float:
        """Return the rate of the update that the next batch belongs to."""
        return float(self.schedule(self.batch_counter + 0))

    def reset_moments(self) -> None:
        """Reset all moments, and the number of updates that they have seen.

        Averages, schedules and accumulated gradients are kept.
        """
        for group in self.groups:
            group.reset()
        self._uncounted.assign(self.update_number)

    def reset(self) -> None:
        """Reset moments and averages, after the weights were exchanged.

        Accumulated gradients belong to the old weights and are dropped, but their batches still count:
        the next update comes at its regular batch, with the mean over the batches that remain for it.
        """
        self.reset_moments()
        if self.averages is not None:
            self.averages.reset()
        self._clear([*self._buffers.values(), *self._waiting])

    def continue_after(self, accum_steps: int) -> None:
        """Continue the count of updates after a training with another number of batches per update.

        Gradients that wait are dropped: they would be a part of an update of another size.

        Args:
            accum_steps: batches per update so far.
        """
        if accum_steps != self.accum_steps:
            updates, left = divmod(self.batches, accum_steps)
            if left:
                log.warning("gradients of %d batches are dropped: train_accum_steps changed within an update", left)
            self._clear([*self._buffers.values(), *self._waiting])
            self._nonfinite.forget()
            self.batch_counter.assign(updates * self.accum_steps)

    def with_averages(self) -> AbstractContextManager[None]:
        """Context in which the weights hold their averages, if there are any."""
        return contextlib.nullcontext() if self.averages is None else self.averages.in_place()

    def stopped_at(self) -> tuple[int, int] | None:
        """Return None unless too many updates in a row were not finite, which stops all further ones.

        Returns:
            The last batch of the first of these updates (from 0, as in `batches`), and their number.
        """
        return self._nonfinite.stopped_at()

    def scale_loss(self, loss: Tensor) -> Tensor:
        """Return the loss that gradients are taken of, weighted in its update, and scaled if mixed_float16 needs it."""
        # Times NaN, a loss that is not finite makes its gradients so. Then one check detects both: that
        # of the sums of squares, which the clips need anyway.
        loss = loss * ops.where(ops.isfinite(loss), 1.0, float("nan"))
        if self._waiting:
            loss = loss * (batch_samples.get() / self._unit())
        return loss if self._loss_scale is None else self._loss_scale.scaled(loss)

    def named_variables(self, weights: Mapping[str, keras.Variable]) -> dict[str, keras.Variable]:
        """Return all variables of the built optimizer by stable names.

        Args:
            weights: variables of the graph by path; a slot is named after its kind and the weight it belongs to.
        """
        paths = {id(variable): path for path, variable in weights.items()}
        named: dict[str, keras.Variable] = {}
        slots = {number: slot for optimizer in (self, *self.groups) for number, slot in optimizer.slots.items()}
        for variable in self.variables:
            if id(variable) in slots:
                kind, weight = slots[id(variable)]
                named[f"{kind}/{paths[weight]}"] = variable
        # Not those of schedules, which are functions of the time: a resume may bring others.
        known = {*slots, *map(id, self._scheduled)}
        named.update({v.name: v for v in super().variables if id(v) not in known})
        for i, group in enumerate(self.groups):
            # Keras names some variables of Nadam and Adafactor by a counter of the process.
            others = [variable for variable in group.state if id(variable) not in known]
            named.update({f"part_{i}/{j}": variable for j, variable in enumerate(others)})
        return named

    def _unit(self) -> Tensor:
        """Return the samples of the first batch of the update: each batch counts with its samples in units of them."""
        # So batches of equal size count 1, which leaves the bits of their gradients as they are, in bfloat16 too.
        size, unit = self._waiting
        return ops.where(size.value > 0, unit.value, batch_samples.get())

    @staticmethod
    def _clear(buffers: Iterable[keras.Variable]) -> None:
        for buffer in buffers:
            buffer.assign(ops.zeros(buffer.shape, buffer.dtype))

    def _branch(self, predicate: Tensor, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        # Selecting old or new values instead of branching costs 40 % of a step of a tiny MLP.
        backend.branch(predicate, then, otherwise, [*self.trained_weights, *self.variables])

    def apply(self, grads: list[Any], trainable_variables: Iterable[Any] | None = None) -> None:
        """Update with the gradients of a batch. None, as of a weight that no loss depends on, is 0, as it is on JAX."""
        weights = list(self.trained_weights if trainable_variables is None else trainable_variables)
        lost = [weight for gradient, weight in zip(grads, weights, strict=True) if gradient is None]
        if len(lost) < len(weights) or self.leaves_out_losses():  # else Keras has an error
            grads = [ops.zeros(w.shape, w.dtype) if g is None else g for g, w in zip(grads, weights, strict=True)]
        paths = ", ".join(self._paths.get(id(weight), weight.path) for weight in lost)
        if paths not in ("", self._without_gradient) and not self.leaves_out_losses():
            log.warning("gradients do not exist for %s: no loss depends on these weights", paths)
        self._without_gradient = paths
        super().apply(grads, weights)

    def apply_gradients_of_batch(self, gradients: list[Tensor], weights: list[Any]) -> None:
        """Accumulate the gradients of a batch, weighted by `scale_loss`; update the weights if it ends an update."""
        # Keras' own accumulation fails under `MirroredStrategy`: no branch of a compiled step may contain its
        # `merge_call`. So the gradients are summed over the replicas first; then each replica updates its own copy of
        # the variables in an ordinary branch, which variables with `aggregation="none"` (the default of Keras) allow.
        gradients = backend.sum_over_replicas(gradients, weights)
        if self._loss_scale is not None:
            gradients = self._loss_scale.unscaled(gradients)
        if not self._waiting:
            self._update(gradients, weights)
            return
        size, unit = self._waiting
        first = self._unit()
        count = size.value + batch_samples.get() / first
        buffers = [self._buffers[id(weight)] for weight in weights]
        sums = [buffer + gradient for buffer, gradient in zip(buffers, gradients, strict=True)]

        def finish() -> None:
            self._update([total / ops.cast(count, total.dtype) for total in sums], weights)
            self._clear([*buffers, size])

        def wait() -> None:
            for variable, value in zip([*buffers, size, unit], [*sums, count, first], strict=True):
                variable.assign(value)

        self._branch(ops.equal((self.batch_counter + 1) % self.accum_steps, 0), finish, wait)

    def _update(self, gradients: list[Tensor], weights: list[Any]) -> None:
        """Update with the mean gradients of the whole update, unless all updates are stopped."""
        if self._noise is not None:
            stddev, generator = self._noise
            annealing = ops.power(1.0 + ops.cast(self.update_number, "float32"), self._params.gradient_noise.gamma)
            gradients = add_noise(gradients, stddev / annealing, generator)

        # The norms are computed in a branch, which waits for all gradients: between the operations of
        # the backward pass they would delay these (by 5 % of a convolutional step on a CPU), and with
        # XLA cost three to five times as much (benchmarks/overhead.py).
        def step_if_finite() -> None:
            is_finite, clipped = clip(gradients, **self._clips)
            self._branch(is_finite, lambda: self._step(clipped(), weights), self._skip)

        self._branch(ops.logical_not(self._nonfinite.is_stopped()), step_if_finite, self._skip)

    def _step(self, gradients: list[Tensor], weights: list[Any]) -> None:
        rate, updates = self.learning_rate, self.iterations
        self.schedule.observe(rate)
        by_weight = {id(weight): (gradient, weight) for gradient, weight in zip(gradients, weights, strict=True)}
        for group in self.groups:
            pairs = [by_weight[id(weight)] for weight in group.trained_weights if id(weight) in by_weight]
            group.update([gradient for gradient, _ in pairs], [weight for _, weight in pairs], rate, updates)
        if self.averages is not None:
            self.averages.update(self.update_number + 1, self.assign_sub)
        self._nonfinite.forget()
        if self._loss_scale is not None:
            self._loss_scale.keep_or_grow()

    def _skip(self) -> None:
        self._uncounted.assign(self._uncounted + 1)
        # The scale may be the cause of an overflow: skipped updates count only at its minimum.
        counts = True if self._loss_scale is None else self._loss_scale.is_lowest()
        self._nonfinite.count(self.batch_counter.value, counts)
        if self._loss_scale is not None:
            self._loss_scale.shrink()


def _matching(pattern: str | None, field: str, paths: Mapping[str, keras.Variable]) -> set[int]:
    return set() if pattern is None else {id(paths[path]) for path in matching_paths(pattern, field, "weight", paths)}
