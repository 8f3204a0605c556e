"""Rates of updates: continuous rules, modulations and functions, in the compiled step."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keras import ops

from test.trainer.line import LineTrainerParams, Weights, line_params, train, weight
from test.trainer.optimizer.training import Training
from tfaip.errors import UsageError
from tfaip.trainer.optimizer import AdamOptimizer, SGDOptimizer
from tfaip.trainer.scheduler import (
    ConstantParams,
    CosineDecayParams,
    CyclicModulationParams,
    ExponentialDecayParams,
    FunctionModulationParams,
    FunctionParams,
    Interpolation,
    InverseSqrtDecayParams,
    LearningRateParams,
    NoamModulationParams,
    PiecewiseParams,
    PolynomialDecayParams,
    UpdateTime,
    WarmupConstantParams,
    WarmupCosineDecayParams,
    WarmupExponentialDecayParams,
)

CONTINUOUS = {"step_function": False}
ALL = [
    ConstantParams(0.5, **CONTINUOUS),
    ExponentialDecayParams(0.5, decay=0.7, learning_circle=1, **CONTINUOUS),
    CosineDecayParams(0.5, alpha=0.1, **CONTINUOUS),
    WarmupConstantParams(0.5, warmup_epochs=2, **CONTINUOUS),
    WarmupExponentialDecayParams(0.5, warmup_epochs=1, learning_circle=1, decay=0.5, final_epochs=1, **CONTINUOUS),
    WarmupCosineDecayParams(
        0.5, warmup_epochs=1, warmup=Interpolation.EXPONENTIAL, constant_epochs=1, final_epochs=1, **CONTINUOUS
    ),
    InverseSqrtDecayParams(0.5, timescale_epochs=2.0, **CONTINUOUS),
    PolynomialDecayParams(0.5, power=1.5, offset_epochs=1, **CONTINUOUS),
    PiecewiseParams(0.5, points={0.5: 0.1, 2: 0.3}, **CONTINUOUS),
    PiecewiseParams(0.5, points={1.25: 0.1, 2: 0.3}, interpolation=Interpolation.STEP, **CONTINUOUS),
    PiecewiseParams(0.5, points={2: 0.125}, interpolation=Interpolation.EXPONENTIAL, **CONTINUOUS),
]
EPOCHS = 4


@pytest.mark.backend
def test_accumulation_counts_updates() -> None:
    schedule = PolynomialDecayParams(1.0, **CONTINUOUS)
    weights = Weights()
    train(two_epochs(schedule, batches=11, epochs=4, train_accum_steps=3), weights)
    # An update has the rate of the time of its first batch; remainders go on into the next epoch.
    updates = [11 * epoch // 3 for epoch in range(1, 5)]
    rates = 1.0 - np.arange(updates[-1]) * 3 / 44
    assert weights.values == pytest.approx([-rates[:n].sum() for n in updates], rel=1e-5)


@pytest.mark.backend
def test_epochs_may_change_their_size_and_count_far() -> None:
    training = Training(SGDOptimizer(), {"w": 0.0}, rate=PolynomialDecayParams(1.0, epochs=10, **CONTINUOUS))
    for completed, batches, expected in ((0, 4, 0.9), (1, 2, 0.8)):
        training.optimizer.begin_epoch(1.0, completed=completed, batches=batches, done=0)
        for _ in range(batches):
            training.step(1.0)
        assert training.optimizer.next_rate() == pytest.approx(expected)
    training = Training(SGDOptimizer(), {"w": 0.0}, rate=PolynomialDecayParams(1.0, epochs=1000, **CONTINUOUS))
    training.optimizer.begin_epoch(1.0, completed=500, batches=10_000, done=5_000)
    assert training.optimizer.next_rate() == pytest.approx(0.4995, rel=1e-6)


@pytest.mark.backend
def test_the_backend_computes_the_rules_of_numpy() -> None:
    times = np.linspace(0.01, EPOCHS - 0.02, 97)
    for schedule in ALL:
        schedule.epochs = EPOCHS
        expected = [schedule.scale() * float(schedule.value_after(np.float64(time), np)) for time in times]
        traced = schedule.value_after(ops.convert_to_tensor(times.astype("float32")), ops)
        rates = schedule.scale() * ops.convert_to_numpy(traced)
        np.testing.assert_allclose(rates, expected, rtol=2e-5, atol=1e-7, err_msg=type(schedule).__name__)


HERE = __name__
CYCLE = [1.0, 0.5, 0.25]


def cyclic(**fields: Any) -> ConstantParams:
    return ConstantParams(lr=1.0, modulation=CyclicModulationParams(interval_steps=3, decay=0.5), **fields)


def two_epochs(rule: LearningRateParams, batches: int = 5, **fields: Any) -> LineTrainerParams:
    """SGD on gradients of 1: every update moves the weight by the rate."""
    return line_params([1.0] * batches, **{"epochs": 2, **fields}, learning_rate=rule)


def moved(*rates: float) -> float:
    return -sum(rates)


def factors(modulation: Any, *updates: int) -> list[float]:
    return [float(modulation.factor(UpdateTime(np.int64(u), np.float64(0), 1.0), np)) for u in updates]


def test_goldens_of_noam_and_cyclic() -> None:
    noam = NoamModulationParams(warmup_steps=25000, model_dim=512)
    at_maximum, late = factors(noam, 24999, 99999)
    assert at_maximum == pytest.approx(2.795e-4, rel=2e-4)
    assert late == pytest.approx(1.3975e-4, rel=2e-4)
    assert max(factors(noam, *range(24000, 26000))) == at_maximum
    assert factors(noam, 0) == [pytest.approx(512**-0.5 * 25000**-1.5)]  # the first update is not lost
    assert factors(CyclicModulationParams(3, 0.5), *range(7)) == [1, 0.5, 0.25, 1, 0.5, 0.25, 1]


@pytest.mark.parametrize("steps_per_execution", [1, 3])
def test_cycles_go_on_from_epoch_to_epoch(tmp_path: Path, steps_per_execution: int) -> None:
    weights = Weights()
    params = two_epochs(cyclic(), output_dir=tmp_path / "run", steps_per_execution=steps_per_execution)
    train(params, weights)
    assert weights.values == [moved(*CYCLE, 1, 0.5), moved(*CYCLE * 3, 1)]
    records = json.loads((tmp_path / "run" / "history.json").read_text())
    assert [record["lr"] for record in records.values()] == [1.0, 1.0]
    assert [record["effective_lr"] for record in records.values()] == pytest.approx([3.25 / 5, 3.0 / 5], rel=1e-6)


@pytest.mark.parametrize(
    ("fields", "updates"), [({"train_accum_steps": 2}, 5), ({"optimizer": SGDOptimizer(reset_every_n_epochs=1)}, 10)]
)
def test_cycles_count_updates_and_go_on_after_a_reset(fields: dict[str, Any], updates: int) -> None:
    assert weight(train(two_epochs(cyclic(), **fields))) == moved(*[*CYCLE * 3, 1][:updates])


@pytest.mark.slow
@pytest.mark.backend
def test_a_resume_with_more_batches_per_update_goes_on_after_the_last_update(tmp_path: Path) -> None:
    rule = ConstantParams(lr=0.1, modulation=CyclicModulationParams(decay=0.9))
    params = two_epochs(rule, batches=8, epochs=3, output_dir=tmp_path / "run", train_accum_steps=2)
    before = weight(train(params))
    params.epochs, params.train_accum_steps = 4, 8
    # Update 12, after four in each of three epochs: 0.1 * 0.9^12.
    assert before - weight(train(params, restore=True)) == pytest.approx(0.0282, abs=5e-5)
    records = json.loads((tmp_path / "run" / "history.json").read_text())
    assert records["4"]["effective_lr"] == pytest.approx(0.0282, abs=5e-5)
    assert [record["meta"]["updates"] for record in records.values()] == [4, 8, 12, 13]


@pytest.mark.slow
@pytest.mark.backend
def test_a_resume_within_an_epoch_is_exact_to_the_bit(tmp_path: Path) -> None:
    rule = WarmupCosineDecayParams(0.1, warmup_epochs=1, modulation=CyclicModulationParams(decay=0.9), **CONTINUOUS)
    always = {"checkpoint_save_freq": "1", "keep_checkpoints": 20, "steps_per_execution": 1, "train_accum_steps": 3}
    params = two_epochs(rule, output_dir=tmp_path, optimizer=AdamOptimizer(), **always)

    def found(**resume: Any) -> Any:
        records = json.loads((train(params, **resume), (tmp_path / "history.json").read_text())[1])
        state = (tmp_path / "checkpoint" / "epoch_0002" / "state.safetensors").read_bytes()
        return [record["effective_lr"] for record in records.values()], state

    whole = found()
    # Between two updates of an epoch, while two gradients wait.
    assert found(restore=True, checkpoint="epoch_0001_step_000003") == whole


def test_a_modulation_scales_a_rule_and_listed_rates() -> None:
    rule = PolynomialDecayParams(lr=1.0, step_function=False, rates={1: 4.0}, min_lr=0.25)
    rule.modulation = CyclicModulationParams(interval_steps=2, decay=0.5)
    weights = Weights()
    train(two_epochs(rule, batches=2, epochs=4), weights)
    # Bases: 4 4 | 0.75 0.625 | 0.5 0.375 | 0.25 and 0.125, which is below the bound.
    bases = [4, 4, 0.75, 0.625, 0.5, 0.375, 0.25, 0.25]
    rates = [base * factor for base, factor in zip(bases, [1, 0.5] * 4, strict=True)]
    assert weights.values == pytest.approx([moved(*rates[:n]) for n in (2, 4, 6, 8)], rel=1e-6)


def falling(update: Any, lr: Any) -> Any:
    """lr / (1 + update)."""
    return lr / (1.0 + ops.cast(update, "float32"))


def returnn(*, network: Any, global_train_step: Any, learning_rate: Any, **kwargs: Any) -> Any:
    """As for RETURNN: it asks the network, and takes whatever else there is."""
    assert set(kwargs) == {"update", "epoch", "lr"}
    return learning_rate * ops.cast(global_train_step + len(network.trainable_weights), "float32")


def half_epochs(epoch: Any) -> Any:
    """The completed epochs."""
    return epoch


def zero() -> float:
    """Nothing moves."""
    return 0.0


def wants_more(update: Any, batch: Any) -> Any:
    """Asks for what there is not."""
    return update + batch


def function(name: str, **fields: Any) -> FunctionParams:
    return FunctionParams(function=f"{HERE}:{name}", **fields)


@pytest.mark.parametrize(
    ("name", "rates"), [("falling", [0.5, 0.25, 0.5 / 3, 0.125]), ("returnn", [0.5, 1.0, 1.5, 2.0])]
)
def test_a_function_gives_the_rate(name: str, rates: list[float], tmp_path: Path) -> None:
    weights = Weights()
    train(two_epochs(function(name, lr=0.5), batches=2, output_dir=tmp_path / "run"), weights)
    assert weights.values == pytest.approx([moved(*rates[:2]), moved(*rates)], rel=1e-6)
    records = json.loads((tmp_path / "run" / "history.json").read_text())
    assert [record["lr"] for record in records.values()] == [0.5, 0.5]  # what the function starts from
    assert [r["effective_lr"] for r in records.values()] == pytest.approx([sum(rates[:2]) / 2, sum(rates[2:]) / 2])


def test_a_function_has_bounds_and_listed_rates_and_may_modulate() -> None:
    rule = function("half_epochs", lr=0.5, rates=[4.0], max_lr=1.25)
    assert weight(train(two_epochs(rule, batches=2))) == pytest.approx(moved(4, 4, 1, 1.25))
    rule = ExponentialDecayParams(lr=2.0, decay=0.5, learning_circle=1)
    rule.modulation = FunctionModulationParams(function=f"{HERE}:falling")
    # The function divides the rate of the epoch, 2 and then 1, and multiplies with it.
    assert weight(train(two_epochs(rule, batches=1))) == pytest.approx(moved(2 * 2, 1 * 1 / 2))


@pytest.mark.backend
def test_a_rate_of_zero_changes_no_bit() -> None:
    for optimizer in (AdamOptimizer(weight_decay=0.5), SGDOptimizer(momentum=0.9)):
        params = two_epochs(function("zero"), optimizer=optimizer)
        params.scenario.model.start = 0.1
        assert np.float32(weight(train(params))) == np.float32(0.1)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (function("wants_more"), "^function is .*wants_more', .* it needs 'batch': change --learning_rate.function$"),
        (function("gone"), "^--learning_rate.function is .*gone', expected a function that module .* has$"),
        (
            ConstantParams(modulation=FunctionModulationParams(function=f"{HERE}:wants_more")),
            "it needs 'batch': change --learning_rate.modulation.function$",
        ),
    ],
)
def test_functions_that_cannot_work_are_refused_before_the_first_batch(rule: LearningRateParams, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        train(two_epochs(rule))
