"""Pretraining: what the hooks of a scenario return becomes stages."""

from __future__ import annotations

from typing import Any

import pytest

from test.trainer.stages import scenarios
from test.trainer.stages.scenarios import ConstructionScenario, plan_of, returning, spans, tiny_params, units
from tfaip.errors import UsageError
from tfaip.trainer.history import EpochRecord, History
from tfaip.trainer.schedules import ScheduleParams
from tfaip.trainer.stages.params import PredictStage, PretrainingParams, TrainStage
from tfaip.trainer.stages.program import planned_stages, preview_stages
from tfaip.trainer.transfer.params import TransferMode, TransferParams


def pretrained(scenario: Any = ConstructionScenario, **pretraining: Any) -> Any:
    return plan_of(scenario, pretraining=PretrainingParams(**pretraining))


def test_five_indices_twice() -> None:
    plan = pretrained(repetitions=2)
    expected = [(f"pretraining.{index}", 2 * index + 1, 2 * index + 2) for index in range(5)]
    assert spans(plan) == [*expected, ("main", 11, 20)]
    weights = [stage.params.loss_weights.get("mse") for stage in plan]
    assert weights == [0.0, 0.2, 0.4, 0.6, 0.8, None]
    assert plan[2].settings.overrides == {"trainer.loss_weights.mse": "0.4"}


@pytest.mark.parametrize(
    ("repetitions", "expected"),
    [(1, [1, 1, 1, 1, 1]), ([1, 2, 3], [1, 2, 3, 3, 3]), ({0: 2, 3: 4}, [2, 1, 1, 4, 1]), ({7: 2}, [1, 1, 1, 1, 1])],
)
def test_repetitions_per_index(repetitions: Any, expected: list[int]) -> None:
    plan = pretrained(repetitions=repetitions)
    assert [stage.last_epoch - stage.first_epoch + 1 for stage in plan[:-1]] == expected
    assert plan[-1].first_epoch == sum(expected) + 1


def test_rate_control_and_transfer_of_all_stages() -> None:
    exact = TransferParams(mode=TransferMode.EXACT)
    plan = plan_of(ConstructionScenario, pretraining=PretrainingParams(rate_control=False), transfer=exact)
    assert [stage.settings.rate_control for stage in plan] == [False] * 5 + [True]
    assert {stage.settings.transfer.mode for stage in plan} == {TransferMode.EXACT}


def test_a_value_of_a_hook_goes_before_the_schedule_of_the_run() -> None:
    rest = ["loss_weights.aux", "weight_noise.stddev"]
    schedules = [ScheduleParams(target, {0: 1.0}) for target in ("loss_weights.mse", *rest)]
    plan = plan_of(ConstructionScenario, schedules=schedules)
    found = [[schedule.target for schedule in stage.params.schedules] for stage in plan]
    assert found == [rest, rest, rest, rest, rest, ["loss_weights.mse", *rest]]


def test_a_hook_may_say_the_repetitions() -> None:
    for scenario in (scenarios.OwnRepetitionsScenario, scenarios.OwnRepetitionsScenario(tiny_params().scenario)):
        plan = pretrained(scenario, repetitions=2)
        assert [stage.first_epoch for stage in plan] == [1, 3, 6, 8]
        assert units(plan) == [1, 2, 3, 8]


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
    assert [(*span, number) for span, number in zip(spans(plan), units(plan), strict=True)] == expected


def test_a_hook_that_asks_for_the_history_is_asked_when_the_epoch_is_reached() -> None:
    params = tiny_params(5, pretraining=PretrainingParams(max_epochs=3))
    preview = preview_stages(params, scenarios.HistoryScenario)
    assert (list(preview.stages), preview.is_complete) == ([], False)
    history, plan = History(), []
    for stage in planned_stages(params, scenarios.HistoryScenario, history):
        plan.append(stage)
        history.record(stage.first_epoch, EpochRecord(0.1, {"loss": 1.0}))
    assert spans(plan) == [("epoch.1", 1, 1), ("epoch.2", 2, 2), ("epoch.3", 3, 3), ("main", 4, 5)]
    assert units(plan) == [10, 11, 12, 8]


class Both(scenarios.EpochScenario, ConstructionScenario):
    """Has both hooks."""


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
        (Both, r"^Both has both hooks, pretraining and params_for_epoch: leave out one"),
    ],
)  # fmt: skip
def test_hooks_that_do_not_work(scenario: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan_of(scenario)


def test_a_bound_on_the_epochs() -> None:
    assert [stage.name for stage in pretrained(max_epochs=0)] == ["main"]
    with pytest.raises(UsageError, match=r"pretraining\(3, params\) .* has not returned None after 3 epochs"):
        pretrained(max_epochs=3)
    with pytest.raises(UsageError, match=r"^epochs is 20, expected more than the 20 epochs of the stages"):
        pretrained(repetitions=4)
    with pytest.raises(UsageError, match=r"params_for_epoch\(3, params\) of AllEpochsScenario has not returned None"):
        pretrained(scenarios.AllEpochsScenario, max_epochs=2)


@pytest.mark.parametrize(
    ("repetitions", "message"),
    [(0, "repetitions is 0, expected at least 1"), ([1, 0], r"repetitions\[1\] is 0"), ([], "at least one number")],
)
def test_repetitions_that_cannot_work(repetitions: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        PretrainingParams(repetitions=repetitions)


def test_params_for_epoch_is_asked_for_the_epochs_of_the_run_only() -> None:
    asked: list[int] = []

    class Recording(scenarios.AllEpochsScenario):
        @classmethod
        def params_for_epoch(cls, epoch: int, params: Any, **kwargs: Any) -> Any:
            asked.append(epoch)
            return None if epoch > params.epochs else super().params_for_epoch(epoch, params, **kwargs)

    assert [stage.name for stage in pretrained(Recording)][-1] == "main"
    assert asked == list(range(1, max(asked) + 1))
    assert max(asked) == tiny_params().epochs
