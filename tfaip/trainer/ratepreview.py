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


def preview_rates(
    params: TrainerParams[Any, Any], batches: int, network: Any, chosen: History | None = None
) -> list[EpochRates]:
    """The rates of a run; controls that follow scores go on without any.

    Args:
        params: of the training.
        batches: of an epoch.
        network: the graph, for functions of the user.
        chosen: rates that somebody has chosen for epochs; None: nobody has.
    """
    history = History() if chosen is None else chosen.rates_only()
    rule, accum = params.learning_rate, params.train_accum_steps
    schedule = ScheduledRate(rule, accum, network)
    schedule.build(_variable)
    found = []
    for epoch in range(1, params.epochs + 1):
        before, is_chosen = (epoch - 1) * batches, epoch in history
        rate = history.set_default_rate(epoch, rule.rate(epoch, history))
        base = rate if is_chosen else rule.base(epoch, history)
        is_listed = is_chosen or epoch in rule.listed()
        schedule.begin_epoch(base, is_listed, epoch - 1, batches, done=0, counted=before)
        first, end = before // accum, (before + batches) // accum
        updates = _spread(first, end) if schedule.varies else [first]
        # The first batch of an update may belong to the epoch before.
        points = [(update * accum / batches, float(schedule(update * accum))) for update in updates]
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
