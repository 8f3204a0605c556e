"""Pretraining: stages that varied params or a hook of the scenario describe."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.limits import FieldError
from tfaip.params.storable import prepare
from tfaip.trainer.stages.naming import PRETRAINING
from tfaip.trainer.stages.overrides import check_own, copy_for_stage
from tfaip.trainer.stages.params import PretrainingParams
from tfaip.util.text import shorten


@dataclass(frozen=True)
class PretrainingStage:
    """Stage of a pretraining.

    Args:
        name: `pretraining.0`.
        epochs: number of epochs.
        params: of the stage; None: those of the run with the overrides, or they are known later.
        overrides: as in `PlannedStage`.
        pending: as in `PlannedStage`.
    """

    name: str
    epochs: int
    params: Any | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    pending: Callable[..., Any] | None = None


def expand_pretraining(plain: Any, pretraining: PretrainingParams, scenario: Any) -> list[PretrainingStage]:
    """Return the stages of the pretraining.

    Args:
        plain: trainer params without stages.
        pretraining: what to vary; nothing: the hooks of the scenario are asked.
        scenario: the scenario or its class.

    Raises:
        UsageError: if they take more epochs than they may, or a hook returns something else.
    """
    limit = plain.epochs if pretraining.max_epochs is None else pretraining.max_epochs
    if limit == 0:
        return []
    if pretraining.vary:
        return _varied(pretraining, limit)
    return _of_hook(plain, pretraining, limit, scenario)


def _varied(pretraining: PretrainingParams, limit: int) -> list[PretrainingStage]:
    stages = []
    for index, text in enumerate(pretraining.values):
        values = [text]
        if len(pretraining.vary) > 1:
            values = shlex.split(text)
        if len(values) != len(pretraining.vary):
            expected = f"a value for each of {', '.join(pretraining.vary)}"
            raise FieldError("pretraining.values", text, expected, index=index, others=["pretraining.vary"])
        overrides = dict(zip(pretraining.vary, values, strict=True))
        stages.append(PretrainingStage(f"{PRETRAINING}.{index}", pretraining.epochs_of(index), overrides=overrides))
    _check_limit(sum(stage.epochs for stage in stages), limit)
    return stages


def _of_hook(plain: Any, pretraining: PretrainingParams, limit: int, scenario: Any) -> list[PretrainingStage]:
    if isinstance(scenario, type):
        scenario = scenario(copy_for_stage(plain).scenario)
    stages: list[PretrainingStage] = []
    used = 0
    while True:
        index = len(stages)
        name = f"{PRETRAINING}.{index}"
        found = _params_and_repetitions(scenario.pretraining(index, copy_for_stage(plain)), index, plain)
        if found is None:
            return stages
        params, repetitions = found
        epochs = pretraining.epochs_of(index) if repetitions is None else repetitions
        used += epochs
        if used > limit:
            raise UsageError(
                f"pretraining({index}, params) of {type(scenario).__name__} has not returned None after {limit} "
                "epochs: return it for the index that ends the pretraining, or change --pretraining.max_epochs"
            )
        prepare(params, plain.flag_root)
        check_own(plain, params, name)
        stages.append(PretrainingStage(name, epochs, params))


def _params_and_repetitions(result: Any, index: int, plain: Any) -> tuple[Any, int | None] | None:
    """Return what the hook means: params, and the number of epochs if it says so; None: it has ended."""
    if result is None:
        return None
    params, repetitions = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    is_number = repetitions is None or (isinstance(repetitions, int) and not isinstance(repetitions, bool))
    if type(params) is not type(plain) or not is_number or (repetitions is not None and repetitions < 1):
        raise UsageError(
            f"pretraining({index}, params) returned {shorten(result)}, expected {type(plain).__name__}, a tuple of it "
            "and a number of epochs of at least 1, or None at the end"
        )
    return params, repetitions


def _check_limit(epochs: int, limit: int) -> None:
    if epochs > limit:
        raise FieldError("pretraining.max_epochs", limit, f"at least the {epochs} epochs of the pretraining")
