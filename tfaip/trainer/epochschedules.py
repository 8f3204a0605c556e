"""Schedules whose values are set between epochs: data, rates of dropouts, and momenta."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.sampler import Position
from tfaip.device.devices import Devices
from tfaip.model.trainingmodel import TrainingModel
from tfaip.trainer.datasets import check_batch_sizes, create_training_pipeline
from tfaip.trainer.params import Params
from tfaip.trainer.run.names import SCHEDULED_PREFIX
from tfaip.trainer.schedules.instep import objects_of_epochs
from tfaip.trainer.schedules.targets import EpochValues, shown_name
from tfaip.util.logging import logger
from tfaip.util.typing import Logs

log = logger(__name__)

# In the place of a momentum of 0, for which Keras would not keep the means of the gradients up to date.
_NO_MOMENTUM = 1e-30


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
