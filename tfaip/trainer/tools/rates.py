"""Rates and scheduled values without a training: of a run before it begins, and of other params for recorded scores."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfaip.trainer.history import History
from tfaip.trainer.scheduledvalues import EpochSchedules, schedules_of
from tfaip.trainer.scheduler import LearningRateParams
from tfaip.trainer.stages.program import PlannedStage

RATE = "learning rate"
POINTS_PER_EPOCH = 40


@dataclass(frozen=True)
class EpochRates:
    """Rates, or values of another schedule, of one epoch.

    Args:
        updates: number of the first update, and of the first one of the next epoch, from 0.
        points: time in completed epochs, and the rate of the update that begins there; includes the
            first and the last update of the epoch.
    """

    stage: str
    epoch: int
    updates: tuple[int, int]
    points: Sequence[tuple[float, float]]


def preview_rates(
    stages: Sequence[tuple[PlannedStage, int, Any]], chosen: History | None = None
) -> dict[str, list[EpochRates]]:
    """Return the rates of a run by `RATE`, and all scheduled values by the name of their target.

    The code that computes them in the training computes them here. Controls that follow scores behave as if there were
    none.

    Args:
        stages: all stages that train, in order; the batches of their epochs; the graphs, for functions of the user.
        chosen: rates that the user has chosen for epochs; None: there are none.

    Raises:
        FieldError: if a target or a value cannot be; its path begins at the trainer params.
    """
    # Only here: a replay needs no backend.
    from tfaip.trainer.scheduler.scheduledrate import ScheduledRate

    history = History() if chosen is None else chosen.rates_only()
    found: dict[str, list[EpochRates]] = {RATE: []}
    before, accum = 0, 1
    for stage, batches, network in stages:
        params, rate_control = stage.params, stage.settings.rate_control
        if params.train_accum_steps != accum:
            # Updates are numbered through; a rest of batches without an update is forgotten.
            before, accum = before // accum * params.train_accum_steps, params.train_accum_steps
        rule, schedules, of_epochs = params.learning_rate, schedules_of(params), EpochSchedules(params)
        schedule = ScheduledRate(rule, accum, network)
        schedule.build()
        for epoch in range(stage.first_epoch, stage.last_epoch + 1):
            rate, base, is_listed = rule.of_epoch(epoch, history, is_held=not rate_control)
            if rate_control:
                history.set_default_rate(epoch, rate)
            schedule.begin_epoch(base, is_listed, epoch - 1, batches, done=0, counted=before)
            numbers = first, end = before // accum, (before + batches) // accum
            spread = _spread(first, end)
            # The first batch of an update may belong to the epoch before.
            times = {update: epoch - 1 + (update * accum - before) / batches for update in [first, *spread]}
            updates = spread if schedule.varies else [first]
            points = [(times[update], float(schedule(update * accum))) for update in updates]
            found[RATE].append(EpochRates(stage.name, epoch, numbers, points))
            of_epochs.params_of(epoch)
            for other in schedules:
                points = [(times[update], other.params.value(times[update])) for update in spread]
                if other.is_of_epoch:
                    points = [(float(epoch - 1), other.value_in(epoch))]
                found.setdefault(other.name, []).append(EpochRates(stage.name, epoch, numbers, points))
            before += batches
    return found


def _spread(first: int, end: int) -> list[int]:
    """Return at most `POINTS_PER_EPOCH` numbers from `first` below `end`, both edges included."""
    count = end - first
    if count <= POINTS_PER_EPOCH:
        return list(range(first, end))
    return [first + round(i * (count - 1) / (POINTS_PER_EPOCH - 1)) for i in range(POINTS_PER_EPOCH)]


def replay(params: LearningRateParams, recorded: History) -> History:
    """Return the rates that `params` give for the recorded epochs, decided on the recorded values.

    Epochs of stages that held the rate keep it.
    """
    replayed = History()
    for epoch in recorded.epochs:
        record = recorded[epoch]
        rate = record.lr if record.is_held else params.rate(epoch, replayed.controlled())
        replayed.record(epoch, replace(record, lr=rate, effective_lr=None))
    return replayed
