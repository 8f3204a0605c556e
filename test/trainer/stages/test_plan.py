"""Stages of a run before it begins: their order, their epochs, what they refer to, and the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from test.support.tiny.scenario import TinyGenerator, TinyScenario
from test.trainer.stages.scenarios import AlignedScenario, tiny_params
from tfaip.errors import UsageError
from tfaip.params.fields import FieldError
from tfaip.params.types import FunctionName
from tfaip.trainer.history import EpochRecord, History
from tfaip.trainer.optimizer.optimizers import SGDOptimizer
from tfaip.trainer.stages import program
from tfaip.trainer.stages.params import CallStage, PredictData, PredictStage, PretrainingParams, StageParams, TrainStage
from tfaip.trainer.stages.program import (
    PlannedStage,
    StageKind,
    StagePending,
    StageResult,
    planned_stages,
    preview_stages,
)
from tfaip.trainer.transfer.params import TransferMode, TransferParams


def plan_of(stages: dict[str, StageParams], epochs: int = 20, **values: Any) -> list[PlannedStage]:
    return list(preview_stages(tiny_params(epochs, stages=stages, **values), TinyScenario).stages)


def table_of(stages: dict[str, StageParams], epochs: int = 20) -> list[str]:
    params = tiny_params(epochs, stages=stages)
    return preview_stages(params, TinyScenario).table()


def spans(plan: list[PlannedStage]) -> list[tuple[str, int, int]]:
    return [(stage.name, stage.first_epoch, stage.last_epoch) for stage in plan]


def units(plan: list[PlannedStage]) -> list[int | None]:
    return [None if stage.params is None else stage.params.scenario.model.units for stage in plan]


def programmed(*stages: Any) -> type[TinyScenario]:
    """Return a scenario whose program yields these stages."""

    class Programmed(TinyScenario):
        @classmethod
        def stages(cls, params: Any, history: Any) -> Any:
            for stage in stages:
                _ = yield stage

    return Programmed


def test_no_stage_means_one() -> None:
    params = tiny_params(7)
    (main,) = preview_stages(params, TinyScenario).stages
    assert (main.name, main.kind, main.first_epoch, main.last_epoch) == ("main", StageKind.TRAIN, 1, 7)
    assert main.params is params
    assert (main.rate_control, main.transfer, main.settings) == (True, params.transfer, None)


def test_epochs_are_numbered_through() -> None:
    grow = TrainStage(epochs=2, overrides={"model.units": 32})
    plan = plan_of({"linear": TrainStage(epochs=1), "align": PredictStage(), "grow": grow}, epochs=10)
    assert spans(plan) == [("linear", 1, 1), ("align", 2, 1), ("grow", 2, 3), ("main", 4, 10)]
    assert [stage.kind for stage in plan[:3]] == [StageKind.TRAIN, StageKind.PREDICT, StageKind.TRAIN]
    assert [stage.number for stage in plan] == [0, 1, 2, 3]
    assert units(plan) == [8, 8, 32, 8]


def test_what_is_applied_has_other_data_than_the_training_before() -> None:
    train = TrainStage(epochs=1, overrides={"model.units": 3, "gen.val.samples": 7, "val.seed": 5})
    align = PredictStage(data=PredictData.VAL, overrides={"val.samples": 4})
    plan = plan_of({"a": train, "p": align})
    assert plan[1].params is not None
    assert plan[1].params.gen.val == TinyGenerator(samples=4, seed=5)
    assert (units(plan), plan[1].overrides) == ([3, 3, 8], {"val.samples": "4"})


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
    small, main = preview_stages(params, TinyScenario).stages
    assert small.params is not None
    assert isinstance(small.params.optimizer, SGDOptimizer)
    assert (small.params.stages, small.params.epochs) == ({}, 20)
    assert small.params.scenario.model is not params.scenario.model
    assert params.to_dict() == before
    assert main.params is params


def refer(key: str, **values: Any) -> dict[str, StageParams]:
    """A stage that refers to the file of another one."""
    names = {"train.samples": "5", "no_train_scope": "{" + key + ".file}", **values}
    return {"align": PredictStage(), "next": TrainStage(epochs=1, overrides=names)}


def test_a_reference_is_put_in_when_the_stage_is_reached(tmp_path: Path) -> None:
    files = {"align": str(tmp_path / "a b" / "x.jsonl")}
    plan = plan_of(refer("align"))
    assert [stage.params is None for stage in plan] == [False, True, False]
    assert plan[1].overrides["trainer.no_train_scope"] == "{align.file}"
    assert plan[1].resolve(files).params.no_train_scope == files["align"]
    assert plan[0].resolve({}) is plan[0]


def test_plain_params_refer_to_a_result(tmp_path: Path) -> None:
    stages = {"first": TrainStage(epochs=1, no_train_scope=""), "align": PredictStage(), "same": TrainStage(epochs=1)}
    plan = plan_of(stages, no_train_scope="{align.file}")
    assert [stage.params and stage.params.no_train_scope for stage in plan] == [None, None, None, None]
    assert [stage.pending is None for stage in plan] == [True, True, False, False]
    for stage in plan[2:]:
        assert stage.resolve({"align": f"{tmp_path}/x"}).params.no_train_scope == f"{tmp_path}/x"


def test_braces_mean_nothing_without_stages() -> None:
    assert plan_of({}, no_train_scope="{align.file}")[0].pending is None
    (stage, _) = plan_of({"a": TrainStage(epochs=1, overrides={"no_train_scope": "a{2}|b{3,}"})})
    assert stage.params.no_train_scope == "a{2}|b{3,}"


CALL = CallStage(function=FunctionName("test.trainer.stages.scenarios:tiny_params"))


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (
            refer("algn"),
            "^stage next: --trainer.no_train_scope is '{algn.file}', but no stage has this name; did you mean align",
        ),
        ({"next": refer("align")["next"], "align": PredictStage()}, "{align.file}', but align comes later: override"),
        ({"f": CALL, "a": TrainStage(epochs=1, overrides={"no_train_scope": "{f.file}"})}, "but f writes no file"),
        (refer("align", **{"model.units": "{align.file}"}), "^stage next, overrides: --model.units: expected int, got"),
        (refer("align", **{"model.unit": "3"}), "^stage next, overrides: unknown flag --model.unit; did you mean"),
    ],
)
def test_references_that_cannot_work(stages: dict[str, StageParams], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan_of(stages)


def test_a_stage_must_override_what_is_known_later() -> None:
    with pytest.raises(
        UsageError, match="^stage first: --trainer.no_train_scope is '{align.file}', but align comes la"
    ):
        plan_of({"first": TrainStage(epochs=1), "align": PredictStage()}, no_train_scope="{align.file}")


def test_the_table_of_a_plan() -> None:
    stages: dict[str, StageParams] = {
        "small": TrainStage(
            epochs=2,
            rate_control=False,
            overrides={"model.units": 4, "optimizer": "SGD", "optimizer.momentum": 0.5, "loss_weights.mse": 2},
        ),
        "align": PredictStage(data=PredictData.VAL),
        "next": TrainStage(epochs=1, overrides={"no_train_scope": "{align.file}"}),
    }
    assert table_of(stages) == [
        "stage  epochs  what differs from the plain params",
        "small  1-2     rate held, model.units=4, optimizer=SGD, optimizer.momentum=0.5, trainer.loss_weights.mse=2",
        "align  -       apply the model to val, write predictions.jsonl",
        "next   3       trainer.no_train_scope={align.file}, known when it is reached",
        "main   4-20",
    ]


@pytest.mark.slow
def test_a_long_table_is_cut() -> None:
    lines = table_of({f"s{number}": TrainStage(epochs=1) for number in range(100)}, epochs=200)
    assert len(lines) == 61
    assert lines[30] == "... 42 more stages"
    assert lines[-1] == "main   101-200"


def test_a_program_is_shown_up_to_the_first_result_that_it_reads() -> None:
    params = tiny_params()
    known = preview_stages(params, AlignedScenario)
    assert spans(list(known.stages)) == [("linear", 1, 1), ("align_0", 2, 1)]
    assert known.table()[-1] == "...              known when it is reached"


def test_a_program_gets_results_and_history() -> None:
    history, names = History(), []
    planned = planned_stages(tiny_params(), AlignedScenario, history)
    stage = next(planned)
    losses = {"train_0": 0.9, "train_1": 0.4}
    while stage.name != "main":
        names.append((stage.name, *(spans([stage])[0][1:]), stage.params.scenario.model.units))
        values = {"loss": losses.get(stage.name, 2.0)}
        history.record(stage.last_epoch, EpochRecord(0.1, values))
        stage = planned.send(
            StageResult(stage.name, stage.first_epoch, stage.last_epoch, values, file=f"{stage.name}.x")
        )
        if stage.kind is StageKind.TRAIN and stage.name != "main":
            assert stage.overrides["trainer.no_train_scope"] == f"align_{stage.name[-1]}.x"
    assert names == [
        *(("linear", 1, 1, 2), ("align_0", 2, 1, 2), ("train_0", 2, 3, 4)),
        *(("align_1", 4, 3, 4), ("train_1", 4, 5, 5)),
    ]
    assert spans([stage]) == [("main", 6, 20)]


def test_the_preview_of_a_program_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MAX_STAGES", 3)

    def of(*stages: Any, epochs: int = 20) -> Any:
        return preview_stages(tiny_params(epochs), programmed(*stages))

    many = of(*(PredictStage(f"p{number}") for number in range(4)))
    # A program that uses all epochs has no main stage.
    assert [stage.name for stage in of(TrainStage("a", epochs=20)).stages] == ["a"]
    assert (len(many.stages), many.is_complete) == (3, False)
    assert [stage.name for stage in of(TrainStage("a", epochs=19)).stages] == ["a", "main"]


@pytest.mark.parametrize("read", [len, str, bool, list, lambda pending: pending.values, lambda pending: pending[1]])
def test_what_is_not_known_yet_cannot_be_read(read: Any) -> None:
    with pytest.raises(StagePending):
        read(program.PENDING)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (["small"], "^the program yielded 'small', expected TrainStage, PredictStage or CallStage$"),
        (
            [TrainStage("a", epochs=21)],
            "^epochs is 20, expected at least 21, the last epoch of stage a: change --train",
        ),
        ([PredictStage("a"), PredictStage("A")], r"^name is 'A', expected another name of a stage \(it is given twice"),
        ([PredictStage("a", data="all")], "^--stages.a.data: expected train | val, got 'all'"),
        ([TrainStage("a")], "^epochs is None, expected the number of epochs .*: change stages.a.epochs"),
        ([CallStage("c", function="statistics:missing")], "function is 'statistics:missing', expected a function that"),
        (
            [TrainStage("a", {"model.unit": 3}, 1)],
            "^stage a, overrides: unknown flag --model.unit; did you mean --model",
        ),
    ],
)
def test_programs_that_cannot_work(stages: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        preview_stages(tiny_params(), programmed(*stages))


def test_a_program_is_a_generator_and_takes_no_list() -> None:
    class Listed(TinyScenario):
        @classmethod
        def stages(cls, params: Any, history: Any) -> Any:
            return [TrainStage("a", epochs=1)]

    with pytest.raises(UsageError, match="^stages of Listed returned .*, expected a generator$"):
        preview_stages(tiny_params(), Listed)
    with pytest.raises(UsageError, match="^Listed has a program of stages: leave out --stages, or set --pre"):
        preview_stages(tiny_params(stages={"a": TrainStage(epochs=1)}), Listed)
    params = tiny_params(stages={"a": TrainStage(epochs=1)}, pretraining=PretrainingParams(max_epochs=0))
    assert [stage.name for stage in preview_stages(params, Listed).stages] == ["a", "main"]


@pytest.mark.parametrize("name", ["a.b", "", "..", "main", "pretraining", "x{}"])
def test_names_that_no_stage_can_have(name: str) -> None:
    with pytest.raises(FieldError, match="expected another name of a stage"):
        tiny_params(stages={name: TrainStage(epochs=1)})


@pytest.mark.parametrize(
    ("stages", "epochs", "message"),
    [
        ({"a": TrainStage(epochs=20)}, 20, "epochs is 20, expected more than the 20 epochs of the stages"),
        ({"a": TrainStage()}, 20, "stages.a.epochs is None, expected the number of epochs"),
        ({"a": CallStage()}, 20, "stages.a.function is '', expected module:function"),
        ({"a": TrainStage("b", epochs=1)}, 20, "stages.a.name is 'b', expected 'a', as in the list"),
        ({"a": PredictStage(), "A": PredictStage()}, 20, "stages is 'A', .*it is given twice"),
    ],
)  # fmt: skip
def test_lists_of_stages_that_cannot_work(stages: dict[str, Any], epochs: int, message: str) -> None:
    with pytest.raises(FieldError, match=message):
        tiny_params(epochs, stages=stages)


def test_a_value_of_another_type() -> None:
    with pytest.raises(FieldError, match=r"overrides\['a'\] is <object.*, expected text, a number, or a list or dict"):
        TrainStage(overrides={"a": object()})
