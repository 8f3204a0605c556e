"""Stages of a run before it begins: order, epochs, overrides, hooks of a pretraining, and the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from test.support.tiny.scenario import TinyGenerator, TinyScenario, TinyTrainerParams
from test.trainer.stages import scenarios
from test.trainer.stages.scenarios import (
    AlignedScenario,
    ConstructionScenario,
    plan_of,
    returning,
    spans,
    tiny_params,
    units,
)
from tfaip.errors import UsageError
from tfaip.params.codec import value_text
from tfaip.params.fields import FieldError
from tfaip.params.settings import RootParams
from tfaip.params.tree import diff
from tfaip.params.types import FunctionName
from tfaip.scenario.tutorial.full.datasets import Dataset
from tfaip.scenario.tutorial.full.scenario import TutorialScenario
from tfaip.trainer.history import EpochRecord, History
from tfaip.trainer.optimizer.optimizers import SGDOptimizer
from tfaip.trainer.schedules import ScheduleParams
from tfaip.trainer.stages import program
from tfaip.trainer.stages.params import (
    CallStage,
    PredictData,
    PredictStage,
    PretrainingParams,
    StageParams,
    TrainStage,
)
from tfaip.trainer.stages.program import (
    StagePending,
    StageResult,
    flags_of_overrides,
    overridden,
    planned_stages,
    preview_stages,
)
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


def changed(overrides: dict[str, Any], **values: Any) -> tuple[TinyTrainerParams, dict[str, Any]]:
    """Return the params of a stage, and what differs from those of the run by path."""
    params = tiny_params(**values)
    texts = TrainStage(overrides=overrides).overrides
    found = stage_of(params, {name: value_text(value) for name, value in texts.items()})
    return found, {change.path: change.new for change in diff(params, found)}


def stage_of(params: Any, texts: dict[str, str], **files: str) -> Any:
    return overridden(params, flags_of_overrides(params, texts.items(), "small"), "small", files)


@pytest.mark.parametrize(
    ("name", "value", "path", "expected"),
    [
        ("model.units", "32", "scenario.model.units", 32),
        ("--model.units", 32, "scenario.model.units", 32),
        ("model.dropout", 0, "scenario.model.dropout", 0.0),
        ("no_train_scope", "a b c", "no_train_scope", "a b c"),
        ("lav_silent", "no", "lav_silent", False),
        ("loss_weights", {"mse": 0.5, "x": 1}, "loss_weights", {"mse": 0.5, "x": 1.0}),
        ("trainer.loss_weights", "mse=0.5 x=1", "loss_weights", {"mse": 0.5, "x": 1.0}),
        ("learning_rate.rates", [0.5, 0.25], "learning_rate.rates", [0.5, 0.25]),
        ("learning_rate.rates", {"2": 0.25}, "learning_rate.rates", {2: 0.25}),
        ("optimizer.clip_value", None, "optimizer.clip_value", None),
    ],
)  # fmt: skip
def test_a_value_has_the_type_of_its_field(name: str, value: Any, path: str, expected: Any) -> None:
    _, found = changed({name: value}, optimizer=SGDOptimizer(clip_value=1.0))
    assert found == {path: expected}
    assert isinstance(found[path], type(expected))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"model.unit": 3}, "unknown flag --model.unit; did you mean --model.units"),
        ({"optimizer.momentum": 3}, "it belongs to Muon, RMSprop, SGD: choose one, as in --optimizer SGD$"),
        ({"model.units": "many"}, "--model.units: expected int, got 'many'"),
        ({"loss_weights.mse": "x"}, "--trainer.loss_weights.mse: expected float, got 'x'"),
        ({"optimizer": "SDG"}, r"--optimizer: no class 'SDG'; did you mean SGD\?"),
        ({"val_every_n": 2, "trainer.val_every_n": 3}, "--trainer.val_every_n is given twice"),
        ({"loss_weights": "a=1", "loss_weights.b": 2}, "--trainer.loss_weights is given as a whole and in parts"),
        ({"epochs": 3}, "--trainer.epochs is one of the whole run: set it outside of the stages"),
        ({"device.gpus": 0}, "--device.gpus is one of the whole run"),
        ({"stages.small.epochs": 3}, "--stages.small.epochs is one of the whole run"),
        ({"x" * 5000: "y" * 5000}, "unknown flag --xxx"),
    ],
)  # fmt: skip
def test_overrides_that_cannot_work(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=rf"^stage small, overrides: .*({message})") as e:
        changed(overrides)
    assert len(str(e.value)) < 300
    assert "\n" not in str(e.value)


def test_shared_params_are_those_of_the_copy() -> None:
    params = TutorialScenario.default_trainer_params()
    copied = stage_of(params, {"data.dataset": "mnist"})
    assert params.gen.train.data is params.scenario.data
    assert copied.gen.train.data is copied.scenario.data
    assert (params.scenario.data.dataset, copied.gen.train.data.dataset) == (Dataset.DIGITS, Dataset.MNIST)


class FilesParams(RootParams):
    flag_root: ClassVar[str] = "files"

    names: list[str] = []
    title: str = ""
    sizes: dict[str, str] = {}


def test_files_may_hold_blanks() -> None:
    texts = {"names": "{align.file}/1 b", "title": "in {align.file}", "files.sizes": "x={align.file}"}
    found = stage_of(FilesParams(), texts, align="/a 'b/c")
    assert found == FilesParams(["/a 'b/c/1", "b"], "in /a 'b/c", {"x": "/a 'b/c"})


CLIPS = ScheduleParams("optimizer.clip_global_norm", {0.0: 5.0, 2.0: 1.0})
WEIGHTS = ScheduleParams("loss_weights.mse", {0.0: 1.0, 2.0: 0.5})


@pytest.mark.parametrize(
    ("overrides", "left"),
    [
        ({"model.units": 3}, [CLIPS, WEIGHTS]),
        ({"optimizer.clip_global_norm": 3.0}, [WEIGHTS]),
        ({"trainer.loss_weights.mse": 3.0}, [CLIPS]),
        ({"loss_weights": "mse=3.0", "optimizer": "SGD"}, []),
    ],
)
def test_a_value_of_a_stage_goes_before_the_schedule_of_the_run(
    overrides: dict[str, Any], left: list[ScheduleParams]
) -> None:
    params, _ = changed(overrides, schedules=[CLIPS, WEIGHTS])
    assert params.schedules == left


def test_a_stage_has_a_value_or_a_schedule() -> None:
    both = {"schedules.0.points": "0=1 1=2", "optimizer.clip_global_norm": 3.0}
    message = "stage small, overrides: optimizer.clip_global_norm has a value and a schedule: leave out one of them"
    with pytest.raises(UsageError, match=message):
        changed(both, schedules=[CLIPS])
    params, _ = changed({"schedules.0.points": "0=1 1=2"}, schedules=[CLIPS])
    assert params.schedules == [ScheduleParams(CLIPS.target, {0.0: 1.0, 1.0: 2.0})]


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

    class Endless(scenarios.AllEpochsScenario):
        units = 5

        @classmethod
        def params_for_epoch(cls, epoch: int, params: Any, **kwargs: Any) -> Any:
            params.scenario.model.units = cls.units
            return params

    with pytest.raises(UsageError, match=r"params_for_epoch\(20, params\) of Endless has not returned None after 20"):
        pretrained(Endless)


def test_params_for_an_epoch_are_for_one() -> None:
    class Two(scenarios.AllEpochsScenario):
        @classmethod
        def params_for_epoch(cls, epoch: int, params: Any, **kwargs: Any) -> Any:
            return params, 2

    with pytest.raises(UsageError, match=r"of Two returned \(.*, expected TinyTrainerParams or None at the end"):
        pretrained(Two)


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
