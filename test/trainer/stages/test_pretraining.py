"""Pretraining: varied params and hooks of the scenario become stages."""

from __future__ import annotations

from typing import Any

import pytest

from test.support.tiny.scenario import TinyScenario
from test.trainer.stages import scenarios
from test.trainer.stages.scenarios import ConstructionScenario, tiny_params
from tfaip.errors import UsageError
from tfaip.trainer.history import EpochRecord, History
from tfaip.trainer.schedules import ScheduleParams
from tfaip.trainer.stages.params import PredictStage, PretrainingParams, TrainStage
from tfaip.trainer.stages.plan import plan_stages, resolve_stage
from tfaip.trainer.stages.planned import PlannedStage
from tfaip.trainer.transfer.params import TransferMode, TransferParams


def vary(**values: Any) -> PretrainingParams:
    """Five sizes of the model."""
    return PretrainingParams(vary=["model.units"], values=[10, 11, 12, 13, 14], **values)


def plan_of(pretraining: PretrainingParams, scenario: Any = TinyScenario, **values: Any) -> list[PlannedStage]:
    return plan_stages(tiny_params(pretraining=pretraining, **values), scenario)


def indices(plan: list[PlannedStage]) -> list[int]:
    """Return the index of the pretraining in each epoch of it."""
    found: list[int] = []
    for stage in plan[:-1]:
        found += [int(stage.name.removeprefix("pretraining."))] * (stage.last_epoch - stage.first_epoch + 1)
    return found


def units(plan: list[PlannedStage]) -> list[Any]:
    return [stage.params.scenario.model.units for stage in plan if stage.params is not None]


def test_five_indices_twice() -> None:
    plan = plan_of(vary(repetitions=2))
    assert indices(plan) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert units(plan) == [10, 11, 12, 13, 14, 8]
    assert (plan[-1].name, plan[-1].first_epoch, plan[-1].last_epoch) == ("main", 11, 20)


@pytest.mark.parametrize(
    ("repetitions", "expected"),
    [
        (1, [1, 1, 1, 1, 1]),
        ([1, 2, 3], [1, 2, 3, 3, 3]),
        ({0: 2, 3: 4}, [2, 1, 1, 4, 1]),
        ([3], [3, 3, 3, 3, 3]),
        ({7: 2}, [1, 1, 1, 1, 1]),
    ],
)
def test_repetitions_per_index(repetitions: Any, expected: list[int]) -> None:
    plan = plan_of(vary(repetitions=repetitions))
    assert [stage.last_epoch - stage.first_epoch + 1 for stage in plan[:-1]] == expected
    assert plan[-1].first_epoch == sum(expected) + 1


def test_several_params_at_once() -> None:
    values = [[4, "mse=0.5"], "5 'mse=0.25 other=1'"]
    plan = plan_of(PretrainingParams(vary=["model.units", "loss_weights"], values=values))
    assert units(plan) == [4, 5, 8]
    assert [stage.params.loss_weights for stage in plan] == [{"mse": 0.5}, {"mse": 0.25, "other": 1.0}, {}]  # type: ignore


def test_rate_control_and_transfer_of_all_stages() -> None:
    plan = plan_of(vary(rate_control=False), transfer=TransferParams(mode=TransferMode.EXACT))
    assert [stage.rate_control for stage in plan] == [False] * 5 + [True]
    assert {stage.transfer.mode for stage in plan} == {TransferMode.EXACT}


def test_the_construction_algorithm_of_the_documentation() -> None:
    plan = plan_of(PretrainingParams(repetitions=2), ConstructionScenario)
    weights = {}
    for stage in plan:
        assert stage.params is not None
        for epoch in range(stage.first_epoch, stage.last_epoch + 1):
            weights[epoch] = stage.params.loss_weights.get("mse")
    expected = [0.0, 0.0, 0.2, 0.2, 0.4, 0.4, 0.6, 0.6, 0.8, 0.8]
    assert [weights[epoch] for epoch in range(1, 11)] == expected
    assert {weights[epoch] for epoch in range(11, 21)} == {None}
    assert indices(plan) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_a_value_of_a_hook_goes_before_the_schedule_of_the_run() -> None:
    schedules = [
        ScheduleParams(target, {0: 1.0}) for target in ("loss_weights.mse", "loss_weights.aux", "weight_noise.stddev")
    ]
    plan = plan_stages(tiny_params(schedules=schedules), ConstructionScenario)
    found = [[schedule.target for schedule in stage.params.schedules] for stage in plan]
    rest = ["loss_weights.aux", "weight_noise.stddev"]
    assert found == [rest, rest, rest, rest, rest, ["loss_weights.mse", *rest]]


def test_a_hook_may_say_the_repetitions() -> None:
    params = tiny_params(pretraining=PretrainingParams(repetitions=2))
    for scenario in (scenarios.OwnRepetitionsScenario, scenarios.OwnRepetitionsScenario(params.scenario)):
        plan = plan_stages(params, scenario)
        assert indices(plan) == [0, 0, 1, 1, 1, 2, 2]
        assert units(plan) == [1, 2, 3, 8]


def test_varied_params_replace_the_hook_and_zero_epochs_switch_it_off() -> None:
    assert units(plan_of(vary(), ConstructionScenario)) == [10, 11, 12, 13, 14, 8]
    assert len(plan_of(PretrainingParams(max_epochs=0), ConstructionScenario)) == 1


def test_pretraining_comes_before_the_stages() -> None:
    stages = {"align": PredictStage(), "next": TrainStage(epochs=1, overrides={"no_train_scope": "{align.dir}"})}
    plan = plan_of(PretrainingParams(), ConstructionScenario, stages=stages)
    assert [stage.name for stage in plan[4:]] == ["pretraining.4", "align", "next", "main"]
    # The model of the last stage of the pretraining is applied.
    assert plan[5].params is not None
    assert plan[5].params.loss_weights == {"mse": 0.8}
    assert plan[6].first_epoch == 6


def test_params_of_each_epoch() -> None:
    plan = plan_of(PretrainingParams(), scenarios.EpochScenario)
    assert [(stage.name, stage.first_epoch, stage.last_epoch) for stage in plan] == [
        ("epoch.1", 1, 2),
        ("epoch.3", 3, 3),
        ("main", 4, 20),
    ]
    assert units(plan) == [2, 4, 8]


def test_params_of_all_epochs() -> None:
    plan = plan_of(PretrainingParams(), scenarios.AllEpochsScenario)
    assert [(stage.name, stage.first_epoch, stage.last_epoch) for stage in plan] == [("epoch.1", 1, 2), ("main", 3, 20)]


def test_a_hook_that_asks_for_the_history_is_asked_when_the_epoch_is_reached() -> None:
    plan = plan_of(PretrainingParams(max_epochs=3), scenarios.HistoryScenario, stages={"p": PredictStage()})
    assert [stage.name for stage in plan] == ["epoch.1", "epoch.2", "epoch.3", "p", "main"]
    assert [stage.params is None for stage in plan] == [True, True, True, True, False]
    history = History({epoch: EpochRecord(0.1, {"loss": 1.0}) for epoch in range(1, 10)})
    resolved = [resolve_stage(stage, {}, history) for stage in plan]
    # An epoch sees those before it, whatever else has been recorded.
    assert units(resolved) == [10, 11, 12, 12, 8]
    with pytest.raises(
        UsageError, match=r"max_epochs is None, expected the number of epochs from 1 to 1000, as params_"
    ):
        plan_of(PretrainingParams(), scenarios.HistoryScenario)


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        (scenarios.EndlessScenario, r"^pretraining\(20, params\) of EndlessScenario has not returned None after 20"),
        (scenarios.TextScenario, r"^pretraining\(0, params\) of TextScenario returned 'small', expected TinyTrainerP"),
        (scenarios.ZeroScenario, r"returned \(TinyScenario.TrainerParams.*, expected TinyTrainerParams, a tuple"),
        (scenarios.LongerScenario, r"^pretraining\(0, params\) of LongerScenario: --trainer.epochs is one of the"),
        (scenarios.WrongScenario, r"^pretraining\(0, params\) of WrongScenario: --model.units: expected int, got"),
        (scenarios.OtherEpochScenario, r"^params_for_epoch\(1, params\) .* returned TinyScenarioParams, expected T"),
    ],
)  # fmt: skip
def test_hooks_that_do_not_work(scenario: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan_of(PretrainingParams(), scenario)


def test_a_bound_on_the_epochs() -> None:
    with pytest.raises(UsageError, match=r"pretraining\(3, params\) .* has not returned None after 3 epochs"):
        plan_of(PretrainingParams(max_epochs=3), ConstructionScenario)
    with pytest.raises(
        UsageError, match=r"^max_epochs is 4, expected at least the 5 epochs .*--pretraining.max_epochs$"
    ):
        plan_of(vary(max_epochs=4))
    with pytest.raises(UsageError, match=r"^epochs is 20, expected more than the 20 epochs of the stages"):
        plan_of(vary(repetitions=4))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vary": ["model.units"]}, "values is .*, expected at least one entry, as there are vary"),
        ({"values": [3]}, "vary is .*, expected at least one entry, as there are values"),
        ({"repetitions": 0}, "repetitions is 0, expected at least 1"),
        ({"repetitions": [1, 0]}, r"repetitions\[1\] is 0"),
    ],
)
def test_pretraining_params_that_cannot_work(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        PretrainingParams(**values)


@pytest.mark.parametrize(
    ("pretraining", "message"),
    [
        (PretrainingParams(vary=["model.units"], values=[1, "x"]), r"^stage pretraining.1, overrides: --model.units:"),
        (PretrainingParams(vary=["a", "b"], values=["'1 2"]), r"^values\[0\] is .*, expected a value for each of a, b"),
        (PretrainingParams(vary=["a"], values=["{x.dir}"]), r"expected no directory of a stage, since all come later"),
    ],
)  # fmt: skip
def test_varied_params_that_cannot_work(pretraining: PretrainingParams, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan_of(pretraining)
