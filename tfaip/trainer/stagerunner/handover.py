"""Handover from one stage to the next: weights, state of the optimizer, position in the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tfaip.data.pipeline.position import Position
from tfaip.errors import UsageError
from tfaip.model.structure.axis import Structure
from tfaip.model.weights import assign_arrays, variable_arrays
from tfaip.params.settings import flags_of
from tfaip.params.tree import diff
from tfaip.trainer.modelsetup import weight_structure
from tfaip.trainer.optimizer.params import OptimizerParams
from tfaip.trainer.runparams import Params
from tfaip.trainer.schedules.epochvalues import EpochValues
from tfaip.trainer.setup import TrainingSetup
from tfaip.trainer.stages.overrides import begins
from tfaip.trainer.stages.planned import PlannedStage, path_of_params
from tfaip.trainer.state import TrainingProgress
from tfaip.trainer.transfer.fitting import Shape
from tfaip.trainer.transfer.params import TransferMode, TransferParams
from tfaip.trainer.transfer.plan import Source, Transfer, plan_transfer
from tfaip.trainer.transfer.slots import slot_arrays
from tfaip.trainer.transfer.table import counts_text, is_whole, transfer_table
from tfaip.util.logging import logger

log = logger(__name__)

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
    """The end of the training of a stage.

    Args:
        name: of the stage.
        params: its params.
        weights: weights by path.
        structure: the dimensions that they consist of.
        optimizer: variables of the optimizer by name.
    """

    name: str
    params: Params
    weights: Mapping[str, np.ndarray]
    structure: Structure
    optimizer: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, setup: TrainingSetup, keeps_graph: bool) -> StageEnd:
        """Return the end of the stage that is set up, with copies of all values.

        Args:
            setup: the parts of the stage.
            keeps_graph: the next stage trains the same graph; then its structure is of no interest.
        """
        state = setup.state
        return cls(
            name=setup.stage.name,
            params=setup.params,
            weights=variable_arrays(state.weights_by_path()),
            structure={} if keeps_graph else weight_structure(setup.model, setup.scenario),
            optimizer=variable_arrays(state.optimizer_variables()),
        )


def keeps_graph(before: Params, after: Params, transfer: TransferParams) -> bool:
    """Return True if the graph of a stage can be trained in the next one as it is.

    Args:
        before: params of the stage.
        after: params of the next one.
        transfer: the weights that it takes over.
    """
    is_whole = transfer.mode is not TransferMode.NONE and transfer.include is None and transfer.exclude is None
    if not is_whole or transfer.rename or before.device.precision is not after.device.precision:
        return False
    return all(begins(change.path, _BESIDE_THE_GRAPH) for change in diff(before.scenario, after.scenario))


def hand_over(end: StageEnd, setup: TrainingSetup, transfer: TransferParams) -> Transfer:
    """Give a new model the weights and the optimizer the state that the stage before had at its end.

    Args:
        end: of the stage before.
        setup: the parts of the new stage, with a fresh model.
        transfer: which weights are taken over.

    Returns:
        The decision on each weight.

    Raises:
        UsageError: if no weight is taken over, and some should.
    """
    targets = setup.state.weights_by_path()
    shapes = {path: tuple(variable.shape) for path, variable in targets.items()}
    source = Source(f"stage {end.name}", end.weights, structure=end.structure)
    planned = plan_weights(
        source, setup.stage.name, shapes, lambda: weight_structure(setup.model, setup.scenario), transfer
    )
    initial = variable_arrays(targets)
    weights = {**initial, **planned.arrays(initial)}
    assign_arrays(targets, weights, f"stage {end.name}")
    _hand_over_optimizer(end, setup, planned, weights)
    return planned


def plan_weights(
    source: Source, name: str, shapes: Mapping[str, Shape], structure: Callable[[], Structure], transfer: TransferParams
) -> Transfer:
    """Return the decision on each weight of a stage; of the weights before only names and shapes are read.

    Args:
        source: weights of the stage before.
        name: of the stage.
        shapes: of its weights, by path.
        structure: returns the dimensions that they consist of.
        transfer: which weights are taken over.

    Raises:
        UsageError: if no weight is taken over, and some should.
    """
    is_cut = transfer.mode is TransferMode.SUBSET and bool(source.structure)
    planned = plan_transfer(
        shapes,
        [source],
        transfer.rules(),
        transfer.mode,
        structure() if is_cut else {},
        transfer.blocks,
    )
    if transfer.mode is not TransferMode.NONE and not any(row.is_loaded for row in planned.rows):
        raise UsageError(
            f"stage {name} takes over no weight of {source.description}: their paths differ, or transfer excludes "
            "all; correct transfer.rename, or set transfer.mode none"
        )
    return planned


def transfer_flags(run: Params, stage: PlannedStage) -> AbstractContextManager[None]:
    """Return a context that adds the flags of a stage to errors in its `transfer`."""
    own = f"{path_of_params(stage.name)}." if stage.settings is not None else ""
    return flags_of(run, "trainer", f"{own}transfer")


def _hand_over_optimizer(
    end: StageEnd, setup: TrainingSetup, planned: Transfer, weights: Mapping[str, np.ndarray]
) -> None:
    """Give the variables of the optimizer the values of before, as far as they mean the same."""
    params, optimizer = setup.params, setup.model.optimizer
    same_rule = _rules(end.params.optimizer) == _rules(params.optimizer)
    variables = setup.state.optimizer_variables()
    initial = variable_arrays(variables)
    arrays = slot_arrays(planned, end.optimizer, initial, weights, same_rule)
    assign_arrays(variables, arrays, f"stage {end.name}")
    optimizer.continue_after(end.params.train_accum_steps)
    if not same_rule:
        optimizer.reset_moments()


def _rules(params: OptimizerParams) -> list[Any]:
    """Return the update rules of an optimizer, without their constants."""
    return [type(params), *[(group.match, type(group.optimizer)) for group in params.groups]]


def log_transfer(planned: Transfer, end: StageEnd) -> None:
    """Log what happened to each weight, unless all were taken over as they were."""
    log.info("weights of stage %s: %s", end.name, counts_text(planned))
    if not is_whole(planned):
        for line in transfer_table(planned):
            log.info("  %s", line)


def next_position(before: Params, after: Params, progress: TrainingProgress, first_epoch: int) -> Position:
    """Return the position in the training data at which the next stage begins.

    With the same data the stream continues, also in batches of another size. Other data begin with the next pass, which
    has its own order and random numbers.

    Args:
        before: params of the stage before.
        after: params of the next one.
        progress: at the end of the stage before.
        first_epoch: of the next one.
    """
    position = progress.position
    ended = EpochValues(before).params_of(max(progress.epoch, 1))
    if _same_stream(ended, EpochValues(after).params_of(first_epoch)):
        return position
    return replace(position, pass_index=position.pass_index + 1, consumed=0, emitted=0, pending=(), failed=0)


def _same_stream(before: Params, after: Params) -> bool:
    if diff(before.gen.train_gen(), after.gen.train_gen()) or diff(before.scenario.data, after.scenario.data):
        return False
    return all(begins(change.path, _BATCHING) for change in diff(before.gen.setup.train, after.gen.setup.train))
