"""Stages of a run before it begins: their order, their epochs, what they refer to, and the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from test.support.tiny.scenario import TinyGenerator, TinyScenario
from test.trainer.stages.scenarios import AlignedScenario, plan_of, spans, tiny_params, units
from tfaip.errors import UsageError
from tfaip.params.fields import FieldError
from tfaip.params.types import FunctionName
from tfaip.trainer.history import EpochRecord, History
from tfaip.trainer.optimizer.optimizers import SGDOptimizer
from tfaip.trainer.stages import program
from tfaip.trainer.stages.params import (
    CallStage,
    PredictData,
    PredictStage,
    PretrainingParams,
    StageParams,
    TrainStage,
)
from tfaip.trainer.stages.program import StagePending, StageResult, planned_stages, preview_stages
from tfaip.trainer.transfer.params import TransferMode, TransferParams

EXACT = TransferParams(mode=TransferMode.EXACT)
CALL = CallStage(function=FunctionName("test.trainer.stages.scenarios:tiny_params"))


def programmed(*stages: Any) -> type[TinyScenario]:
    """Return a scenario whose program yields these stages."""

    class Programmed(TinyScenario):
        @classmethod
        def stages(cls, params: Any, history: Any) -> Any:
            for stage in stages:
                _ = yield stage

    return Programmed


def test_no_stage_means_one() -> None:
    params = tiny_params(7, transfer=EXACT)
    (main,) = preview_stages(params, TinyScenario).stages
    assert (main.name, main.trains, main.first_epoch, main.last_epoch) == ("main", True, 1, 7)
    assert main.params is params
    assert (main.settings.rate_control, main.settings.transfer) == (True, EXACT)


def test_stages_are_numbered_through_and_have_copies_of_the_params() -> None:
    grow = TrainStage(epochs=2, overrides={"model.units": 3, "gen.val.samples": 7, "val.seed": 5, "optimizer": "SGD"})
    align = PredictStage(data=PredictData.VAL, overrides={"val.samples": 4})
    params = tiny_params(10, stages={"linear": TrainStage(epochs=1), "f": CALL, "grow": grow, "align": align})
    before = params.to_dict()
    plan = list(preview_stages(params, TinyScenario).stages)
    assert spans(plan) == [("linear", 1, 1), ("f", 2, 1), ("grow", 2, 3), ("align", 4, 3), ("main", 4, 10)]
    assert [stage.settings.kind for stage in plan] == ["train", "call", "train", "predict", "train"]
    assert [stage.number for stage in plan] == [0, 1, 2, 3, 4]
    # What is applied has the params of the training before, with other data.
    assert units(plan) == [8, 8, 3, 3, 8]
    assert plan[3].params.gen.val == TinyGenerator(samples=4, seed=5)
    assert plan[3].settings.overrides == {"val.samples": "4"}
    grown = plan[2].params
    assert isinstance(grown.optimizer, SGDOptimizer)
    assert (grown.stages, grown.epochs) == ({}, 10)
    assert grown.scenario.model is not params.scenario.model
    assert params.to_dict() == before
    assert plan[-1].params is params


def test_other_params_of_a_training_stage() -> None:
    stages: dict[str, StageParams] = {
        "held": TrainStage(epochs=1, rate_control=False, transfer=TransferParams(mode=TransferMode.NONE)),
        "free": TrainStage(epochs=1, no_train_scope=""),
        "other": TrainStage(epochs=1, no_train_scope="out"),
        "same": TrainStage(epochs=1),
    }
    plan = plan_of(stages=stages, no_train_scope="hidden", transfer=EXACT)
    assert [stage.settings.rate_control for stage in plan] == [False, True, True, True, True]
    assert [stage.params.no_train_scope for stage in plan] == ["hidden", None, "out", "hidden", "hidden"]
    modes = [TransferMode.NONE, *[TransferMode.SUBSET] * 3, TransferMode.EXACT]
    assert [stage.settings.transfer.mode for stage in plan] == modes


def refer(key: str, **values: Any) -> dict[str, StageParams]:
    """A stage that refers to the file of another one."""
    names = {"train.samples": "5", "no_train_scope": "{" + key + ".file}", **values}
    return {"align": PredictStage(), "next": TrainStage(epochs=1, overrides=names)}


def test_a_reference_is_the_file_of_a_stage_before(tmp_path: Path) -> None:
    file, run = str(tmp_path / "a b" / "stages" / "align" / "predictions.jsonl"), str(tmp_path / "a b")
    plan = plan_of(stages=refer("align"), output_dir=run)
    assert [stage.params.no_train_scope for stage in plan] == [None, file, None]
    assert [stage.reads_stages for stage in plan] == [False, True, False]
    assert plan[1].settings.overrides["trainer.no_train_scope"] == "{align.file}"
    # Also one of the plain params; other braces mean nothing.
    first = TrainStage(epochs=1, overrides={"no_train_scope": "a{2}|b{3,}"})
    stages = {"first": first, "align": PredictStage(), "same": TrainStage(epochs=1)}
    plan = plan_of(stages=stages, no_train_scope="{align.file}", output_dir=run)
    assert [stage.params.no_train_scope for stage in plan] == ["a{2}|b{3,}", "a{2}|b{3,}", file, file]
    assert plan_of(no_train_scope="{align.file}")[0].params.no_train_scope == "{align.file}"


def test_the_table_of_a_plan() -> None:
    overrides = {"model.units": 4, "optimizer": "SGD", "optimizer.momentum": 0.5, "loss_weights.mse": 2}
    stages: dict[str, StageParams] = {
        "small": TrainStage(epochs=2, rate_control=False, overrides=overrides),
        "align": PredictStage(data=PredictData.VAL),
        "next": TrainStage(epochs=1, overrides={"no_train_scope": "{align.file}"}),
    }
    assert preview_stages(tiny_params(stages=stages), TinyScenario).table() == [
        "stage  epochs  what differs from the plain params",
        "small  1-2     rate held, model.units=4, optimizer=SGD, optimizer.momentum=0.5, trainer.loss_weights.mse=2",
        "align  -       apply the model to val, write predictions.jsonl",
        "next   3       trainer.no_train_scope={align.file}",
        "main   4-20",
    ]


@pytest.mark.slow
def test_a_long_table_is_cut() -> None:
    params = tiny_params(200, stages={f"s{number}": TrainStage(epochs=1) for number in range(100)})
    lines = preview_stages(params, TinyScenario).table()
    assert (len(lines), lines[30], lines[-1]) == (61, "... 42 more stages", "main   101-200")


def test_a_program_gets_results_and_history() -> None:
    # It is shown up to the first result that it reads.
    known = preview_stages(tiny_params(), AlignedScenario)
    assert spans(list(known.stages)) == [("linear", 1, 1), ("align_0", 2, 1)]
    assert known.table()[-1] == "...              known when it is reached"
    history, found = History(), []
    planned = planned_stages(tiny_params(), AlignedScenario, history)
    stage = next(planned)
    losses = {"train_0": 0.9, "train_1": 0.4}
    while stage.name != "main":
        found.append((*spans([stage])[0], stage.params.scenario.model.units))
        values = {"loss": losses.get(stage.name, 2.0)}
        history.record(stage.last_epoch, EpochRecord(0.1, values))
        result = StageResult(stage.name, stage.first_epoch, stage.last_epoch, values, file=f"{stage.name}.x")
        stage = planned.send(result)
        if stage.name.startswith("train"):
            assert stage.params.no_train_scope == f"align_{stage.name[-1]}.x"
    assert found == [
        *(("linear", 1, 1, 2), ("align_0", 2, 1, 2), ("train_0", 2, 3, 4)),
        *(("align_1", 4, 3, 4), ("train_1", 4, 5, 5)),
    ]
    assert spans([stage]) == [("main", 6, 20)]


def test_the_preview_of_a_program_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MAX_STAGES", 3)
    many = preview_stages(tiny_params(), programmed(*(PredictStage(f"p{number}") for number in range(4))))
    assert (len(many.stages), many.is_complete) == (3, False)
    # A program that uses all epochs has no main stage.
    for epochs, names in ((20, ["a"]), (19, ["a", "main"])):
        preview = preview_stages(tiny_params(), programmed(TrainStage("a", epochs=epochs)))
        assert [stage.name for stage in preview.stages] == names


@pytest.mark.parametrize("read", [len, str, bool, list, lambda pending: pending.values, lambda pending: pending[1]])
def test_what_is_not_known_yet_cannot_be_read(read: Any) -> None:
    with pytest.raises(StagePending):
        read(program.PENDING)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (["small"], "^the program yielded 'small', expected TrainStage, PredictStage or CallStage$"),
        ([TrainStage("a", epochs=21)], "^epochs is 20, expected at least 21, the last epoch of stage a: change --t"),
        ([PredictStage("a"), PredictStage("A")], r"^name is 'A', expected another name of a stage \(it is given twice"),
        ([PredictStage("a", data="all")], "^--stages.a.data: expected train | val, got 'all'"),
        ([CallStage("c", function="statistics:missing")], "function is 'statistics:missing', expected a function that"),
        ([TrainStage("a", {"model.unit": 3}, 1)], "^stage a, overrides: unknown flag --model.unit; did you mean --mod"),
        # Of lists
        ({"a": TrainStage()}, "^epochs is None, expected the number of epochs .*: change --stages.a.epochs"),
        ({"a": CallStage()}, "^--stages.a.function is required"),
        ({"a": TrainStage(epochs=20)}, "^epochs is 20, expected more than the 20 epochs of the stages"),
        (refer("algn"), "^stage next: --trainer.no_train_scope is '{algn.file}', but no stage .*; did you mean align"),
        ({"next": refer("align")["next"], "align": PredictStage()}, "{align.file}', but align comes later: override"),
        ({"f": CALL, "a": TrainStage(epochs=1, overrides={"no_train_scope": "{f.file}"})}, "but f writes no file"),
        (refer("align", **{"model.units": "{align.file}"}), "^stage next, overrides: --model.units: expected int, got"),
        (refer("align", **{"model.unit": "3"}), "^stage next, overrides: unknown flag --model.unit; did you mean"),
    ],
)  # fmt: skip
def test_stages_that_cannot_work(stages: Any, message: str) -> None:
    is_list = isinstance(stages, dict)
    with pytest.raises(UsageError, match=message):
        preview_stages(tiny_params(stages=stages if is_list else {}), TinyScenario if is_list else programmed(*stages))


@pytest.mark.parametrize("name", ["a.b", "", "..", "main", "pretraining", "x{}"])
def test_names_that_no_stage_can_have(name: str) -> None:
    with pytest.raises(FieldError, match="expected another name of a stage .*: change --stages$"):
        plan_of(stages={name: TrainStage(epochs=1)})


def test_a_program_is_a_generator_and_takes_no_list() -> None:
    class Listed(TinyScenario):
        @classmethod
        def stages(cls, params: Any, history: Any) -> Any:
            return [TrainStage("a", epochs=1)]

    with pytest.raises(UsageError, match="^stages of Listed returned .*, expected a generator$"):
        plan_of(Listed)
    stages = {"a": TrainStage(epochs=1)}
    with pytest.raises(UsageError, match="^Listed has a program of stages: leave out --stages, or set --pre"):
        plan_of(Listed, stages=stages)
    plan = plan_of(Listed, stages=stages, pretraining=PretrainingParams(max_epochs=0))
    assert [stage.name for stage in plan] == ["a", "main"]


def test_a_value_of_another_type() -> None:
    with pytest.raises(FieldError, match=r"overrides\['a'\] is <object.*, expected text, a number, or a list or dict"):
        TrainStage(overrides={"a": object()})
    with pytest.raises(FieldError, match="^overrides is 'model.units=3', expected a dict of flags and values"):
        TrainStage(overrides="model.units=3")  # type: ignore[arg-type]
