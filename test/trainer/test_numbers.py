"""Numbers that no param can have: every params class of a training refuses them where it is made."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, get_type_hints

from tfaip.data.databaseparams import DataPipelineParams
from tfaip.device import DeviceConfigParams
from tfaip.params import ParamsBase
from tfaip.scenario.tutorial.full.scenario import TutorialScenario
from tfaip.trainer.best import EarlyStoppingParams
from tfaip.trainer.optimizer import OPTIMIZERS
from tfaip.trainer.scheduler import SCHEDULES
from tfaip.trainer.scheduler.params import MODULATIONS

CLASSES: list[type[ParamsBase]] = [
    *SCHEDULES,
    *MODULATIONS,
    *OPTIMIZERS,
    EarlyStoppingParams,
    DataPipelineParams,
    DeviceConfigParams,
    TutorialScenario.trainer_params_cls(),
    TutorialScenario.params_cls(),
]
NOT_FINITE = [math.nan, math.inf, -math.inf]
# A schedule may begin before the training does.
MAY_BE_NEGATIVE = {"offset_epochs"}


def scalars(cls: type[ParamsBase], kind: type) -> list[str]:
    """Fields with a flag that hold one number of a kind, or None."""
    hints = get_type_hints(cls)
    kinds = {kind, kind | None}
    return [f.name for f in fields(cls) if f.metadata.get("mode") != "ignore" and hints[f.name] in kinds]


def is_refused(cls: type[ParamsBase], name: str, value: Any) -> bool:
    """Whether the field does not take the value, with an error that names it."""
    try:
        cls(**{name: value})
    except ValueError as error:
        return name in str(error)
    return False


def test_numbers_are_finite() -> None:
    numbers = [(cls, name) for cls in CLASSES for name in scalars(cls, float)]
    assert len(numbers) > 100
    assert [(cls, name, v) for cls, name in numbers for v in NOT_FINITE if not is_refused(cls, name, v)] == []


def test_counters_are_not_negative() -> None:
    counters = [(cls, name) for cls in CLASSES for name in scalars(cls, int) if name not in MAY_BE_NEGATIVE]
    assert len(counters) > 50
    assert [(cls, name) for cls, name in counters if not is_refused(cls, name, -7)] == []
