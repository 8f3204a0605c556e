"""Checks of a list of stages that need no scenario."""

from __future__ import annotations

from collections.abc import Mapping

from tfaip.params.limits import FieldError
from tfaip.trainer.stages.params import RepeatStage, StageParams, TrainStage
from tfaip.trainer.stages.unrolling import unroll


def check_stages(stages: Mapping[str, StageParams], epochs: int) -> None:
    """Raise unless the stages can be run one after the other, and leave epochs to the plain params.

    Args:
        stages: `TrainerParams.stages`.
        epochs: the last epoch of the run.

    Raises:
        FieldError: if they cannot; the path begins at the params that have the stages.
    """
    unroll(stages)
    check_remaining_epochs(count_epochs(stages), epochs)


def count_epochs(stages: Mapping[str, StageParams]) -> int:
    """Return the number of epochs that the stages train, with all repetitions."""
    count = 0
    for stage in stages.values():
        if isinstance(stage, TrainStage):
            count += stage.epochs or 0
        elif isinstance(stage, RepeatStage):
            count += stage.times * count_epochs(stage.stages)
    return count


def check_remaining_epochs(used: int, epochs: int) -> None:
    """Raise unless epochs are left for the plain params.

    Args:
        used: number of epochs of all stages before.
        epochs: the last epoch of the run.

    Raises:
        FieldError: if there are none.
    """
    if used and used >= epochs:
        raise FieldError("epochs", epochs, f"more than the {used} epochs of the stages, as it counts all of them")
