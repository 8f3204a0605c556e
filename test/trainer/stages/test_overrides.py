"""Overrides of a stage: any param of the run by its flag or path, as text or as a plain value."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from test.support.tiny.scenario import TinyTrainerParams
from test.trainer.stages.scenarios import tiny_params
from tfaip.errors import UsageError
from tfaip.params.settings import RootParams
from tfaip.params.tree import diff
from tfaip.params.types import value_text
from tfaip.scenario.tutorial.full.datasets import Dataset
from tfaip.scenario.tutorial.full.scenario import TutorialScenario
from tfaip.trainer.optimizer.optimizers import SGDOptimizer
from tfaip.trainer.schedules import ScheduleParams
from tfaip.trainer.stages.params import TrainStage
from tfaip.trainer.stages.program import flags_of_overrides, overridden


def changed(overrides: dict[str, Any], **values: Any) -> tuple[TinyTrainerParams, dict[str, Any]]:
    """Return the params of a stage, and what differs from those of the run by path."""
    params = tiny_params(**values)
    texts = TrainStage(overrides=overrides).overrides
    found = stage_of(params, {name: value_text(value) for name, value in texts.items()})
    return found, {change.path: change.new for change in diff(params, found)}


def stage_of(params: Any, texts: dict[str, str], files: dict[str, str] | None = None) -> Any:
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
    found = stage_of(FilesParams(), texts, {"align": "/a 'b/c"})
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
