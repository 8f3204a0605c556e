"""The learning rates of a run before it begins, computed by what will compute them in the training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras

from tfaip.trainer.history import History
from tfaip.trainer.optimizer.scheduledrate import ScheduledRate
from tfaip.trainer.params import TrainerParams

POINTS_PER_EPOCH = 40


@dataclass(frozen=True)
class EpochRates:
    """The rates of one epoch.

    Args:
        epoch: from 1.
        updates: number of the first update, and of the first one of the next epoch, from 0.
        points: time in completed epochs, and the rate of the update that begins there; the first and the last update
            of the epoch are among them.
    """

    epoch: int
    updates: tuple[int, int]
    points: Sequence[tuple[float, float]]


def preview_rates(params: TrainerParams[Any, Any], batches: int, network: Any) -> list[EpochRates]:
    """The rates of a run; controls that follow scores go on without any.

    Args:
        params: of the training.
        batches: of an epoch.
        network: the graph, for functions of the user.
    """
    rule, accum = params.learning_rate, params.train_accum_steps
    schedule = ScheduledRate(rule, accum, network)
    schedule.build(_variable)
    found = []
    for epoch in range(1, params.epochs + 1):
        history, before = History(), (epoch - 1) * batches
        base = rule.base(epoch, history)
        schedule.begin_epoch(base, epoch in rule.listed(), epoch - 1, batches, done=0, counted=before)
        first, end = before // accum, (before + batches) // accum
        chosen = _spread(first, end) if schedule.varies else [first]
        # The first batch of an update may belong to the epoch before.
        points = [(update * accum / batches, float(schedule(update * accum))) for update in chosen]
        found.append(EpochRates(epoch, (first, end), points))
    return found


def _spread(first: int, end: int) -> list[int]:
    """Numbers from `first` below `end`, both edges among them, not too many."""
    count = end - first
    if count <= POINTS_PER_EPOCH:
        return list(range(first, end))
    return [first + round(i * (count - 1) / (POINTS_PER_EPOCH - 1)) for i in range(POINTS_PER_EPOCH)]


def _variable(shape: tuple[int, ...], initializer: str = "zeros", dtype: Any = None, name: str = "") -> keras.Variable:
    return keras.Variable(initializer, shape=shape, dtype=dtype, trainable=False, name=name)
