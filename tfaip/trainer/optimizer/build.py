"""Construction of the optimizer of a training from its params."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from tfaip.trainer.optimizer.averaging import AverageRate
from tfaip.trainer.optimizer.groups import GroupSetup, build_group
from tfaip.trainer.optimizer.params import OptimizerGroupParams, OptimizerParams
from tfaip.trainer.optimizer.scheduledrate import ScheduledRate
from tfaip.trainer.optimizer.trainingoptimizer import TrainingOptimizer
from tfaip.trainer.pathpatterns import matching_paths
from tfaip.trainer.scheduler import LearningRateParams


def build_optimizer(
    params: OptimizerParams,
    weights: Mapping[str, keras.Variable],
    trainable: list[keras.Variable],
    accum_steps: int = 1,
    average_rate: AverageRate | None = None,
    rate: LearningRateParams | None = None,
    network: Any = None,
    seed: int = 0,
    scales_loss: bool = False,
    scheduled: Mapping[str, keras.Variable] | None = None,
) -> TrainingOptimizer:
    """Build the optimizer of a training.

    Args:
        params: the optimizer params.
        weights: all variables of the graph by path.
        trainable: those that are trained, in the order of the model (JAX passes them by position).
        accum_steps: batches per update; the gradient of an update is the mean over them.
        average_rate: keep averages of the weights with this rate; None: keep none.
        rate: rule and modulation of the learning rate, see `ScheduledRate`; None: the caller sets the rate.
        network: the training graph, for functions of the user.
        seed: of the gradient noise.
        scales_loss: scale the loss, as mixed_float16 needs it.
        scheduled: variables in the place of numbers of the params, by their path, see `scheduled_numbers`.

    Raises:
        FieldAdvice: if `exclude_from_weight_decay` or a group matches no weight; its path begins at `params`.
    """
    schedule = ScheduledRate(rate, accum_steps, network)
    optimizer = TrainingOptimizer(params, schedule, accum_steps, seed, scales_loss, scheduled)
    trained = {id(weight) for weight in trainable}
    paths = {path: weight for path, weight in weights.items() if id(weight) in trained}
    optimizer.paths = {id(weight): path for path, weight in paths.items()}
    groups = []
    for place, group, members in _grouped(params, paths):
        setup = _group_setup(params, place, group, optimizer.scheduled, paths)
        groups.append(build_group(setup, [weight for weight in trainable if id(weight) in members]))
    optimizer.build_groups(trainable, groups)
    if average_rate is not None:
        optimizer.build_averages(average_rate)
    return optimizer


def _group_setup(
    params: OptimizerParams,
    place: str,
    group: OptimizerGroupParams,
    scheduled: Mapping[str, Any],
    paths: Mapping[str, keras.Variable],
) -> GroupSetup:
    """Return what a group of weights is updated with: its own optimizer, or that of the training."""
    own, prefix = params, ""
    if group.optimizer is not None:
        own, prefix = group.optimizer, f"{place}.optimizer."
    return GroupSetup(
        own,
        scheduled.get(f"{place}.lr_factor", group.lr_factor),
        _matching(own.exclude_from_weight_decay, f"{prefix}exclude_from_weight_decay", paths),
        scheduled.get(f"{prefix}weight_decay", own.weight_decay),
        f"{prefix}momentum",
    )


def scheduled_numbers(params: OptimizerParams) -> list[str]:
    """Return the numbers that schedules may change, as dotted paths from the optimizer params."""
    found = ["clip_value", "clip_norm", "clip_global_norm", "gradient_noise.stddev", "weight_decay"]
    for index, group in enumerate(params.groups):
        found.append(f"groups.{index}.lr_factor")
        if group.optimizer is not None:
            found.append(f"groups.{index}.optimizer.weight_decay")
    return found


def scheduled_momenta(params: OptimizerParams) -> list[str]:
    """Return each momentum that schedules may change, as dotted paths from the optimizer params."""
    optimizers: dict[str, Any] = {"": params}
    optimizers.update({f"groups.{i}.optimizer.": group.optimizer for i, group in enumerate(params.groups)})
    return [f"{prefix}momentum" for prefix, own in optimizers.items() if hasattr(own, "momentum")]


def _grouped(
    params: OptimizerParams, paths: Mapping[str, keras.Variable]
) -> list[tuple[str, OptimizerGroupParams, set[int]]]:
    """Return the groups that have weights, with their paths and the ids of these weights.

    A weight belongs to the first group that matches it; a last group takes all remaining ones.
    """
    left = {id(weight) for weight in paths.values()}
    found = []
    for index, group in enumerate([*params.groups, OptimizerGroupParams(match=".*")]):
        place = f"groups.{index}"
        members = _matching(group.match, f"{place}.match", paths) & left
        left -= members
        if members:
            found.append((place, group, members))
    return found


def _matching(pattern: str | None, field: str, paths: Mapping[str, keras.Variable]) -> set[int]:
    if pattern is None:
        return set()
    return {id(paths[path]) for path in matching_paths(pattern, field, "weight", paths)}
