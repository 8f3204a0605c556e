"""Rates and scheduled values without a training: of a run before it begins, and of other params for recorded scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfaip.trainer.history import EpochRecord, History
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.scheduler import LearningRateParams
from tfaip.trainer.schedules.dataparams import DataSchedules
from tfaip.trainer.schedules.targets import schedules_of

POINTS_PER_EPOCH = 40
# Of more epochs than this the first and the last update are enough for a picture.
MANY_EPOCHS = 1000


@dataclass(frozen=True)
class EpochRates:
    """Rates, or values of another schedule, of one epoch.

    Args:
        epoch: from 1.
        updates: number of the first update, and of the first one of the next epoch, from 0.
        points: time in completed epochs, and the rate of the update that begins there; includes the
            first and the last update of the epoch.
    """

    epoch: int
    updates: tuple[int, int]
    points: Sequence[tuple[float, float]]


def preview_rates(
    params: TrainerParams[Any, Any], batches: int, network: Any, chosen: History | None = None
) -> list[EpochRates]:
    """Return the rates of a run, computed by the code that computes them in the training.

    Controls that follow scores behave as if there were none.

    Args:
        params: the trainer params.
        batches: batches of an epoch.
        network: the graph, for functions of the user.
        chosen: rates that the user has chosen for epochs; None: there are none.
    """
    # Only here: a replay needs no backend.
    from tfaip.trainer.optimizer.scheduledrate import ScheduledRate

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


def preview_schedules(params: TrainerParams[Any, Any], batches: int) -> dict[str, list[EpochRates]]:
    """Return the values of all schedules by the name of their target.

    Args:
        params: the trainer params.
        batches: batches of an epoch.

    Raises:
        FieldError: if a target or a value cannot be; its path begins at `params`.
    """
    from tfaip.trainer.schedules.live import check_targets

    schedules, accum = schedules_of(params), params.train_accum_steps
    check_targets([schedule for schedule in schedules if not schedule.is_of_data], params)
    of_data = DataSchedules([schedule for schedule in schedules if schedule.is_of_data], params)
    of_data.check_each(lambda changed: None)
    found: dict[str, list[EpochRates]] = {schedule.name: [] for schedule in schedules}
    for epoch in range(1, params.epochs + 1):
        first, end = (epoch - 1) * batches // accum, epoch * batches // accum
        logged = of_data.logged(epoch)
        for schedule in schedules:
            if schedule.is_of_data:
                points = [(float(epoch - 1), logged[schedule.name])]
            else:
                updates = _spread(first, end) if params.epochs <= MANY_EPOCHS else sorted({first, max(first, end - 1)})
                times = [update * accum / batches for update in updates]
                points = [(time, schedule.params.value(time)) for time in times]
            found[schedule.name].append(EpochRates(epoch, (first, end), points))
    return found


def _spread(first: int, end: int) -> list[int]:
    """Return at most `POINTS_PER_EPOCH` numbers from `first` below `end`, both edges included."""
    count = end - first
    if count <= POINTS_PER_EPOCH:
        return list(range(first, end))
    return [first + round(i * (count - 1) / (POINTS_PER_EPOCH - 1)) for i in range(POINTS_PER_EPOCH)]


def replay(params: LearningRateParams, recorded: History) -> History:
    """Return the rates that `params` give for the recorded epochs, decided on the recorded values."""
    replayed = History()
    for epoch in recorded.epochs:
        replayed.record(epoch, EpochRecord(params.rate(epoch, replayed), recorded.values(epoch)))
    return replayed


def _variable(shape: tuple[int, ...], initializer: str = "zeros", dtype: Any = None, name: str = "") -> Any:
    import keras

    return keras.Variable(initializer, shape=shape, dtype=dtype, trainable=False, name=name)
