"""Rates of updates: modulations and functions, in the compiled step of real trainings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test.trainer.line import LineTrainerParams, Weights, line_params, train, weight
from tfaip.errors import UsageError
from tfaip.trainer.optimizer import AdamOptimizer, SGDOptimizer
from tfaip.trainer.scheduler import (
    ConstantParams,
    CyclicModulationParams,
    ExponentialDecayParams,
    FunctionModulationParams,
    FunctionParams,
    LearningRateParams,
    NoamModulationParams,
    PolynomialDecayParams,
    UpdateTime,
)

HERE = "test.trainer.scheduler.ratefunctions"
CYCLE = [1.0, 0.5, 0.25]


def cyclic(**fields: Any) -> ConstantParams:
    return ConstantParams(lr=1.0, modulation=CyclicModulationParams(interval_steps=3, decay=0.5), **fields)


def params_with(rule: LearningRateParams, batches: int = 5, **fields: Any) -> LineTrainerParams:
    """SGD on gradients of 1: every update moves the weight by the rate."""
    return line_params([1.0] * batches, **{"epochs": 2, **fields}, learning_rate=rule)


def moved(*rates: float) -> float:
    return -sum(rates)


def factors(modulation: Any, *updates: int) -> list[float]:
    return [float(modulation.factor(UpdateTime(np.int64(u), np.float64(0), 1.0), np)) for u in updates]


def test_noam_golden() -> None:
    noam = NoamModulationParams(warmup_steps=25000, model_dim=512)
    at_maximum, late = factors(noam, 24999, 99999)
    assert at_maximum == pytest.approx(2.795e-4, rel=2e-4)
    assert late == pytest.approx(1.3975e-4, rel=2e-4)
    assert max(factors(noam, *range(24000, 26000))) == at_maximum
    assert factors(noam, 0) == [pytest.approx(512**-0.5 * 25000**-1.5)]  # the first update is not lost


def test_cyclic_golden() -> None:
    assert factors(CyclicModulationParams(3, 0.5), *range(7)) == [1, 0.5, 0.25, 1, 0.5, 0.25, 1]


@pytest.mark.parametrize("steps_per_execution", [1, 3])
def test_cycles_go_on_from_epoch_to_epoch(tmp_path: Path, steps_per_execution: int) -> None:
    weights = Weights()
    params = params_with(cyclic(), output_dir=tmp_path / "run", steps_per_execution=steps_per_execution)
    train(params, weights)
    assert weights.values == [moved(*CYCLE, 1, 0.5), moved(*CYCLE * 3, 1)]
    records = json.loads((tmp_path / "run" / "history.json").read_text())
    assert [record["lr"] for record in records.values()] == [1.0, 1.0]
    assert [record["effective_lr"] for record in records.values()] == pytest.approx([3.25 / 5, 3.0 / 5], rel=1e-6)


@pytest.mark.parametrize(
    ("fields", "updates"), [({"train_accum_steps": 2}, 5), ({"optimizer": SGDOptimizer(reset_every_n_epochs=1)}, 10)]
)
def test_cycles_count_updates_and_go_on_after_a_reset(fields: dict[str, Any], updates: int) -> None:
    assert weight(train(params_with(cyclic(), **fields))) == moved(*[*CYCLE * 3, 1][:updates])


@pytest.mark.slow
@pytest.mark.backend
def test_a_resume_with_more_batches_per_update_goes_on_after_the_last_update(tmp_path: Path) -> None:
    rule = ConstantParams(lr=0.1, modulation=CyclicModulationParams(decay=0.9))
    params = params_with(rule, batches=8, epochs=3, output_dir=tmp_path / "run", train_accum_steps=2)
    before = weight(train(params))
    params.epochs, params.train_accum_steps = 4, 8
    # Update 12, after four in each of three epochs: 0.1 * 0.9^12.
    assert before - weight(train(params, restore=True)) == pytest.approx(0.0282, abs=5e-5)
    records = json.loads((tmp_path / "run" / "history.json").read_text())
    assert records["4"]["effective_lr"] == pytest.approx(0.0282, abs=5e-5)
    assert [record["meta"]["updates"] for record in records.values()] == [4, 8, 12, 13]


def test_a_modulation_scales_a_rule_and_listed_rates() -> None:
    rule = PolynomialDecayParams(lr=1.0, step_function=False, rates={1: 4.0}, min_lr=0.25)
    rule.modulation = CyclicModulationParams(interval_steps=2, decay=0.5)
    weights = Weights()
    train(params_with(rule, batches=2, epochs=4), weights)
    # Bases: 4 4 | 0.75 0.625 | 0.5 0.375 | 0.25 and 0.125, which is below the bound.
    bases = [4, 4, 0.75, 0.625, 0.5, 0.375, 0.25, 0.25]
    rates = [base * factor for base, factor in zip(bases, [1, 0.5] * 4, strict=True)]
    assert weights.values == pytest.approx([moved(*rates[:n]) for n in (2, 4, 6, 8)], rel=1e-6)


def function(name: str, **fields: Any) -> FunctionParams:
    return FunctionParams(function=f"{HERE}:{name}", **fields)


@pytest.mark.parametrize(
    ("name", "rates"), [("falling", [0.5, 0.25, 0.5 / 3, 0.125]), ("returnn", [0.5, 1.0, 1.5, 2.0])]
)
def test_a_function_gives_the_rate(name: str, rates: list[float], tmp_path: Path) -> None:
    weights = Weights()
    train(params_with(function(name, lr=0.5), batches=2, output_dir=tmp_path / "run"), weights)
    assert weights.values == pytest.approx([moved(*rates[:2]), moved(*rates)], rel=1e-6)
    records = json.loads((tmp_path / "run" / "history.json").read_text())
    assert [record["lr"] for record in records.values()] == [0.5, 0.5]  # what the function starts from
    assert [r["effective_lr"] for r in records.values()] == pytest.approx([sum(rates[:2]) / 2, sum(rates[2:]) / 2])


def test_bounds_and_listed_rates_hold_for_functions() -> None:
    rule = function("half_epochs", lr=0.5, rates=[4.0], max_lr=1.25)
    weights = Weights()
    train(params_with(rule, batches=2), weights)
    assert weights.values == pytest.approx([moved(4, 4), moved(4, 4, 1, 1.25)])


def test_a_function_may_modulate() -> None:
    rule = ExponentialDecayParams(lr=2.0, decay=0.5, learning_circle=1)
    rule.modulation = FunctionModulationParams(function=f"{HERE}:falling")
    # The function divides the rate of the epoch, 2 and then 1, and multiplies with it.
    assert weight(train(params_with(rule, batches=1))) == pytest.approx(moved(2 * 2, 1 * 1 / 2))


@pytest.mark.backend
def test_a_rate_of_zero_changes_no_bit() -> None:
    for optimizer in (AdamOptimizer(weight_decay=0.5), SGDOptimizer(momentum=0.9)):
        params = params_with(function("zero"), optimizer=optimizer)
        params.scenario.model.start = 0.1
        assert np.float32(weight(train(params))) == np.float32(0.1)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            function("wants_more"),
            "^function is .*wants_more', expected .*; it needs 'batch': change --learning_rate.function$",
        ),
        (function("positional"), "it needs 'update'"),
        (function("gone"), "^--learning_rate.function is .*gone', expected a function that module .* has$"),
        (FunctionParams(), "--learning_rate.function is required, and empty"),
        (
            ConstantParams(modulation=FunctionModulationParams(function=f"{HERE}:wants_more")),
            "it needs 'batch': change --learning_rate.modulation.function$",
        ),
    ],
)
def test_functions_that_cannot_work_are_refused_before_the_first_batch(rule: LearningRateParams, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        train(params_with(rule))
