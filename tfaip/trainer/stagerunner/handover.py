"""Handover from one stage to the next: weights, state of the optimizer, position in the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tfaip.data.pipeline.sampler import Position
from tfaip.errors import UsageError
from tfaip.model.structure.axis import Structure
from tfaip.model.weights import assign_arrays, variable_arrays
from tfaip.params.tree import diff
from tfaip.trainer.modelsetup import weight_structure
from tfaip.trainer.optimizer.params import OptimizerParams
from tfaip.trainer.runparams import Params
from tfaip.trainer.schedules.epochvalues import EpochValues
from tfaip.trainer.setup import TrainingSetup
from tfaip.trainer.stages.overrides import begins
from tfaip.trainer.state import TrainingProgress
from tfaip.trainer.transfer.params import TransferMode, TransferParams
from tfaip.trainer.transfer.plan import Source, Transfer, plan_transfer
from tfaip.trainer.transfer.slots import slot_arrays

# Params of a pipeline that change neither the samples of a pass nor their order.
_BATCHING = (
    "batch_size",
    "batch_drop_remainder",
    "bucket_boundaries",
    "bucket_batch_sizes",
    "num_processes",
    "worker_start_s",
    "worker_timeout_s",
    "prefetch",
    "use_shared_memory",
)
# Params of a scenario of which its graph is independent.
_BESIDE_THE_GRAPH = ("data.pre_proc", "data.post_proc", "evaluator", "print_eval_limit")


@dataclass(frozen=True)
class StageEnd:
    """The end of the training of a stage, with copies of all values.

    Args:
        name: of the stage.
        params: its params.
        weights: weights by path.
        structure: the dimensions that they consist of; empty: the next stage trains the same graph.
        optimizer: variables of the optimizer by name.
    """

    name: str
    params: Params
    weights: Mapping[str, np.ndarray]
    structure: Structure
    optimizer: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, setup: TrainingSetup, keeps_graph: bool) -> StageEnd:
        """Return the end of the stage that is set up."""
        return cls(
            name=setup.stage.name,
            params=setup.params,
            weights=variable_arrays(setup.state.weights_by_path()),
            structure={} if keeps_graph else weight_structure(setup.model, setup.scenario),
            optimizer=variable_arrays(setup.state.optimizer_variables()),
        )


def keeps_graph(before: Params, after: Params, transfer: TransferParams) -> bool:
    """Return True if the graph of a stage can be trained in the next one as it is."""
    is_whole = transfer.mode is not TransferMode.NONE and transfer.include is None and transfer.exclude is None
    if not is_whole or transfer.rename or before.device.precision is not after.device.precision:
        return False
    return all(begins(change.path, _BESIDE_THE_GRAPH) for change in diff(before.scenario, after.scenario))


def hand_over(end: StageEnd, setup: TrainingSetup, transfer: TransferParams) -> Transfer:
    """Give a new model the weights, and its optimizer the state, that the stage before had at its end.

    Args:
        end: of the stage before.
        setup: the parts of the new stage, with a fresh model.
        transfer: which weights are taken over.

    Returns:
        The decision on each weight.

    Raises:
        UsageError: if no weight is taken over, and some should.
    """
    targets, source = setup.state.weights_by_path(), f"stage {end.name}"
    structure: Structure = {}
    if transfer.mode is TransferMode.SUBSET and end.structure:
        structure = weight_structure(setup.model, setup.scenario)
    planned = plan_transfer(
        {path: tuple(variable.shape) for path, variable in targets.items()},
        [Source(source, end.weights, structure=end.structure)],
        transfer.rules(),
        transfer.mode,
        structure,
        transfer.blocks,
    )
    if transfer.mode is not TransferMode.NONE and not any(row.is_loaded for row in planned.rows):
        raise UsageError(
            f"stage {setup.stage.name} takes over no weight of {source}: their paths differ, or transfer excludes "
            "all; correct transfer.rename, or set transfer.mode none"
        )
    initial = variable_arrays(targets)
    weights = {**initial, **planned.arrays(initial)}
    assign_arrays(targets, weights, source)
    # The variables of the optimizer, as far as they mean the same.
    same_rule = _rules(end.params.optimizer) == _rules(setup.params.optimizer)
    variables = setup.state.optimizer_variables()
    arrays = slot_arrays(planned, end.optimizer, variable_arrays(variables), weights, same_rule)
    assign_arrays(variables, arrays, source)
    setup.model.optimizer.continue_after(end.params.train_accum_steps)
    if not same_rule:
        setup.model.optimizer.reset_moments()
    return planned


def _rules(params: OptimizerParams) -> list[Any]:
    """Return the update rules of an optimizer, without their constants."""
    return [type(params), *[(group.match, type(group.optimizer)) for group in params.groups]]


def next_position(before: Params, after: Params, progress: TrainingProgress, first_epoch: int) -> Position:
    """Return the position in the training data at which a stage begins.

    With the same data the stream continues, also in batches of another size. Other data begin with the next pass, which
    has its own order and random numbers.
    """
    position = progress.position
    old = EpochValues(before).params_of(max(progress.epoch, 1))
    new = EpochValues(after).params_of(first_epoch)
    differs = diff(old.gen.train_gen(), new.gen.train_gen()) or diff(old.scenario.data, new.scenario.data)
    changes = diff(old.gen.setup.train, new.gen.setup.train)
    if not differs and all(begins(change.path, _BATCHING) for change in changes):
        return position
    return replace(position, pass_index=position.pass_index + 1, consumed=0, emitted=0, pending=(), failed=0)
