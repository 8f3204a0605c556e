"""Schedules of what the step reads: functions of the update, computed inside of what is compiled."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tfaip.model.layerbase import ScheduledValue, WithScheduledValues
from tfaip.model.trainingmodel import TrainingModel
from tfaip.model.variables import all_layers_by_path
from tfaip.trainer.optimizer.trainingoptimizer import scheduled_momenta, scheduled_numbers
from tfaip.trainer.run.names import SCHEDULED_PREFIX
from tfaip.trainer.schedules.targets import (
    GRAPH,
    INPUT_GRADIENT_PATH,
    LOSS_WEIGHTS,
    MODEL,
    OPTIMIZER,
    refuse,
    schedules_of,
    shown_name,
)
from tfaip.util.logging import logger
from tfaip.util.typing import Logs, Tensor

log = logger(__name__)

_DROPOUTS = (
    keras.layers.Dropout,
    keras.layers.SpatialDropout1D,
    keras.layers.SpatialDropout2D,
    keras.layers.SpatialDropout3D,
    keras.layers.GaussianDropout,
)


class StepSchedules:
    """Schedules whose values are variables that the step assigns when it begins.

    So a value is the same for any number of steps per execution, nothing is compiled again, and nothing is stored.

    Args:
        params: the trainer params.
    """

    _model: TrainingModel

    def __init__(self, params: Any) -> None:
        self._params = params
        self._known = [schedule for schedule in schedules_of(params) if not schedule.is_of_data]
        self._schedules = [schedule for schedule in self._known if not schedule.is_of_epoch]
        self._targets: list[keras.Variable] = []
        paths = [s.path for s in self._schedules if not s.path.startswith((GRAPH, MODEL, LOSS_WEIGHTS))]
        self.variables = {path: keras.Variable(0.0, trainable=False, dtype="float32") for path in paths}
        """Variables in the place of numbers of the trainer params, by path; model and optimizer have to own them."""

    def bind(self, model: TrainingModel) -> None:
        """Let the step of a model, compiled with the variables, follow the schedules.

        Raises:
            FieldAdvice: if there is no such target; its path begins at the trainer params.
        """
        known = self._targets_of(model)
        for schedule in self._known:
            if schedule.path not in known:
                # Without those of the outermost graph that are there as `model.NAME` too.
                names = [path for path in known if path.replace(GRAPH, MODEL, 1) not in known or GRAPH not in path]
                # In full: a command shortens its errors.
                log.info("values that can be scheduled: %s", ", ".join(sorted(map(shown_name, names))))
                raise refuse(schedule, names)
            log.info("schedule %s: %s", schedule.name, schedule.described())
        self._targets = [known[schedule.path] for schedule in self._schedules]
        self._model = model
        if self._targets or model.noise is not None:
            model.follow(self)

    def begin_step(self) -> None:
        """Set the values of an update, inside of the compiled step."""
        model = self._model
        self._assign(model.optimizer.completed_epochs)
        if model.noise is not None:
            model.noise.begin_update(model.optimizer.update_number)

    def end_epoch(self) -> Logs:
        """Set the values of the last update that was trained, which a validation has; return them by logged name."""
        # Computed here, not in the step, whose last bit may differ: a run that resumes after the last batch has not
        # executed it.
        optimizer = self._model.optimizer
        self._assign(optimizer.schedule.completed_epochs(optimizer.batches - 1))
        named = zip(self._schedules, self._targets, strict=True)
        return {f"{SCHEDULED_PREFIX}{schedule.name}": float(variable + 0.0) for schedule, variable in named}

    def _assign(self, epochs: Tensor) -> None:
        for schedule, variable in zip(self._schedules, self._targets, strict=True):
            variable.assign(schedule.params.value(epochs, ops))

    def _targets_of(self, model: TrainingModel) -> dict[str, Any]:
        """Return all targets of a model by path, with the variables of those that the step assigns."""
        found = {path: self.variables.get(path) for path in fixed_targets(self._params)}
        found.update({f"{LOSS_WEIGHTS}{name}": model.loss_weights.get(name) for name in model.loss_names})
        found.update(dict.fromkeys(objects_of_epochs(model)))
        found.update(scheduled_values(model))
        return found


def objects_of_epochs(model: TrainingModel) -> dict[str, list[Any]]:
    """Return the layers and optimizers of Keras whose rate or momentum epochs set, by the path of the target."""
    found: dict[str, list[Any]] = {}
    for path, layer in all_layers_by_path(model.graph).items():
        # One that was made with rate 0 has no random generator, and needs it before the model is built.
        if isinstance(layer, _DROPOUTS) and layer.rate > 0:
            found[_graph_path(path, "rate")] = [layer]
    for group in model.optimizer.groups:
        if hasattr(group, "momentum"):
            found.setdefault(f"{OPTIMIZER}{group.setup.momentum}", []).append(group)
    return found


def scheduled_values(model: TrainingModel) -> dict[str, ScheduledValue]:
    """Return the numbers that were made with `scheduled`, by the path of the target; the outermost graph has two."""
    found: dict[str, ScheduledValue] = {}
    for path, layer in {"": model.graph, **all_layers_by_path(model.graph)}.items():
        if isinstance(layer, WithScheduledValues):
            found.update({_graph_path(path, name): value for name, value in layer.scheduled_values.items()})
    own = {**model.graph.scheduled_values, **model.model_base.scheduled_values}
    return {**found, **{f"{MODEL}{name}": value for name, value in own.items()}}


def fixed_targets(params: Any) -> list[str]:
    """Return the paths of the targets that every model has with these trainer params."""
    numbers = [*scheduled_numbers(params.optimizer), *scheduled_momenta(params.optimizer)]
    paths = ["weight_noise.stddev", *(f"{OPTIMIZER}{name}" for name in numbers)]
    for index in range(len(params.weight_penalties)):
        paths += [f"weight_penalties.{index}.{name}" for name in ("l1", "l2")]
    if params.scenario.use_input_gradient_regularization:
        paths.append(INPUT_GRADIENT_PATH)
    return paths


def check_targets(params: Any) -> None:
    """Raise unless all targets are possible, as far as that is known without the model.

    Raises:
        FieldAdvice: if one is not; its path begins at the trainer params.
    """
    fixed = fixed_targets(params)
    for schedule in schedules_of(params):
        by_model = schedule.is_of_data or schedule.path.startswith((GRAPH, MODEL, LOSS_WEIGHTS))
        if not by_model and schedule.path not in fixed:
            raise refuse(schedule, [*fixed, f"{LOSS_WEIGHTS}NAME", f"{GRAPH}LAYER.rate", f"{MODEL}NAME"])


def _graph_path(path: str, name: str) -> str:
    return GRAPH + f"{path}/{name}".lstrip("/").replace("/", ".")
