"""The plan of a run: the order of its stages, their epochs, and what they refer to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from test.support.tiny.scenario import TinyGenerator, TinyScenario
from test.trainer.stages.scenarios import tiny_params
from tfaip.errors import UsageError
from tfaip.params.limits import FieldError
from tfaip.params.types import FunctionName
from tfaip.trainer.optimizer.optimizers import SGDOptimizer
from tfaip.trainer.stages.params import CallStage, PredictData, PredictStage, RepeatStage, StageParams, TrainStage
from tfaip.trainer.stages.plan import plan_stages, resolve_stage
from tfaip.trainer.stages.planned import PlannedStage, StageKind
from tfaip.trainer.stages.table import plan_table
from tfaip.trainer.transfer.params import TransferMode, TransferParams


def plan_of(stages: dict[str, StageParams], epochs: int = 20, **values: Any) -> list[PlannedStage]:
    return plan_stages(tiny_params(epochs, stages=stages, **values), TinyScenario)


def spans(plan: list[PlannedStage]) -> list[tuple[str, int, int]]:
    return [(stage.name, stage.first_epoch, stage.last_epoch) for stage in plan]


def units(plan: list[PlannedStage]) -> list[int | None]:
    return [None if stage.params is None else stage.params.scenario.model.units for stage in plan]


def loop(times: int = 3) -> dict[str, StageParams]:
    """Train, then `times` times align and train."""
    train = TrainStage(epochs=2, overrides={"model.units": [32, 48], "val.seed": "{repeat}"})
    align = PredictStage(data=PredictData.VAL)
    return {
        "linear": TrainStage(epochs=1, overrides={"model.units": 16}),
        "loop": RepeatStage(times=times, stages={"align": align, "grow": train}),
    }


def test_no_stage_means_one() -> None:
    params = tiny_params(7)
    (main,) = plan_stages(params, TinyScenario)
    assert (main.name, main.kind, main.first_epoch, main.last_epoch) == ("main", StageKind.TRAIN, 1, 7)
    assert main.params is params
    assert (main.rate_control, main.transfer, main.settings) == (True, params.transfer, None)


def test_epochs_are_numbered_through() -> None:
    plan = plan_of(loop(), epochs=10)
    assert spans(plan) == [
        ("linear", 1, 1),
        ("loop.1.align", 2, 1),
        ("loop.1.grow", 2, 3),
        ("loop.2.align", 4, 3),
        ("loop.2.grow", 4, 5),
        ("loop.3.align", 6, 5),
        ("loop.3.grow", 6, 7),
        ("main", 8, 10),
    ]
    assert [stage.kind for stage in plan[:3]] == [StageKind.TRAIN, StageKind.PREDICT, StageKind.TRAIN]


def test_a_list_has_a_value_per_repetition_and_its_last_one_extends() -> None:
    plan = plan_of(loop())
    # The model that is applied is that of the training before.
    assert units(plan) == [16, 16, 32, 32, 48, 48, 48, 8]
    assert [stage.params.gen.val.seed for stage in plan if stage.name.endswith("grow")] == [1, 2, 3]  # type: ignore
    assert plan[2].overrides == {"model.units": "32", "val.seed": "1"}


def test_what_is_applied_has_other_data_than_the_training_before() -> None:
    train = TrainStage(epochs=1, overrides={"model.units": 3, "gen.val.samples": 7, "val.seed": 5})
    align = PredictStage(data=PredictData.VAL, overrides={"val.samples": 4})
    plan = plan_of({"a": train, "p": align})
    assert plan[1].params is not None
    assert plan[1].params.gen.val == TinyGenerator(samples=4, seed=5)
    assert (units(plan), plan[1].overrides) == ([3, 3, 8], {"val.samples": "4"})


def test_a_list_outside_of_a_group_is_a_value() -> None:
    (stage, _) = plan_of({"small": TrainStage(epochs=1, overrides={"learning_rate.rates": [0.5, 0.25]})})
    assert stage.params is not None
    assert stage.params.learning_rate.rates == [0.5, 0.25]


def test_overrides_may_be_nested_as_the_fields_are() -> None:
    nested = {
        "model": {"units": 3},
        "scenario": {"model": {"dropout": 0.5}},
        "optimizer": {"__cls__": "SGD", "momentum": 0.5},
        "train": {"batch_size": 2, "samples": 7},
        "learning_rate": {"rates": [0.5, 0.25]},
        "loss_weights": {"mse": 2},
    }
    flat = {
        "model.units": "3",
        "scenario.model.dropout": "0.5",
        "optimizer": "SGD",
        "optimizer.momentum": "0.5",
        "train.batch_size": "2",
        "train.samples": "7",
        "learning_rate.rates": "0.5 0.25",
        "loss_weights": "mse=2",
    }
    (stage, _) = plan_of({"a": TrainStage(epochs=1, overrides=nested)}, loss_weights={"other": 1.0})
    (same, _) = plan_of({"a": TrainStage(epochs=1, overrides=flat)}, loss_weights={"other": 1.0})
    assert stage.overrides == flat
    assert stage.params == same.params
    assert stage.params.scenario.model.units == 3  # type: ignore[union-attr]
    # A dict that is a value replaces the whole one.
    assert stage.params.loss_weights == {"mse": 2.0}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"model": {"unit": 3}}, "^stage a, overrides: unknown flag --model.unit; did you mean --model.units"),
        ({"model": {"units": 3}, "model.units": 4}, "^--model.units is given twice: give it once$"),
        ({"model": {"units": {"x": 3}}}, "^stage a, overrides: unknown flag|expected int, got 'x=3'$"),
    ],
)
def test_nested_overrides_that_cannot_work(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan_of({"a": TrainStage(epochs=1, overrides=overrides)})


def test_nested_overrides_give_each_param_once() -> None:
    with pytest.raises(FieldError, match=r"expected each param once \(model.units is given twice\)"):
        TrainStage(overrides={"model": {"units": [1, 2]}, "model.units": 4})


def test_groups_in_groups() -> None:
    inner = RepeatStage(times=2, stages={"b": TrainStage(epochs=1, overrides={"model.units": ["{repeat}", "7"]})})
    plan = plan_of({"outer": RepeatStage(times=2, stages={"inner": inner, "c": TrainStage(epochs=2)})})
    names = ["outer.1.inner.1.b", "outer.1.inner.2.b", "outer.1.c", "outer.2.inner.1.b", "outer.2.inner.2.b"]
    assert [stage.name for stage in plan] == [*names, "outer.2.c", "main"]
    assert units(plan) == [1, 7, 8, 1, 7, 8, 8]
    assert plan[-1].first_epoch == 9


def test_other_params_of_a_training_stage() -> None:
    transfer = TransferParams(mode=TransferMode.NONE)
    stages: dict[str, StageParams] = {
        "held": TrainStage(epochs=1, rate_control=False, transfer=transfer),
        "free": TrainStage(epochs=1, no_train_scope=""),
        "other": TrainStage(epochs=1, no_train_scope="out"),
        "same": TrainStage(epochs=1),
    }
    plan = plan_of(stages, no_train_scope="hidden", transfer=TransferParams(mode=TransferMode.EXACT))
    assert [stage.rate_control for stage in plan] == [False, True, True, True, True]
    assert [stage.params.no_train_scope for stage in plan] == ["hidden", None, "out", "hidden", "hidden"]  # type: ignore
    modes = [TransferMode.NONE, *[TransferMode.SUBSET] * 3, TransferMode.EXACT]
    assert [stage.transfer.mode for stage in plan] == modes


def test_a_stage_has_a_copy_of_the_params() -> None:
    params = tiny_params(stages={"small": TrainStage(epochs=1, overrides={"model.units": 3, "optimizer": "SGD"})})
    before = params.to_dict()
    small, main = plan_stages(params, TinyScenario)
    assert small.params is not None
    assert isinstance(small.params.optimizer, SGDOptimizer)
    assert (small.params.stages, small.params.epochs) == ({}, 20)
    assert small.params.scenario.model is not params.scenario.model
    assert params.to_dict() == before
    assert main.params is params


def refer(key: str, **values: Any) -> dict[str, StageParams]:
    """A stage that refers to another one, which predicts."""
    names = {"train.samples": "5", "model.units": "{" + key + ".dir}", **values}
    return {"align": PredictStage(), "next": TrainStage(epochs=1, overrides=names)}


@pytest.fixture
def lists() -> dict[str, StageParams]:
    arguments = {"source": "{align.dir}/predictions.jsonl", "number": "{repeat}", "others": ["{align.dir}"], "n": 3}
    call = CallStage(function=FunctionName("test.trainer.stages.scenarios:tiny_params"), arguments=arguments)
    train = TrainStage(epochs=1, overrides={"trainer.lav_silent": "{repeat}", "no_train_scope": "{align.dir}/x"})
    return {"loop": RepeatStage(times=2, stages={"align": PredictStage(), "call": call, "train": train})}


def referring(text: str, scope: str | None = "") -> list[PlannedStage]:
    """A plan whose plain params refer to a result."""
    stages: dict[str, StageParams] = {"align": PredictStage(), "train": TrainStage(epochs=1, no_train_scope=scope)}
    return plan_of({"loop": RepeatStage(times=2, stages=stages)}, no_train_scope=text)


def test_the_plain_params_may_refer_to_the_latest_result(tmp_path: Path) -> None:
    plan = referring("{align.dir}/x")
    assert [stage.params.no_train_scope for stage in plan[1::2]] == [None, None]  # type: ignore[union-attr]
    assert plan[-1].params.no_train_scope == "{align.dir}/x"  # type: ignore[union-attr]
    directories = {"loop.1.align": tmp_path / "1", "loop.2.align": tmp_path / "2"}
    main = resolve_stage(plan[-1], directories)
    assert main.params.no_train_scope == f"{tmp_path}/2/x"  # type: ignore[union-attr]
    assert (main.name, main.overrides, main.pending) == ("main", {}, None)


def test_a_stage_must_override_what_only_the_main_one_knows() -> None:
    message = "stage loop.1.train: --trainer.no_train_scope is '{align.dir}/x', which is known in main only: override"
    with pytest.raises(UsageError, match=f"^{re.escape(message)} it in this stage$"):
        referring("{align.dir}/x", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{algn.dir}/x", "no {algn.dir}, since no stage has this name; did you mean align?"),
        ("{align.dir}{repeat}", "no {repeat}, which only stages of a RepeatStage have"),
    ],
)
def test_plain_params_that_refer_to_nothing(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(f'--trainer.no_train_scope is {text!r}: {message}')}"):
        referring(text)


def test_braces_mean_nothing_without_stages() -> None:
    assert plan_of({}, no_train_scope="{align.dir}")[0].pending is None


def test_what_refers_to_a_result_is_resolved_when_it_is_reached(lists: dict[str, StageParams], tmp_path: Path) -> None:
    lists["loop"].stages["train"].overrides["trainer.lav_silent"] = ["True", "False"]  # type: ignore[attr-defined]
    plan = plan_of(lists)
    assert [stage.params is None for stage in plan] == [False, True, True, True, True, True, False]
    # The latest finished repetition.
    assert [plan[2].overrides["no_train_scope"], plan[5].overrides["no_train_scope"]] == [
        "{loop.1.align.dir}/x",
        "{loop.2.align.dir}/x",
    ]
    directories = {"loop.1.align": tmp_path / "a b" / "1", "loop.2.align": tmp_path / "2"}
    train = resolve_stage(plan[2], directories)
    assert train.params is not None
    assert train.params.no_train_scope == f"{tmp_path}/a b/1/x"
    assert (train.params.lav_silent, train.name, train.first_epoch, train.pending) == (True, "loop.1.train", 1, None)
    # The model that is applied in the second repetition is that of the first.
    align = resolve_stage(plan[3], directories)
    assert align.params is not None
    assert align.params.no_train_scope == f"{tmp_path}/a b/1/x"
    call = resolve_stage(plan[4], directories)
    assert call.settings is not None
    assert call.settings.arguments == {
        "source": f"{tmp_path}/2/predictions.jsonl",
        "number": "2",
        "others": [f"{tmp_path}/2"],
        "n": 3,
    }
    assert resolve_stage(plan[0], {}) is plan[0]
    with pytest.raises(UsageError, match=r"stage loop.2.train: there is no directory of stage 'loop.2.align'"):
        resolve_stage(plan[5], {"loop.1.align": tmp_path})


def test_other_braces_are_text() -> None:
    (stage, _) = plan_of({"a": TrainStage(epochs=1, overrides={"no_train_scope": "a{2}|b{3,}"})})
    assert stage.params is not None
    assert stage.params.no_train_scope == "a{2}|b{3,}"


def test_the_table_of_a_plan() -> None:
    stages: dict[str, StageParams] = {
        "small": TrainStage(
            epochs=2,
            rate_control=False,
            overrides={"model.units": 4, "optimizer": "SGD", "optimizer.momentum": 0.5, "loss_weights.mse": 2},
        ),
        "align": PredictStage(data=PredictData.VAL),
        "next": TrainStage(epochs=1, overrides={"no_train_scope": "{align.dir}"}),
    }
    assert plan_table(plan_of(stages)) == [
        "stage  epochs  params that differ from the final ones",
        "small  1-2     rate held, trainer.loss_weights=mse=2.0, optimizer=SGDOptimizer, optimizer.momentum=0.5, "
        "model.units=4",
        "align  -       apply the model (averaged weights) to val, write predictions.jsonl",
        "next   3       no_train_scope={align.dir}, known when it is reached",
        "main   4-20",
    ]


@pytest.mark.slow
def test_a_long_table_is_cut() -> None:
    lines = plan_table(plan_of({f"s{number}": TrainStage(epochs=1) for number in range(100)}, epochs=200))
    assert len(lines) == 61
    assert lines[30] == "... 42 more stages"
    assert lines[-1] == "main   101-200"


def test_many_epochs_take_no_time() -> None:
    plan = plan_of({"a": TrainStage(epochs=2**60)}, epochs=2**61)
    assert spans(plan) == [("a", 1, 2**60), ("main", 2**60 + 1, 2**61)]


@pytest.mark.parametrize("name", ["a.b", "", "..", "main", "pretraining", "x{}"])
def test_names_that_no_stage_can_have(name: str) -> None:
    with pytest.raises(FieldError, match="expected another name of a stage"):
        tiny_params(stages={name: TrainStage(epochs=1)})


@pytest.mark.parametrize("other", ["loop", "small"])
def test_a_name_in_two_groups(other: str) -> None:
    group = RepeatStage(stages={other: TrainStage(epochs=1)})
    with pytest.raises(FieldError, match=rf"^stages.loop.stages is '{other}', .*\(it is given twice\)$"):
        tiny_params(stages={"small": TrainStage(epochs=1), "loop": group})


def nested(depth: int) -> dict[str, StageParams]:
    stages: dict[str, StageParams] = {"a": TrainStage(epochs=1)}
    for level in range(depth):
        stages = {f"g{level}": RepeatStage(stages=stages)}
    return stages


def contained() -> dict[str, StageParams]:
    group = RepeatStage()
    group.stages["a"] = group
    return {"g": group}


@pytest.mark.parametrize(
    ("stages", "epochs", "message"),
    [
        ({"a": TrainStage(epochs=20)}, 20, "epochs is 20, expected more than the 20 epochs of the stages"),
        ({"a": TrainStage()}, 20, "stages.a.epochs is None, expected the number of epochs"),
        ({"a": CallStage()}, 20, "stages.a.function is '', expected module:function"),
        (nested(5), 20, "expected no more than 4 groups in one another"),
        (contained(), 20, "given twice"),
        ({"g": RepeatStage(times=1001, stages={"a": PredictStage()})}, 20, "stages is 1001, expected at most 1000"),
        (refer("algn"), 20, r"no '\{algn.dir\}', since no stage has this name; did you mean align\?"),
        ({"g": RepeatStage(times=2, stages=refer("g"))}, 20, r"no \{g.dir\}, since a group has no directory"),
        ({"a": TrainStage(epochs=1, overrides={"model.units": "{repeat}"})}, 20, r"no \{repeat\}, which only stages"),
        ({"g": RepeatStage(stages={"a": TrainStage(epochs=1, overrides={"lr": []})})}, 20, "at least one value"),
        ({"a": TrainStage(epochs=1, overrides={"model.units": "1" * 10_001})}, 20, "at most 10000 characters"),
    ],
)  # fmt: skip
def test_lists_of_stages_that_cannot_work(stages: dict[str, Any], epochs: int, message: str) -> None:
    with pytest.raises(FieldError, match=message):
        tiny_params(epochs, stages=stages)


def test_a_type_that_no_directory_has_is_known_before_the_stage_is_reached() -> None:
    message = r"^stage next, overrides: --model.units: expected int, got '{align\.dir}'$"
    with pytest.raises(UsageError, match=message):
        plan_of(refer("align"))
    with pytest.raises(UsageError, match=r"^stage next, overrides: unknown flag --model.unit; did you mean --model"):
        plan_of(refer("align", **{"model.units": "3", "model.unit": "{align.dir}"}))


def test_a_function_that_does_not_exist() -> None:
    group = RepeatStage(stages={"c": CallStage(function=FunctionName("test.trainer.stages.scenarios:missing"))})
    with pytest.raises(
        UsageError, match=r"has; did you mean|expected a function .*change --stages.g.stages.c.function$"
    ):
        plan_of({"g": group})


def test_a_value_of_another_type() -> None:
    with pytest.raises(FieldError, match=r"overrides\['a'\] is <object.*, expected text, a number, or a list or dict"):
        TrainStage(overrides={"a": object()})
