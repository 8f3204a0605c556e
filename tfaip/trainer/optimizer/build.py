"""From optimizer params to a Keras optimizer with a settable rate, all clips, averages and stable names."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import keras
from keras import ops

from tfaip.errors import UsageError
from tfaip.trainer.optimizer.averaging import AverageRate, WeightAverages
from tfaip.trainer.optimizer.params import OptimizerParams
from tfaip.trainer.optimizer.scheduledrate import ScheduledRate
from tfaip.util.typing import Tensor


class _Slots:
    """Kind, weight and variable of every slot; an object, since Keras would take the weights in a list for its own."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, keras.Variable, keras.Variable]] = []


class TrainingOptimizer:
    """Mixin in front of a Keras optimizer class: settable rate, combinable clips, averages, named variables."""

    averages: WeightAverages | None = None

    def __init__(self, params: OptimizerParams, schedule: ScheduledRate, **kwargs: Any) -> None:
        super().__init__(learning_rate=schedule, **kwargs)  # type: ignore[call-arg]
        self._params = params
        self._slots = _Slots()
        schedule.base = self.add_variable((), name="learning_rate", dtype="float32")  # type: ignore[attr-defined]
        schedule.batches_per_epoch = self.add_variable((), "ones", dtype="int", name="batches_per_epoch")  # type: ignore[attr-defined]
        schedule.batch_offset = self.add_variable((), dtype="int", name="batch_offset")  # type: ignore[attr-defined]

    @property
    def rate(self) -> keras.Variable:
        """The learning rate of the next updates, before the rule of time; a float32 scalar variable."""
        return self._learning_rate.base  # type: ignore[attr-defined]

    def begin_epoch(self, rate: float, completed: int, batches: int, done: int) -> None:
        """Set rate and time.

        Time is derived from the progress of the training, so that it goes on when the optimizer's own counter does
        not, and when epochs change their size.

        Args:
            rate: as in `rate`.
            completed: epochs.
            batches: of this epoch.
            done: batches of this epoch that are trained already.
        """
        schedule = self._learning_rate  # type: ignore[attr-defined]
        schedule.base.assign(rate)
        schedule.batches_per_epoch.assign(batches)
        schedule.batch_offset.assign(completed * batches + done - int(self._iterations))  # type: ignore[attr-defined]

    def build_averages(self, rate: AverageRate) -> None:
        """Keep averages of the weights from now on; call it after `build`."""
        weights = list(self._trainable_variables)  # type: ignore[attr-defined]
        variables = [self.add_variable_from_reference(weight, name="average") for weight in weights]
        self.averages = WeightAverages(weights, variables, rate)

    def with_averages(self) -> AbstractContextManager[None]:
        """Context in which the weights hold their averages, if there are any."""
        return contextlib.nullcontext() if self.averages is None else self.averages.in_place()

    def apply(self, grads: list[Tensor], trainable_variables: Any = None) -> None:
        """As in Keras, with the averages after the update."""
        super().apply(grads, trainable_variables)  # type: ignore[misc]
        if self.averages is not None:
            steps = self.gradient_accumulation_steps  # type: ignore[attr-defined]
            is_update = None if steps is None else ops.equal(self._iterations % steps, 0)  # type: ignore[attr-defined]
            self.averages.update(self.iterations, is_update)  # type: ignore[attr-defined]

    def add_variable_from_reference(
        self, reference_variable: keras.Variable, name: str | None = None, initializer: Any = "zeros"
    ) -> keras.Variable:
        """As in Keras; remembers which weight the new variable belongs to."""
        slot = super().add_variable_from_reference(  # type: ignore[misc]
            reference_variable, name=name, initializer=initializer
        )
        self._slots.entries.append((name or "slot", reference_variable, slot))
        return slot

    def named_variables(self, weights: Mapping[str, keras.Variable]) -> dict[str, keras.Variable]:
        """All variables of the built optimizer by stable names.

        Args:
            weights: variables of the graph by path; a slot is named after its kind and the weight it belongs to.
        """
        paths = {id(variable): path for path, variable in weights.items()}
        named = {f"{name}/{paths[id(weight)]}": slot for name, weight, slot in self._slots.entries}
        slots = {id(slot) for slot in named.values()}
        for i, variable in enumerate(self.variables):  # type: ignore[attr-defined]
            if id(variable) not in slots:
                # Adafactor names its placeholders, two for each vector, all after that vector.
                named[variable.name if variable.name not in named else f"{variable.name}_{i}"] = variable
        return named

    def _clip_gradients(self, grads: list[Tensor]) -> list[Tensor]:
        """All clips in a fixed order, on the gradients of one update (the mean, if they are accumulated).

        Overrides the hook of Keras, which allows one kind of clipping only.
        """
        params = self._params
        if params.clip_value is not None:
            grads = [ops.clip(g, -params.clip_value, params.clip_value) for g in grads]
        if params.clip_norm is not None:
            grads = [_scaled_to_norm(g, ops.sqrt(ops.sum(ops.square(g))), params.clip_norm) for g in grads]
        if params.clip_global_norm is not None:
            norm = ops.sqrt(sum(ops.sum(ops.square(g)) for g in grads))
            grads = [_scaled_to_norm(g, norm, params.clip_global_norm) for g in grads]
        return grads


def build_optimizer(
    params: OptimizerParams,
    weights: Mapping[str, keras.Variable],
    trainable: list[keras.Variable],
    accum_steps: int = 1,
    average_rate: AverageRate | None = None,
    rule: Callable[[Tensor], Tensor] | None = None,
) -> Any:
    """The optimizer of a training.

    Args:
        params: the optimizer params.
        weights: all variables of the graph by path.
        trainable: those that are trained, in the order of the model (JAX passes them by position).
        accum_steps: batches per update; the gradient of an update is the mean over them.
        average_rate: keep averages of the weights with this rate; None: keep none.
        rule: factor on the rate, computed with every update, see `ScheduledRate`.

    Raises:
        UsageError: `exclude_from_weight_decay` matches no weight.
    """
    keras_class = params.cls()
    optimizer_class = type(keras_class.__name__, (TrainingOptimizer, keras_class), {})
    optimizer = optimizer_class(
        params,
        ScheduledRate(rule, accum_steps),
        weight_decay=params.weight_decay or None,
        gradient_accumulation_steps=accum_steps if accum_steps > 1 else None,
        **params.arguments(),
    )
    if params.exclude_from_weight_decay:
        optimizer.exclude_from_weight_decay(var_list=_excluded(params.exclude_from_weight_decay, weights))
    optimizer.build(trainable)
    if average_rate is not None:
        optimizer.build_averages(average_rate)
    return optimizer


def _excluded(pattern: str, weights: Mapping[str, keras.Variable]) -> list[keras.Variable]:
    excluded = [variable for path, variable in weights.items() if re.search(pattern, path)]
    if not excluded:
        raise UsageError(
            f"no weight matches {pattern!r}: change --optimizer.exclude_from_weight_decay; the weights are "
            f"{', '.join(weights)}"
        )
    return excluded


def _scaled_to_norm(gradient: Tensor, norm: Tensor, limit: float) -> Tensor:
    # The norm of a zero gradient is 0; the maximum keeps the quotient finite and the gradient unchanged.
    return gradient * (limit / ops.maximum(norm, limit))
