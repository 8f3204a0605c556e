"""A trial of a run: one batch of every stage, and the transfers between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tfaip.trainer.stages.planned import PlannedStage, StageKind


def shortened_plan(plan: Sequence[PlannedStage]) -> list[PlannedStage]:
    """Return a plan with one epoch for each stage that trains."""
    short, epoch = [], 1
    for stage in plan:
        count = 1 if stage.kind is StageKind.TRAIN else 0
        short.append(replace(stage, first_epoch=epoch, last_epoch=epoch + count - 1))
        epoch += count
    return short


def shorten_params(stage: PlannedStage) -> None:
    """Let the params of a stage train one batch in an epoch, validate one, and apply the model to one."""
    params = stage.params
    setup = params.gen.setup
    params.val_every_n, params.samples_per_epoch = 1, setup.train.batch_size
    setup.val.limit = setup.val.batch_size
    if stage.kind is not StageKind.TRAIN:
        setup.train.limit = setup.train.batch_size
