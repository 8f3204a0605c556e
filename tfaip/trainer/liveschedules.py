"""Schedules at work: what the step reads is computed in it, data and numbers of Keras are set when an epoch begins."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import keras
from keras import ops

from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.sampler import Position
from tfaip.device.devices import Devices
from tfaip.model.layerbase import ScheduledValue, WithScheduledValues
from tfaip.model.trainingmodel import TrainingModel
from tfaip.model.variables import all_layers_by_path
from tfaip.trainer.datasets import check_batch_sizes, create_training_pipeline
from tfaip.trainer.params import Params
from tfaip.trainer.run.names import SCHEDULED_PREFIX
from tfaip.trainer.schedules.targets import (
    GRAPH,
    LOSS_WEIGHTS,
    MODEL,
    OPTIMIZER,
    EpochValues,
    fixed_targets,
    refuse,
    schedules_of,
    shown_name,
)
from tfaip.util.logging import logger
from tfaip.util.typing import Logs, Tensor

log = logger(__name__)

# In the place of a momentum of 0, for which Keras would not keep the means of the gradients up to date.
_NO_MOMENTUM = 1e-30
_DROPOUTS = (keras.layers.Dropout, keras.layers.GaussianDropout)  # the spatial ones are derived from the first


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
        paths = [schedule.path for schedule in self._schedules if not schedule.is_of_model]
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
        model, optimizer = self._model, self._model.optimizer
        self._assign(optimizer.schedule.completed_epochs(optimizer.batch_counter + 0))
        if model.noise is not None:
            model.noise.begin_update(optimizer.update_number)

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


class EpochSchedules:
    """Schedules whose values change between epochs.

    An epoch whose data differ from those of the epoch before begins with a new pass over the data, so that its samples
    are a function of the seed, the pass and the values. Another rate or momentum compiles the step again.

    Args:
        params: the trainer params, with a seed.
        scenario: creates the pipelines.
        devices: the batches of every epoch can be shared among them.

    Raises:
        FieldError: if a target or a value cannot be; its path begins at the trainer params.
    """

    def __init__(self, params: Params, scenario: Any, devices: Devices) -> None:
        self._values = EpochValues(params)
        self._scenario = scenario
        self._data: dict[str, float] = {}
        self._objects: Mapping[str, list[Any]] | None = None
        self._opened = ExitStack()
        self._changed = ExitStack()
        for schedule in self._values.schedules:
            if schedule.is_of_data:
                log.info("schedule %s: %s, with the next epoch", schedule.name, schedule.described())
        self._values.check_each(lambda changed: check_batch_sizes(changed, devices))

    def close(self) -> None:
        """End the workers of the pipeline, and set rates back."""
        self._opened.close()
        self._changed.close()

    def set_numbers(self, epoch: int, model: TrainingModel) -> None:
        """Set the dropout rates and each momentum of an epoch (from 1)."""
        if self._objects is None:
            self._objects = objects_of_epochs(model)
        values = self._values.values(epoch)
        for schedule in self._values.schedules:
            name = schedule.path.rpartition(".")[2]
            value = values[schedule.path] or (_NO_MOMENTUM if name == "momentum" else 0.0)
            for owner in () if schedule.is_of_data else self._objects[schedule.path]:
                before = getattr(owner, name)
                if value != before:
                    self._changed.callback(setattr, owner, name, before)
                    self._changed.callback(model.forget_compiled_steps)
                    setattr(owner, name, value)
                    model.forget_compiled_steps()

    def pipeline(self, epoch: int, current: DataPipeline) -> DataPipeline:
        """Return the pipeline of an epoch, opened.

        Args:
            epoch: from 1.
            current: the pipeline of the epoch before, or of the params.
        """
        values = self._values.of_data(epoch)
        if values == self._data:  # also if nothing is scheduled
            return current
        self._data = values
        self._opened.close()
        changed = self._values.params_of(epoch)
        data = self._scenario.data
        if changed.scenario is not self._values.params.scenario:
            data = data.with_params(changed.scenario.data)
        pipeline = create_training_pipeline(changed, self._scenario, data)
        shown = ", ".join(f"{shown_name(path)} {value:g}" for path, value in values.items())
        log.info("data of epoch %d: %s", epoch, shown)
        self._opened.enter_context(pipeline)
        return pipeline

    def position(self, epoch: int, position: Position) -> Position:
        """Return where an epoch (from 1) begins that follows this position."""
        if epoch == 1 or self._values.of_data(epoch) == self._values.of_data(epoch - 1):
            return position
        started = position.consumed > 0 or position.emitted > 0
        number = position.pass_index + 1 if started else position.pass_index
        return replace(position, pass_index=number, consumed=0, emitted=0, pending=())

    def logged(self, epoch: int) -> Logs:
        """Return the values of an epoch by logged name."""
        return {f"{SCHEDULED_PREFIX}{name}": value for name, value in self._values.logged(epoch).items()}


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


def _graph_path(path: str, name: str) -> str:
    return GRAPH + f"{path}/{name}".lstrip("/").replace("/", ".")
