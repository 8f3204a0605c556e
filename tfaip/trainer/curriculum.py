"""Curriculum: training data whose difficulty changes from epoch to epoch."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.position import Position
from tfaip.device.devices import Devices
from tfaip.params.limits import below
from tfaip.trainer.datasetup import create_training_pipeline
from tfaip.trainer.run.names import SCHEDULED_PREFIX
from tfaip.trainer.runparams import Params
from tfaip.trainer.schedules.dataparams import DataSchedules
from tfaip.trainer.schedules.targets import schedules_of_data
from tfaip.util.logging import logger
from tfaip.util.typing import Logs

log = logger(__name__)


class Curriculum:
    """Schedules of params of the training data, each with the values at the beginning of an epoch.

    An epoch whose values differ from those of the epoch before begins with a new pass over the data, so that its
    samples are a function of the seed, the pass and the values. A context: it closes the workers of its pipeline.

    Args:
        params: the trainer params, with a seed.
        scenario: creates the pipelines.
        devices: the batches of every epoch can be shared among them.

    Raises:
        FieldError: if a target or a value cannot be; its path begins at the trainer params.
    """

    def __init__(self, params: Params, scenario: Any, devices: Devices) -> None:
        schedules = schedules_of_data(params)
        self._schedules = DataSchedules(params)
        self._scenario = scenario
        self._current: dict[str, float] = {}
        self._opened = ExitStack()
        for schedule in schedules:
            log.info("schedule %s: %s, with the next epoch", schedule.name, schedule.described())
        if schedules:
            self._schedules.check_each(lambda changed: check_batch_sizes(changed, devices))

    def __enter__(self) -> Curriculum:
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()

    def pipeline(self, epoch: int, current: DataPipeline) -> DataPipeline:
        """Return the pipeline of an epoch, opened.

        Args:
            epoch: from 1.
            current: the pipeline of the epoch before, or of the params.
        """
        values = self._schedules.values(epoch)
        if values == self._current:  # also if nothing is scheduled
            return current
        self._current = values
        self._opened.close()
        changed = self._schedules.params_with(values)
        data = self._scenario.data
        if changed.scenario is not self._schedules.params.scenario:
            data = data.with_params(changed.scenario.data)
        pipeline = create_training_pipeline(changed, self._scenario, data)
        shown = ", ".join(f"{name} {value:g}" for name, value in self._schedules.logged(epoch).items())
        log.info("data of epoch %d: %s", epoch, shown)
        self._opened.enter_context(pipeline)
        return pipeline

    def position(self, epoch: int, position: Position) -> Position:
        """Return where an epoch (from 1) begins that follows this position."""
        if epoch == 1 or self._schedules.values(epoch) == self._schedules.values(epoch - 1):
            return position
        started = position.consumed > 0 or position.emitted > 0
        number = position.pass_index + 1 if started else position.pass_index
        return replace(position, pass_index=number, consumed=0, emitted=0, pending=())

    def logged(self, epoch: int) -> Logs:
        """Return the values of an epoch by logged name."""
        return {f"{SCHEDULED_PREFIX}{name}": value for name, value in self._schedules.logged(epoch).items()}


def check_batch_sizes(params: Params, devices: Devices) -> None:
    """Raise unless all batches can be shared among the devices.

    Raises:
        FieldError: if some cannot; its path begins at the trainer params.
    """
    setup = params.gen.setup
    for name, pipeline in (("train", setup.train), ("val", setup.val)):
        with below(f"gen.setup.{name}"):
            devices.check_batch_size(pipeline.batch_size, "batch_size")
            for size in pipeline.bucket_batch_sizes or []:
                devices.check_batch_size(size, "bucket_batch_sizes")
