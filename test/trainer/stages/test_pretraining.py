"""Pretraining: what the hooks of a scenario return becomes stages."""

from __future__ import annotations

from typing import Any

import pytest

from test.trainer.stages import scenarios
from test.trainer.stages.scenarios import ConstructionScenario, returning, tiny_params
from tfaip.errors import UsageError
from tfaip.trainer.history import EpochRecord, History
from tfaip.trainer.schedules import ScheduleParams
from tfaip.trainer.stages.params import PredictStage, PretrainingParams, TrainStage
from tfaip.trainer.stages.program import PlannedStage, planned_stages, preview_stages
from tfaip.trainer.transfer.params import TransferMode, TransferParams


def plan_of(scenario: Any, epochs: int = 20, stages: Any = None, **pretraining: Any) -> list[PlannedStage]:
    params = tiny_params(epochs, pretraining=PretrainingParams(**pretraining), stages=stages or {})
    return list(preview_stages(params, scenario).stages)


def names_of_epochs(plan: list[PlannedStage]) -> list[str]:
    """Return the name of the stage of each epoch."""
    found: list[str] = []
    for stage in plan:
        found += [stage.name.removeprefix("pretraining.")] * (stage.last_epoch - stage.first_epoch + 1)
    return found


def units(plan: list[PlannedStage]) -> list[Any]:
    return [stage.params.scenario.model.units for stage in plan]


def test_five_indices_twice() -> None:
    plan = plan_of(ConstructionScenario, repetitions=2)
    assert names_of_epochs(plan) == [*"0011223344", *["main"] * 10]
    weights = [stage.params.loss_weights.get("mse") for stage in plan]
    assert weights == [0.0, 0.2, 0.4, 0.6, 0.8, None]
    assert (plan[-1].name, plan[-1].first_epoch, plan[-1].last_epoch) == ("main", 11, 20)
    assert plan[2].overrides == {"trainer.loss_weights.mse": "0.4"}


@pytest.mark.parametrize(
    ("repetitions", "expected"),
    [(1, [1, 1, 1, 1, 1]), ([1, 2, 3], [1, 2, 3, 3, 3]), ({0: 2, 3: 4}, [2, 1, 1, 4, 1]), ({7: 2}, [1, 1, 1, 1, 1])],
)
def test_repetitions_per_index(repetitions: Any, expected: list[int]) -> None:
    plan = plan_of(ConstructionScenario, repetitions=repetitions)
    assert [stage.last_epoch - stage.first_epoch + 1 for stage in plan[:-1]] == expected
    assert plan[-1].first_epoch == sum(expected) + 1


def test_rate_control_and_transfer_of_all_stages() -> None:
    params = tiny_params(
        pretraining=PretrainingParams(rate_control=False), transfer=TransferParams(mode=TransferMode.EXACT)
    )
    plan = preview_stages(params, ConstructionScenario).stages
    assert [stage.rate_control for stage in plan] == [False] * 5 + [True]
    assert {stage.transfer.mode for stage in plan} == {TransferMode.EXACT}


def test_a_value_of_a_hook_goes_before_the_schedule_of_the_run() -> None:
    schedules = [
        ScheduleParams(target, {0: 1.0}) for target in ("loss_weights.mse", "loss_weights.aux", "weight_noise.stddev")
    ]
    plan = preview_stages(tiny_params(schedules=schedules), ConstructionScenario).stages
    found = [[schedule.target for schedule in stage.params.schedules] for stage in plan]
    rest = ["loss_weights.aux", "weight_noise.stddev"]
    assert found == [rest, rest, rest, rest, rest, ["loss_weights.mse", *rest]]


def test_a_hook_may_say_the_repetitions() -> None:
    for scenario in (scenarios.OwnRepetitionsScenario, scenarios.OwnRepetitionsScenario(tiny_params().scenario)):
        plan = plan_of(scenario, repetitions=2)
        assert names_of_epochs(plan)[:8] == [*"0011122", "main"]
        assert units(plan) == [1, 2, 3, 8]


def test_zero_epochs_switch_it_off() -> None:
    assert [stage.name for stage in plan_of(ConstructionScenario, max_epochs=0)] == ["main"]


def test_pretraining_comes_before_the_stages() -> None:
    stages = {"align": PredictStage(), "next": TrainStage(epochs=1, overrides={"no_train_scope": "{align.file}"})}
    plan = plan_of(ConstructionScenario, stages=stages)
    assert [stage.name for stage in plan[4:]] == ["pretraining.4", "align", "next", "main"]
    # The model of the last stage of the pretraining is applied.
    assert plan[5].params.loss_weights == {"mse": 0.8}
    assert plan[6].first_epoch == 6


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        (scenarios.EpochScenario, [("epoch.1", 1, 2, 2), ("epoch.3", 3, 3, 4), ("main", 4, 20, 8)]),
        (scenarios.AllEpochsScenario, [("epoch.1", 1, 2, 2), ("main", 3, 20, 8)]),
    ],
)
def test_params_of_each_epoch(scenario: Any, expected: list[Any]) -> None:
    plan = plan_of(scenario)
    found = [(stage.name, stage.first_epoch, stage.last_epoch) for stage in plan]
    assert [(*span, number) for span, number in zip(found, units(plan), strict=True)] == expected


def test_a_hook_that_asks_for_the_history_is_asked_when_the_epoch_is_reached() -> None:
    params = tiny_params(5, pretraining=PretrainingParams(max_epochs=3))
    preview = preview_stages(params, scenarios.HistoryScenario)
    assert (list(preview.stages), preview.is_complete) == ([], False)
    history, plan = History(), []
    for stage in planned_stages(params, scenarios.HistoryScenario, history):
        plan.append(stage)
        history.record(stage.first_epoch, EpochRecord(0.1, {"loss": 1.0}))
    assert [(stage.name, stage.last_epoch) for stage in plan] == [
        *(("epoch.1", 1), ("epoch.2", 2), ("epoch.3", 3), ("main", 5))
    ]
    assert units(plan) == [10, 11, 12, 8]


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        (returning(lambda params: params), r"^pretraining\(20, params\) of Returning has not returned None after 20"),
        (returning("small"), r"^pretraining\(0, params\) of Returning returned 'small', expected TinyTrainerParams, a"),
        (returning(lambda params: (params, 0)), r"returned \(TinyScenario.Train.*, expected TinyTrainerParams, a t"),
        (returning(lambda params: params.scenario), r"returned TinyScenarioParams, expected TinyTrainerParams, a"),
        (returning(lambda params: tiny_params(200)), r"of Returning: --trainer.epochs is one of the whole run"),
        (
            returning(lambda params: setattr(params.scenario.model, "units", "many") or params),
            r"^pretraining\(0, params\) of Returning: --model.units: expected int, got 'many'",
        ),
    ],
)  # fmt: skip
def test_hooks_that_do_not_work(scenario: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan_of(scenario)


def test_a_bound_on_the_epochs() -> None:
    with pytest.raises(UsageError, match=r"pretraining\(3, params\) .* has not returned None after 3 epochs"):
        plan_of(ConstructionScenario, max_epochs=3)
    with pytest.raises(UsageError, match=r"^epochs is 20, expected more than the 20 epochs of the stages"):
        plan_of(ConstructionScenario, repetitions=4)
    with pytest.raises(UsageError, match=r"params_for_epoch\(3, params\) of AllEpochsScenario has not returned None"):
        plan_of(scenarios.AllEpochsScenario, max_epochs=2)


def test_both_hooks() -> None:
    class Both(scenarios.EpochScenario, ConstructionScenario):
        pass

    with pytest.raises(UsageError, match=r"^Both has both hooks, pretraining and params_for_epoch: return None in one"):
        plan_of(Both)


@pytest.mark.parametrize(
    ("repetitions", "message"),
    [(0, "repetitions is 0, expected at least 1"), ([1, 0], r"repetitions\[1\] is 0"), ([], "at least one number")],
)
def test_repetitions_that_cannot_work(repetitions: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        PretrainingParams(repetitions=repetitions)
