"""Pretraining: stages that varied params or a hook of the scenario describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.codec import Text
from tfaip.params.limits import FieldError
from tfaip.trainer.stages.hooks import (
    ask_for_epoch,
    ask_for_stage,
    asks_for_history,
    has_hooks,
    name_of,
    scenario_with_hooks,
)
from tfaip.trainer.stages.naming import EPOCH, PRETRAINING
from tfaip.trainer.stages.overrides import copy_for_stage, differences
from tfaip.trainer.stages.params import PretrainingParams
from tfaip.trainer.stages.placeholders import refers_to_result
from tfaip.trainer.stages.unrolling import MAX_STAGES


@dataclass(frozen=True)
class PretrainingStage:
    """Stage of a pretraining.

    Args:
        name: `pretraining.0`, or `epoch.1`.
        epochs: number of epochs.
        params: of the stage; None: those of the run with the overrides, or they are known later.
        overrides: as in `PlannedStage`.
        pending: as in `PlannedStage`.
    """

    name: str
    epochs: int
    params: Any = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    pending: Callable[..., Any] | None = None


def has_pretraining(pretraining: PretrainingParams, scenario: Any) -> bool:
    """Return True if params are varied, or the scenario has a hook that may return some."""
    return pretraining.max_epochs != 0 and (bool(pretraining.vary) or has_hooks(scenario))


def expand_pretraining(plain: Any, pretraining: PretrainingParams, scenario: Any) -> list[PretrainingStage]:
    """Return the stages of the pretraining.

    Args:
        plain: trainer params without stages.
        pretraining: what to vary; nothing: the hooks of the scenario are asked, which must have one.
        scenario: the scenario or its class.

    Raises:
        UsageError: if they take more epochs than they may, or a hook returns something else.
    """
    if pretraining.vary:
        return _varied(pretraining)
    scenario = scenario_with_hooks(scenario, plain)
    limit = plain.epochs if pretraining.max_epochs is None else pretraining.max_epochs
    stages = _of_stages(plain, pretraining, scenario, limit)
    if asks_for_history(scenario):
        of_epochs = _of_history(plain, pretraining, scenario)
    else:
        of_epochs = _of_epochs(plain, scenario, limit)
    if stages and of_epochs:
        raise UsageError(
            f"{name_of(scenario)} has both hooks, pretraining and params_for_epoch: return None in one of them"
        )
    return stages or of_epochs


def _varied(pretraining: PretrainingParams) -> list[PretrainingStage]:
    if len(pretraining.values) > MAX_STAGES:
        raise FieldError("pretraining.values", pretraining.values, f"at most {MAX_STAGES} entries")
    stages = []
    for index, text in enumerate(pretraining.values):
        values = [text]
        if len(pretraining.vary) > 1:
            values = list(Text(text))
        if len(values) != len(pretraining.vary):
            expected = f"a value for each of {', '.join(pretraining.vary)}"
            raise FieldError("pretraining.values", text, expected, index=index, others=["pretraining.vary"])
        if refers_to_result(values):
            raise FieldError("pretraining.values", text, "no directory of a stage, since all come later", index=index)
        overrides = dict(zip(pretraining.vary, values, strict=True))
        stages.append(PretrainingStage(f"{PRETRAINING}.{index}", pretraining.epochs_of(index), overrides=overrides))
    epochs, limit = sum(stage.epochs for stage in stages), pretraining.max_epochs
    if limit is not None and epochs > limit:
        raise FieldError("pretraining.max_epochs", limit, f"at least the {epochs} epochs of the pretraining")
    return stages


def _of_stages(plain: Any, pretraining: PretrainingParams, scenario: Any, limit: int) -> list[PretrainingStage]:
    """Return the stages of the hook `pretraining`."""
    stages: list[PretrainingStage] = []
    used = 0
    while len(stages) <= MAX_STAGES:
        index = len(stages)
        found = ask_for_stage(scenario, index, plain)
        if found is None:
            return stages
        params, repetitions = found
        epochs = pretraining.epochs_of(index) if repetitions is None else repetitions
        used += epochs
        if used > limit:
            break
        stages.append(PretrainingStage(f"{PRETRAINING}.{index}", epochs, params))
    raise _endless(f"pretraining({len(stages)}, params)", scenario, limit)


def _of_epochs(plain: Any, scenario: Any, limit: int) -> list[PretrainingStage]:
    """Return the stages of the hook `params_for_epoch`: one for epochs that follow each other with equal params."""
    stages: list[PretrainingStage] = []
    for epoch in range(1, limit + 2):
        if epoch > plain.epochs:
            if stages and not differences(plain, stages[-1].params):
                return stages[:-1]  # the last epochs are those of the plain params
            break
        params = ask_for_epoch(scenario, epoch, plain)
        if params is None:
            return stages
        if epoch > limit:
            break
        if stages and not differences(stages[-1].params, params):
            stages[-1] = replace(stages[-1], epochs=stages[-1].epochs + 1)
        else:
            stages.append(PretrainingStage(f"{EPOCH}.{epoch}", 1, params))
        if len(stages) > MAX_STAGES:
            break
    raise _endless(f"params_for_epoch({epoch}, params)", scenario, limit)


def _of_history(plain: Any, pretraining: PretrainingParams, scenario: Any) -> list[PretrainingStage]:
    """Return a stage per epoch for a hook `params_for_epoch` that asks for the history."""
    limit = pretraining.max_epochs
    if limit is None or limit > MAX_STAGES:
        expected = f"the number of epochs from 1 to {MAX_STAGES}, as params_for_epoch asks for the history"
        raise FieldError("pretraining.max_epochs", limit, expected)
    return [_later(plain, scenario, epoch) for epoch in range(1, limit + 1)]


def _later(plain: Any, scenario: Any, epoch: int) -> PretrainingStage:
    def pending(directories: Any, history: Any) -> Any:
        before = None if history is None else history.until(epoch - 1)
        params = ask_for_epoch(scenario, epoch, plain, history=before)
        return copy_for_stage(plain) if params is None else params

    return PretrainingStage(f"{EPOCH}.{epoch}", 1, pending=pending)


def _endless(call: str, scenario: Any, limit: int) -> UsageError:
    return UsageError(
        f"{call} of {name_of(scenario)} has not returned None after {limit} epochs: return it where the "
        "pretraining ends, or change --pretraining.max_epochs or --trainer.epochs"
    )
