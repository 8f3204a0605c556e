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
from tfaip.trainer.scheduler import LearningRateParams
from tfaip.util.pathpatterns import matching_paths


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

    Raises:
        UsageError: if `exclude_from_weight_decay` or a group matches no weight.
    """
    optimizer = TrainingOptimizer(params, ScheduledRate(rate, accum_steps, network), accum_steps, seed, scales_loss)
    trained = {id(weight) for weight in trainable}
    paths = {path: weight for path, weight in weights.items() if id(weight) in trained}
    groups = []
    for group, members in _grouped(params, paths):
        own = params if group.optimizer is None else group.optimizer
        undecayed = _matching(own.exclude_from_weight_decay, "--optimizer.exclude_from_weight_decay", paths)
        setup = GroupSetup(own, group.lr_factor, undecayed)
        groups.append(build_group(setup, [weight for weight in trainable if id(weight) in members]))
    optimizer.build_groups(trainable, groups)
    if average_rate is not None:
        optimizer.build_averages(average_rate)
    return optimizer


def _grouped(
    params: OptimizerParams, paths: Mapping[str, keras.Variable]
) -> list[tuple[OptimizerGroupParams, set[int]]]:
    """Return the groups that have weights, with the ids of these weights.

    A weight belongs to the first group that matches it; a last group takes all remaining ones.
    """
    left = {id(weight) for weight in paths.values()}
    found = []
    for group in [*params.groups, OptimizerGroupParams(match=".*")]:
        members = _matching(group.match, "match in --optimizer.groups", paths) & left
        left -= members
        if members:
            found.append((group, members))
    return found


def _matching(pattern: str | None, flag: str, paths: Mapping[str, keras.Variable]) -> set[int]:
    if pattern is None:
        return set()
    return {id(paths[path]) for path in matching_paths(pattern, flag, "weight", paths)}
