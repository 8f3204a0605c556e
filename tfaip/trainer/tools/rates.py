"""Rates and scheduled values without a training: of a run before it begins, and of other params for recorded scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tfaip.trainer.history import EpochRecord, History
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.scheduledvalues import EpochValues, schedules_of
from tfaip.trainer.scheduler import LearningRateParams
from tfaip.trainer.stages.params import MAIN

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
        stage: name of the stage.
    """

    epoch: int
    updates: tuple[int, int]
    points: Sequence[tuple[float, float]]
    stage: str = MAIN


@dataclass(frozen=True)
class RatedStage:
    """Epochs of a run whose rates have one rule.

    Args:
        name: of the stage.
        epochs: number of the first and of the last epoch.
        batches: batches of an epoch.
        params: of the stage.
        network: the graph, for functions of the user.
        rate_control: False: the rate is held.
    """

    name: str
    epochs: tuple[int, int]
    batches: int
    params: TrainerParams[Any, Any]
    network: Any = None
    rate_control: bool = True


def preview_rates(stages: Sequence[RatedStage], chosen: History | None = None) -> list[EpochRates]:
    """Return the rates of a run, computed by the code that computes them in the training.

    Controls that follow scores behave as if there were none.

    Args:
        stages: all stages that train, in order.
        chosen: rates that the user has chosen for epochs; None: there are none.
    """
    # Only here: a replay needs no backend.
    import keras

    from tfaip.trainer.scheduler.scheduledrate import ScheduledRate

    history = History() if chosen is None else chosen.rates_only()
    found: list[EpochRates] = []
    for stage, epochs in _epochs_of(stages):
        rule, accum = stage.params.learning_rate, stage.params.train_accum_steps
        schedule = ScheduledRate(rule, accum, stage.network)
        schedule.build(keras.optimizers.SGD().add_variable)
        for epoch, before, numbers in epochs:
            rate, base, is_listed = rule.of_epoch(epoch, history, is_held=not stage.rate_control)
            if stage.rate_control:
                history.set_default_rate(epoch, rate)
            schedule.begin_epoch(base, is_listed, epoch - 1, stage.batches, done=0, counted=before)
            updates = _spread(*numbers) if schedule.varies else [numbers[0]]
            # The first batch of an update may belong to the epoch before.
            offset = epoch - 1 - before / stage.batches
            points = [(update * accum / stage.batches + offset, float(schedule(update * accum))) for update in updates]
            found.append(EpochRates(epoch, numbers, points, stage.name))
    return found


def _epochs_of(stages: Sequence[RatedStage]) -> Iterator[tuple[RatedStage, list[tuple[int, int, tuple[int, int]]]]]:
    """Yield the stages with their epochs: number, batches before it as the optimizer counts them, and its updates."""
    before, accum = 0, 1
    for stage in stages:
        if stage.params.train_accum_steps != accum:
            # Updates are numbered through; a rest of batches without an update is forgotten.
            before, accum = before // accum * stage.params.train_accum_steps, stage.params.train_accum_steps
        epochs = []
        for epoch in range(stage.epochs[0], stage.epochs[1] + 1):
            epochs.append((epoch, before, (before // accum, (before + stage.batches) // accum)))
            before += stage.batches
        yield stage, epochs


def preview_schedules(stages: Sequence[RatedStage]) -> dict[str, list[EpochRates]]:
    """Return the values of all schedules by the name of their target, in the epochs of the stages that have them.

    Raises:
        FieldError: if a target or a value cannot be; its path begins at the trainer params.
    """
    found: dict[str, list[EpochRates]] = {}
    for stage, epochs in _epochs_of(stages):
        params = stage.params
        of_epochs, accum = EpochValues(params), params.train_accum_steps
        of_epochs.check_each(lambda changed: None)
        for epoch, before, (first, end) in epochs:
            updates = _spread(first, end) if params.epochs <= MANY_EPOCHS else sorted({first, max(first, end - 1)})
            times = [(update * accum - before) / stage.batches + epoch - 1 for update in updates]
            for schedule in schedules_of(params):
                points = [(time, schedule.params.value(time)) for time in times]
                if schedule.is_of_epoch:
                    points = [(float(epoch - 1), of_epochs.logged(epoch)[schedule.name])]
                found.setdefault(schedule.name, []).append(EpochRates(epoch, (first, end), points, stage.name))
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
        meta = {"rate_control": False} if record.is_held else {}
        replayed.record(epoch, EpochRecord(rate, recorded.values(epoch), meta))
    return replayed
