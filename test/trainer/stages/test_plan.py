"""Stages of a run before it begins: order, epochs, overrides, hooks of a pretraining, and the table."""

from pathlib import Path
from typing import Any

import pytest

from test.support.tiny.scenario import TinyGenerator, TinyScenario, TinyTrainerParams
from test.trainer.stages.scenarios import (
    AlignedScenario,
    ConstructionScenario,
    EpochScenario,
    plan_of,
    pretrained,
    programmed,
    spans,
    tiny_params,
)
from test.trainer.stages.stagedruns import stage as own
from tfaip.errors import UsageError
from tfaip.model.weightrules import TransferMode
from tfaip.params import option
from tfaip.params.types import FunctionName
from tfaip.scenario.tutorial.full.data import Dataset
from tfaip.scenario.tutorial.full.scenario import TutorialScenario
from tfaip.trainer.history import EpochRecord, History
from tfaip.trainer.optimizer.optimizers import SGDOptimizer
from tfaip.trainer.scheduledvalues import ScheduleParams
from tfaip.trainer.stages import program
from tfaip.trainer.stages.params import CallStage, PredictData, PredictStage, PretrainingParams, StageParams, TrainStage
from tfaip.trainer.stages.program import StageResult, overridden, planned_stages, preview_stages
from tfaip.trainer.transferparams import TransferParams

EXACT = TransferParams(mode=TransferMode.EXACT)
CALL = CallStage(function=FunctionName("test.trainer.stages.scenarios:tiny_params"))


def refer(key: str) -> TrainStage:
    """A stage that refers to the file of another one."""
    return own(1, train__samples=5, no_train_scope="{" + key + ".file}")


def units(stage: Any) -> int:
    return int(stage.params.scenario.model.units)


def test_stages_are_numbered_through_and_have_copies_of_the_params() -> None:
    grow: dict[str, Any] = {"model.units": 3, "gen.val.samples": 7, "--val.seed": "5", "optimizer": "SGD"}
    grow |= {"loss_weights": {"mse": 1}, "learning_rate.rates": {"2": 0.25}, "lav_silent": "no", "calc_ema": 0}
    grow |= {"optimizer.clip_value": None}
    stages: dict[str, StageParams] = {
        "linear": TrainStage(epochs=1, rate_control=False, transfer=TransferParams(mode=TransferMode.NONE)),
        "f": CALL,
        "grow": TrainStage(epochs=2, no_train_scope="", overrides=grow),
        "align": PredictStage(data=PredictData.VAL, overrides={"val.samples": 4}),
        "other": TrainStage(epochs=1, no_train_scope="out"),
    }
    params = tiny_params(10, stages=stages, no_train_scope="hidden", transfer=EXACT)
    before = params.to_dict()
    plan = list(preview_stages(params, TinyScenario).stages)
    numbered = [("linear", 1, 1), ("f", 2, 1), ("grow", 2, 3), ("align", 4, 3), ("other", 4, 4), ("main", 5, 10)]
    assert spans(plan) == numbered
    assert [stage.settings.kind for stage in plan] == ["train", "call", "train", "predict", "train", "train"]
    assert [stage.number for stage in plan] == [0, 1, 2, 3, 4, 5]
    # What is applied has the params of the training before, with other data.
    assert [units(stage) for stage in plan] == [8, 8, 3, 3, 8, 8]
    assert [stage.params.no_train_scope for stage in plan] == ["hidden", "hidden", None, None, "out", "hidden"]
    assert [stage.settings.rate_control for stage in plan if stage.trains] == [False, True, True, True]
    modes = [stage.settings.transfer.mode.value for stage in plan if stage.trains]
    assert modes == ["none", "subset", "subset", "exact"]
    assert plan[3].params.gen.val == TinyGenerator(samples=4, seed=5)
    assert plan[3].settings.overrides == {"val.samples": "4"}
    grown = plan[2].params
    assert isinstance(grown.optimizer, SGDOptimizer)
    found = grown.stages, grown.epochs, grown.loss_weights, grown.learning_rate.rates
    assert found == ({}, 10, {"mse": 1.0}, {2: 0.25})
    assert (grown.lav_silent, grown.calc_ema, grown.optimizer.clip_value) == (False, 0.0, None)
    assert grown.scenario.model is not params.scenario.model
    assert params.to_dict() == before
    assert plan[-1].params is params
    # No stage means one.
    params.stages = {}
    (main,) = preview_stages(params, TinyScenario).stages
    assert (*spans([main])[0], main.settings.transfer) == ("main", 1, 10, EXACT)
    assert main.params is params


def test_later_stages_do_not_get_what_a_training_writes_into_its_params() -> None:
    plan = planned_stages(tiny_params(stages={"a": own(1), "f": CALL}), TinyScenario, History())
    next(plan).params.current_epoch = 1
    assert next(plan).params.current_epoch == 0  # as in a resumed run


def test_a_reference_is_the_file_of_a_stage_before(tmp_path: Path) -> None:
    file, run = str(tmp_path / "a b" / "stages" / "align" / "predictions.jsonl"), str(tmp_path / "a b")
    plan = plan_of(stages={"align": PredictStage(), "next": refer("align")}, output_dir=run)
    assert [stage.params.no_train_scope for stage in plan] == [None, file, None]
    assert [stage.reads_stages for stage in plan] == [False, True, False]
    assert plan[1].settings.overrides["trainer.no_train_scope"] == "{align.file}"
    # Also one of the plain params; other braces mean nothing.
    stages = {"first": own(1, no_train_scope="a{2}|b{3,}"), "align": PredictStage(), "same": own(1)}
    plan = plan_of(stages=stages, no_train_scope="{align.file}", output_dir=run)
    assert [stage.params.no_train_scope for stage in plan] == ["a{2}|b{3,}", "a{2}|b{3,}", file, file]
    assert plan_of(no_train_scope="{align.file}")[0].params.no_train_scope == "{align.file}"


def test_the_table_of_a_plan() -> None:
    overrides = {"model.units": 4, "optimizer": "SGD", "optimizer.momentum": 0.5, "loss_weights.mse": 2}
    stages: dict[str, StageParams] = {
        "small": TrainStage(epochs=2, rate_control=False, overrides=overrides),
        "align": PredictStage(data=PredictData.VAL),
        "next": own(1, no_train_scope="{align.file}"),
    }
    assert preview_stages(tiny_params(stages=stages), TinyScenario).table() == [
        "stage  epochs  what differs from the plain params",
        "small  1-2     rate held, model.units=4, optimizer=SGD, optimizer.momentum=0.5, trainer.loss_weights.mse=2",
        "align  -       apply the model to val, write predictions.jsonl",
        "next   3       trainer.no_train_scope={align.file}",
        "main   4-20",
    ]


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
        found.append((*spans([stage])[0], units(stage)))
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
        assert [stage.name for stage in plan_of(programmed(TrainStage("a", epochs=epochs)))] == names


class Listed(TinyScenario):
    """Has a program that is no generator."""

    @classmethod
    def stages(cls, params: Any, history: Any) -> Any:
        return [TrainStage("a", epochs=1)]


class Both(EpochScenario, ConstructionScenario):
    """Has both hooks."""


NAME = "expected a name of its own, without dots"
REFUSED: list[tuple[Any, str]] = [
    # Of programs
    (programmed("small"), "^the program yielded 'small', expected TrainStage, PredictStage or CallStage$"),
    (programmed(TrainStage("a", epochs=21)), "^epochs is 20, expected at least 21, the last epoch of stage a: chang"),
    (programmed(PredictStage("a"), PredictStage("A")), f"^name is 'A', {NAME}"),
    (programmed(TrainStage("a", {"model.unit": 3}, 1)), "^stage a, overrides: unknown flag --model.unit; did you mean"),
    (Listed, "^stages of Listed returned .*, expected a generator$"),
    # Of lists
    *(({name: own(1)}, f"{NAME}.*: change --stages$") for name in ("a.b", "..", "main", "x{}")),
    ({"a": TrainStage()}, "^epochs is None, expected the number of epochs .*: change --stages.a.epochs"),
    ({"a": own(20)}, "^epochs is 20, expected more than the 20 epochs of the stages"),
    ({"a": own(21)}, "^epochs is 20, expected more than 21, the last epoch of stage a: chang"),
    ({"align": PredictStage(), "n": refer("algn")}, "^stage n: --trainer.no_train.* '{algn.*; did you mean align"),
    # Overrides
    ({"a": own(1, val_every_n=2, trainer__val_every_n=3)}, "--trainer.val_every_n is given twice"),
    ({"a": own(1, trainer__epochs=3)}, "--trainer.epochs is one of the whole run: set it outside of the stag"),
    ({"a": own(1, device__gpus=0)}, "--device.gpus is one of the whole run"),
    ({"a": own(1, early_stopping__best_model_output_dir="x")}, "best_model_output_dir is one of the whole run"),
]  # fmt: skip


@pytest.mark.parametrize(("stages", "message"), REFUSED)
def test_stages_that_cannot_work(stages: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan_of(stages=stages) if isinstance(stages, dict) else plan_of(stages)


def test_a_file_of_a_stage_within_lists_of_a_field() -> None:
    class FileParams(TinyTrainerParams):
        """Has files by language."""

        files: dict[str, list[str]] = option({})

    params = FileParams(scenario=tiny_params(4).scenario, stages={"p": PredictStage()}, files={"de": ["{p.file}"]})
    with pytest.raises(UsageError, match="^--trainer.files names the file of a stage: expected text, .*got ..{p.file}"):
        preview_stages(params, TinyScenario)


def test_a_program_takes_no_list() -> None:
    with pytest.raises(UsageError, match="^Listed has a program of stages: leave out --stages, or set --pre"):
        plan_of(Listed, stages={"a": own(1)})
    plan = plan_of(Listed, stages={"a": own(1)}, pretraining=PretrainingParams(max_epochs=0))
    assert [stage.name for stage in plan] == ["a", "main"]


def test_shared_params_are_those_of_the_copy() -> None:
    params = TutorialScenario.default_trainer_params()
    copied = overridden(params, {"data.dataset": "mnist"}, "small", {})
    assert params.gen.train.data is params.scenario.data
    assert copied.gen.train.data is copied.scenario.data
    assert (params.scenario.data.dataset, copied.gen.train.data.dataset) == (Dataset.DIGITS, Dataset.MNIST)


CLIPS = ScheduleParams("optimizer.clip_global_norm", {0.0: 5.0, 2.0: 1.0})
WEIGHTS = ScheduleParams("loss_weights.mse", {0.0: 1.0, 2.0: 0.5})


@pytest.mark.parametrize(
    ("overrides", "left"),
    [
        ({"model.units": 3}, [CLIPS, WEIGHTS]),
        ({"optimizer.clip_global_norm": 3.0}, [WEIGHTS]),
        ({"loss_weights": "mse=3.0", "optimizer": "SGD"}, []),
    ],
)
def test_a_value_of_a_stage_goes_before_the_schedule_of_the_run(
    overrides: dict[str, Any], left: list[ScheduleParams]
) -> None:
    stages = {"small": TrainStage(epochs=1, overrides=overrides)}
    assert plan_of(stages=stages, schedules=[CLIPS, WEIGHTS])[0].params.schedules == left


def repeated(scenario: Any = ConstructionScenario, **pretraining: Any) -> Any:
    return plan_of(scenario, pretraining=PretrainingParams(**pretraining))


def test_five_indices_twice() -> None:
    plan = repeated(repetitions=2)
    expected = [(f"pretraining.{index}", 2 * index + 1, 2 * index + 2) for index in range(5)]
    assert spans(plan) == [*expected, ("main", 11, 20)]
    weights = [stage.params.loss_weights.get("mse") for stage in plan]
    assert weights == [0.0, 0.2, 0.4, 0.6, 0.8, None]
    assert plan[2].settings.overrides == {"trainer.loss_weights.mse": "0.4"}


@pytest.mark.parametrize(
    ("repetitions", "expected"),
    [(1, [1, 1, 1, 1, 1]), ([1, 2, 3], [1, 2, 3, 3, 3]), ({0: 2, 3: 4}, [2, 1, 1, 4, 1])],
)
def test_repetitions_per_index(repetitions: Any, expected: list[int]) -> None:
    plan = repeated(repetitions=repetitions)
    assert [stage.last_epoch - stage.first_epoch + 1 for stage in plan[:-1]] == expected
    assert plan[-1].first_epoch == sum(expected) + 1


def test_rate_control_and_transfer_of_all_stages() -> None:
    rest = ["loss_weights.aux", "weight_noise.stddev"]
    schedules = [ScheduleParams(target, {0: 1.0}) for target in ("loss_weights.mse", *rest)]
    held = PretrainingParams(rate_control=False)
    plan = plan_of(ConstructionScenario, pretraining=held, transfer=EXACT, schedules=schedules)
    assert [stage.settings.rate_control for stage in plan] == [False] * 5 + [True]
    assert {stage.settings.transfer.mode for stage in plan} == {TransferMode.EXACT}
    # A value of a hook goes before the schedule of the run.
    found = [[schedule.target for schedule in stage.params.schedules] for stage in plan]
    assert found == [*[rest] * 5, ["loss_weights.mse", *rest]]


def test_a_hook_may_say_the_repetitions() -> None:
    def hook(idx: int, params: Any) -> Any:
        params.scenario.model.units = idx + 1
        return None if idx == 3 else (params, 3) if idx == 1 else params

    plan = repeated(pretrained(hook), repetitions=2)
    assert [(stage.first_epoch, units(stage)) for stage in plan] == [(1, 1), (3, 2), (6, 3), (8, 8)]


def test_pretraining_comes_before_the_stages() -> None:
    plan = plan_of(ConstructionScenario, stages={"align": PredictStage(), "next": refer("align")})
    assert spans(plan)[4:] == [("pretraining.4", 5, 5), ("align", 6, 5), ("next", 6, 6), ("main", 7, 20)]
    # The model of the last stage of the pretraining is applied.
    assert plan[5].params.loss_weights == {"mse": 0.8}


def set_units(number: int, params: Any, value: Any = 5) -> Any:
    params.scenario.model.units = value
    return params


def two_units(epoch: int, params: Any) -> Any:
    """Is asked for all epochs, and leaves the later ones as they are."""
    return set_units(epoch, params, 2) if epoch < 3 else params


PER_EPOCH = "params_for_epoch"
ALL_EPOCHS = pretrained(two_units, PER_EPOCH)


def test_params_of_each_epoch() -> None:
    for scenario, expected in (
        (EpochScenario, [("epoch.1", 1, 2, 2), ("epoch.3", 3, 3, 4), ("main", 4, 20, 8)]),
        (ALL_EPOCHS, [("epoch.1", 1, 2, 2), ("main", 3, 20, 8)]),
    ):
        assert [(*spans([stage])[0], units(stage)) for stage in plan_of(scenario)] == expected
    # No epoch after those of the run is asked for.
    asked: list[int] = []
    plan_of(pretrained(lambda epoch, params: asked.append(epoch) or params, PER_EPOCH))
    assert asked == list(range(1, 21))


RETURNED = r"^pretraining\(0, params\) of Returning returned "


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        (lambda idx, params: params, r"^pretraining\(20, params\) of Returning has not returned None after 20"),
        (lambda idx, params: params.scenario, RETURNED + "TinyScenario.*, expected TinyTrainerParams, a"),
        (lambda idx, params: set_units(idx, params, "many"), r"Returning: --model.units: expected int, got 'many'"),
        (pretrained(set_units, PER_EPOCH), r"^params_for_epoch\(20, params\) of .* has not returned None after 20"),
        (Both, r"^Both has both hooks, pretraining and params_for_epoch: leave out one"),
    ],
)
def test_hooks_that_do_not_work(hook: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan_of(hook if isinstance(hook, type) else pretrained(hook))


def test_a_bound_on_the_epochs() -> None:
    assert [stage.name for stage in repeated(max_epochs=0)] == ["main"]
    with pytest.raises(UsageError, match=r"pretraining\(3, params\) .* has not returned None after 3 epochs"):
        repeated(max_epochs=3)


def test_a_trial_validates_if_the_run_does() -> None:
    # Without validation its data need not exist.
    stages: dict[str, StageParams] = {"a": own(1, trainer__val_every_n=0)}
    params = tiny_params(3, stages=stages, val_every_n=2)
    trial = preview_stages(params, TinyScenario).trial(params)
    assert [stage.params.val_every_n for stage in trial.stages] == [0, 1]
