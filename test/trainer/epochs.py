"""The batches of a training without the training: those of each epoch, from any state on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tfaip.data.pipeline.sampler import Position
from tfaip.device.devices import Devices
from tfaip.trainer.build import Training, build_run, build_training
from tfaip.trainer.signals import StopRequest
from tfaip.trainer.stages.program import preview_stages

T = TypeVar("T")


def setup_of(params: Any, scenario_cls: Any) -> Training:
    """The parts of a training at its beginning."""
    scenario = scenario_cls(params.scenario)
    run = build_run(params, preview_stages(params, scenario), None, Devices(), StopRequest())
    return build_training(run, run.preview.stages[-1], scenario)


def batches_of_epochs(
    setup: Training, read: Callable[[Any], T], first: int = 1, stop_after: int | None = None
) -> list[list[T]]:
    """What `read` returns of each batch of each epoch, from the state of the setup on.

    The training stops after batches of the first epoch, if their number is given.
    """
    epochs = []
    progress = setup.state.progress
    with setup.opened():
        for number in range(first, setup.params.epochs + 1):
            setup.begin_epoch(number)
            batches = []
            left = setup.epoch_samples() - progress.samples
            with setup.train_data.training_batches(progress.position, left) as stream:
                for batch, position in stream:
                    batches.append(read(batch))
                    progress.step, progress.samples = progress.step + 1, progress.samples + batch.size
                    progress.position = Position.from_dict(position.to_dict())
                    if len(batches) == stop_after:
                        return [batches]
            epochs.append(batches)
            progress.begin_epoch_after(number)
    return epochs
