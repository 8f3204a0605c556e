"""Stages of a run in the order in which they run, each with the params that it resolves to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tfaip.trainer.transfer.params import TransferParams

MAIN = "main"


class StageKind(StrEnum):
    """Work of a stage."""

    TRAIN = "train"
    PREDICT = "predict"
    CALL = "call"


@dataclass(frozen=True)
class PlannedStage:
    """Stage of a run, after groups were unrolled.

    Args:
        name: its key; of one in a group, `group.repetition.key` (`loop.2.align`). The plain params are `main`.
        kind: its work.
        first_epoch: its first epoch in the numbers of the whole run; of a stage without training the
            epoch that follows it.
        last_epoch: its last epoch; without training `first_epoch - 1`.
        params: the whole tree of its training; None: it refers to a result that does not exist yet
            (`{align.dir}`), and is resolved when it is reached.
        overrides: dotted path -> value as text, after `{repeat}` was filled in.
        rate_control: False: the rate is held, and the scores of the stage do not count for the control.
        transfer: the weights that it takes over from the stage before.
        settings: the params of the stage itself.
        epoch_offset: number of the epoch of the run before the first one of the rate control; not 0 only where
            `Trainer.fit` was called again.
        pending: of a stage whose params are None: computes them, see `tfaip.trainer.stages.plan.resolve_stage`.
        asks_history: True if a hook computes them that asks for the history.
    """

    name: str
    kind: StageKind
    first_epoch: int
    last_epoch: int
    params: Any
    overrides: Mapping[str, str] = field(default_factory=dict)
    rate_control: bool = True
    transfer: TransferParams = field(default_factory=TransferParams)
    settings: Any = None
    epoch_offset: int = 0
    pending: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    asks_history: bool = False


def path_of_params(name: str) -> str:
    """Return the dotted path of the params of a stage of the list, in those of the run.

    Args:
        name: full name of the stage.
    """
    return f"stages.{'.stages.'.join(name.split('.')[::2])}"
