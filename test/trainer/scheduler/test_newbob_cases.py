"""Rates of the feedback controls, epoch by epoch, as worked out elsewhere: every case to 1e-12."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from test.trainer.scheduler.test_feedback import rates
from tfaip.trainer.scheduler import (
    ConstantParams,
    Divisor,
    LearningRateParams,
    NewbobAbsParams,
    NewbobMultiEpochParams,
    NewbobRelParams,
)

CASES = json.loads((Path(__file__).parents[2] / "data" / "newbob_cases.json").read_text())
CLASSES = {
    "constant": ConstantParams,
    "newbob_abs": NewbobAbsParams,
    "newbob_rel": NewbobRelParams,
    "newbob_multi_epoch": NewbobMultiEpochParams,
}
FIELDS = {
    "learning_rates": "rates",
    "min_learning_rate": "min_lr",
    "newbob_learning_rate_decay": "decay",
    "newbob_learning_rate_growth": "growth",
    "newbob_error_threshold": "threshold",
    "newbob_relative_error_threshold": "threshold",
    "newbob_relative_error_grow_threshold": "grow_threshold",
    "newbob_multi_num_epochs": "window_epochs",
    "newbob_multi_update_interval": "update_every_n_epochs",
    "learning_rate_control_min_num_epochs_per_new_lr": "hold_epochs",
    "learning_rate_control_relative_error_relative_lr": "relative_to_lr",
    "relative_error_div_by_old": "divide_by",
}


def params_of(case: dict[str, Any]) -> LearningRateParams:
    """The params of a case, without options that its control does not have."""
    cls = CLASSES[case["control"]]
    known = cls.__dataclass_fields__
    fields: dict[str, Any] = {"lr": case["initial_lr"], "monitor": "s"}
    for name, value in case["params"].items():
        fields[FIELDS[name]] = value
    if "divide_by" in fields:
        fields["divide_by"] = Divisor.OLD if fields["divide_by"] else Divisor.NEW
    if isinstance(fields.get("rates"), dict):
        fields["rates"] = {int(epoch): rate for epoch, rate in fields["rates"].items()}
    return cls(**{name: value for name, value in fields.items() if name in known})


@pytest.mark.parametrize("case", CASES, ids=[f"{case['control']}-{case['id']}" for case in CASES])
def test_case(case: dict[str, Any]) -> None:
    assert rates(params_of(case), *case["scores"]) == pytest.approx(case["expected"], rel=1e-12, abs=0)


def test_there_are_cases_of_every_control() -> None:
    assert {case["control"] for case in CASES} == set(CLASSES)
    assert len(CASES) == 57
