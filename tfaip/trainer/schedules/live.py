"""Values that schedules change while the compiled step stays: variables of the model and of its optimizer."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import keras

from tfaip.backend.keras_private.dropout import reset_dropout_rate, set_dropout_rate
from tfaip.backend.keras_private.numbers import NumberVariable
from tfaip.model.livevalues import dropout_layers, scheduled_values
from tfaip.model.trainingmodel import TrainingModel
from tfaip.model.updatenoise import UpdateNoise
from tfaip.params.limits import FieldError
from tfaip.trainer.optimizer.build import live_numbers
from tfaip.trainer.optimizer.trainingoptimizer import TrainingOptimizer
from tfaip.trainer.run.names import SCHEDULED_PREFIX
from tfaip.trainer.schedules.table import ScheduleTable
from tfaip.trainer.schedules.targets import (
    GRAPH,
    INPUT_GRADIENT,
    LOSS_WEIGHTS,
    MODEL,
    Schedule,
    live_schedules,
    refuse,
    shown_name,
)
from tfaip.util.logging import logger
from tfaip.util.typing import Logs, Tensor

log = logger(__name__)

OPTIMIZER = "optimizer."
NOISE = "weight_noise.stddev"


class LiveSchedules:
    """Schedules of live values; a value is computed inside of the step from the number of its update.

    So it is the same for any number of steps per execution, and nothing of it is stored.

    Args:
        params: the trainer params.
    """

    def __init__(self, params: Any) -> None:
        self._schedules = schedules = live_schedules(params)
        self._params = params
        self._targets: list[keras.Variable] = []
        self._table = ScheduleTable([schedule.params for schedule in schedules]) if schedules else None
        self._optimizer: TrainingOptimizer | None = None
        self._noise: UpdateNoise | None = None
        paths = [schedule.path for schedule in schedules]
        of_optimizer = _targets_of_optimizer(params)
        self.of_optimizer = [path.removeprefix(OPTIMIZER) for path in paths if path in of_optimizer]
        """Numbers of the optimizer that are scheduled, see `build_optimizer`."""
        self._variables = {path: NumberVariable(0.0, name="scheduled") for path in paths if path not in of_optimizer}

    @property
    def variables(self) -> list[keras.Variable]:
        """Variables that the training model has to own."""
        return list(self._variables.values())

    def number(self, path: str, value: float) -> float | keras.Variable:
        """Return the variable in the place of a number of the trainer params, or the number if it is not scheduled."""
        return self._variables.get(path, value)

    def loss_weights(self) -> dict[str, float | keras.Variable]:
        """Return the weights of losses that the training gives, those with a schedule as variables."""
        found: dict[str, float | keras.Variable] = dict(self._params.loss_weights)
        for path, variable in self._variables.items():
            if path.startswith(LOSS_WEIGHTS):
                found[path.removeprefix(LOSS_WEIGHTS)] = variable
        return found

    def bind(self, model: TrainingModel, seed: int) -> None:
        """Let the compiled model follow the schedules.

        Args:
            model: compiled with the optimizer that has the numbers `of_optimizer`.
            seed: of dropout layers that have no generator since their rate is 0.

        Raises:
            FieldAdvice: if a target is not live; its path begins at the trainer params.
        """
        layers = dropout_layers(model.graph)
        for layer in layers.values():
            reset_dropout_rate(layer)
        live = self._live_variables(model)
        rates = {_graph_path(f"{path}/rate"): layer for path, layer in layers.items()}
        for schedule in self._schedules:
            variable = live.get(schedule.path)
            if schedule.path in rates:
                _check_share(schedule, "a rate of a dropout")
                variable = self._variables[schedule.path]
                set_dropout_rate(rates[schedule.path], variable, _seed_of(schedule.path, seed))
            if variable is None:
                known = [*rates, *_without_aliases(live)]
                # In full: a command shortens its errors.
                log.info("values that can be scheduled: %s", ", ".join(sorted(map(shown_name, known))))
                raise refuse(schedule, known)
            self._targets.append(variable)
            log.info("schedule %s: %s", schedule.name, schedule.described())
        self._optimizer, self._noise = model.optimizer, model.noise
        if self._targets or self._noise is not None:
            model.follow(self)

    def begin_step(self) -> None:
        """Set the values of an update, inside of the compiled step."""
        optimizer = self._bound()
        self._assign(optimizer.completed_epochs)
        if self._noise is not None:
            self._noise.begin_update(optimizer.update_number)

    def end_epoch(self) -> Logs:
        """Set the values of the last update that was trained, which a validation has; return them by logged name."""
        if not self._targets:
            return {}
        # Computed here, not in the step, whose last bit may differ: a run that resumes after the last batch has not
        # executed it.
        optimizer = self._bound()
        self._assign(optimizer.schedule.completed_epochs(optimizer.batches - 1))
        return {
            f"{SCHEDULED_PREFIX}{schedule.name}": float(variable + 0.0)
            for schedule, variable in zip(self._schedules, self._targets, strict=True)
        }

    def _assign(self, epochs: Tensor) -> None:
        if self._table is None:
            return
        values = self._table.values(epochs)
        for i, variable in enumerate(self._targets):
            variable.assign(values[i])

    def _bound(self) -> TrainingOptimizer:
        assert self._optimizer is not None  # noqa: S101 (set by `bind`)
        return self._optimizer

    def _live_variables(self, model: TrainingModel) -> Mapping[str, keras.Variable | None]:
        """Return all values that can be scheduled but dropout rates, with the variables of those that are."""
        params, optimizer = self._params, model.optimizer
        numbers = optimizer.numbers.variables
        live: dict[str, keras.Variable | None] = {}
        for path in (*fixed_targets(params), *(f"{LOSS_WEIGHTS}{name}" for name in model.loss_names)):
            live[path] = numbers.get(path.removeprefix(OPTIMIZER), self._variables.get(path))
        for path, variable in scheduled_values(model.graph).items():
            live[_graph_path(path)] = variable
            if "/" not in path:
                live[f"{MODEL}{path}"] = variable
        live.update({f"{MODEL}{name}": v for name, v in model.model_base.scheduled_values.items()})
        return live


def fixed_targets(params: Any) -> list[str]:
    """Return the paths of the live values that every model has with these trainer params."""
    paths = [NOISE, *_targets_of_optimizer(params)]
    for index in range(len(params.weight_penalties)):
        paths += [f"weight_penalties.{index}.{name}" for name in ("l1", "l2")]
    if params.scenario.use_input_gradient_regularization:
        paths.append(INPUT_GRADIENT)
    return paths


def _targets_of_optimizer(params: Any) -> list[str]:
    return [f"{OPTIMIZER}{name}" for name in live_numbers(params.optimizer)]


def check_targets(params: Any) -> None:
    """Raise unless the targets of all live schedules may be live, as far as that is known without the model.

    Raises:
        FieldAdvice: if one cannot be; its path begins at the trainer params.
    """
    fixed = fixed_targets(params)
    for schedule in live_schedules(params):
        if not schedule.path.startswith((GRAPH, MODEL, LOSS_WEIGHTS)) and schedule.path not in fixed:
            raise refuse(schedule, [*fixed, f"{LOSS_WEIGHTS}NAME", f"{GRAPH}LAYER.rate", f"{MODEL}NAME"])


def _graph_path(path: str) -> str:
    return GRAPH + path.replace("/", ".")


def _without_aliases(live: Mapping[str, Any]) -> list[str]:
    """Return the paths without those of the outermost graph that are there as `model.NAME` too."""
    return [path for path in live if f"{MODEL}{path.removeprefix(GRAPH)}" not in live or not path.startswith(GRAPH)]


def _check_share(schedule: Schedule, what: str) -> None:
    for epochs, share in schedule.params.points.items():
        if not 0 <= share <= 1:
            raise FieldError(f"{schedule.place}.points", share, f"{what}, from 0 to 1", index=epochs)


def _seed_of(path: str, seed: int) -> int:
    return zlib.crc32(f"{seed}/{path}".encode()) % 2**31
