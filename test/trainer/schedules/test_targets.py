"""What a schedule may change: targets and values that are refused, and what is logged of those that are not."""

import logging
from pathlib import Path
from typing import Any

import pytest

from test.events.test_writer import points
from test.trainer.line import train
from test.trainer.schedules.support import LiveScenario, live_params, step
from tfaip.errors import UsageError
from tfaip.scripts import preview_schedule
from tfaip.trainer.optimizer import OptimizerGroupParams, SGDOptimizer
from tfaip.trainer.scheduledvalues import ScheduleParams, schedules_of, schedules_without
from tfaip.trainer.scheduler.rules import Interpolation


def test_values_are_logged_with_those_of_the_epoch(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.INFO)
    schedule = ScheduleParams("loss_weights.loss", {0: 1.0, 2: 0.0})
    trainer = train(live_params([1.0, 1.0], schedule, output_dir=tmp_path / "run"), scenario=LiveScenario)
    # The value of the last of two updates.
    values = [trainer.history.value(epoch, "schedule/loss_weights.loss") for epoch in (1, 2)]
    assert values == [0.75, 0.25]
    assert dict(points(tmp_path / "run" / "train", "schedule/loss_weights.loss")) == {1: 0.75, 2: 0.25}
    assert any(line.endswith(" - schedule/loss_weights.loss: 0.2500") for line in caplog.messages)


GROUPED = SGDOptimizer(groups=[OptimizerGroupParams("line/kernel", optimizer=SGDOptimizer())])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("optimizer.epsilon", ": optimizer (SGDOptimizer) has no 'epsilon'; expected one"),
        ("graph.drop.rate", " (rate is that of a Keras dropout made with one above 0); what can: graph.sharpness"),
    ],
)
def test_a_target_that_cannot_be_is_refused_with_those_that_can(target: str, message: str, tmp_path: Path) -> None:
    params = live_params([1.0], step(target, 0.5), output_dir=tmp_path / "run", optimizer=GROUPED)
    params.scenario.model.dropout = "Dropout"
    with pytest.raises(UsageError) as caught:
        train(params, scenario=LiveScenario)
    assert str(caught.value).startswith(f"--schedules.0.target {target!r} cannot be scheduled{message}")
    if "what can: graph.sharpness" in message:
        assert "model.offset, optimizer.clip_global_norm, optimizer.clip_norm" in str(caught.value)
        assert "optimizer.groups.0.lr_factor, optimizer.groups.0.optimizer.momentum" in str(caught.value)
    assert not (tmp_path / "run").exists()


HALF = {0.5: 0.25}


@pytest.mark.parametrize(
    ("target", "points", "message"),
    [
        ("optimizer.clip_value", {0: 0.0}, r"points\[0.0\] is 0.0, expected a number above 0"),
        ("loss_weights.loss", {0: -1.0}, r"points\[0.0\] is -1.0, expected .*at least 0"),
        ("graph.drop.rate", {0: 1.5}, r"points\[0.0\] is 1.5, expected a number in \[0, 1\)"),
        ("graph.drop.rate", HALF, "expected whole epochs, since graph.drop.rate is set at the beginning of an epoch"),
    ],
)
def test_a_value_that_the_target_cannot_have_is_refused(target: str, points: dict[float, float], message: str) -> None:
    params = live_params([1.0], ScheduleParams(target, points), model={"dropout": "Dropout", "rate": 0.5})
    with pytest.raises(UsageError, match=f"({message}).*: change --schedules.0.points"):
        train(params, scenario=LiveScenario)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"points": {}}, "points is {}, expected values by number of completed epochs, finite and at least 0"),
        ({"points": {0: 0.0}, "interpolation": Interpolation.EXPONENTIAL}, "values above 0 for exponential"),
    ],
)
def test_points_that_cannot_be(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ScheduleParams("weight_noise.stddev", **fields)


def test_values_that_are_given_take_the_place_of_schedules() -> None:
    clip, noise, sharpness = "optimizer.clip_value", "weight_noise.stddev", "model.offset"
    params = live_params([1.0], step(clip, 1.0), step(noise, 0.5), step(sharpness, 2.0))
    twice = live_params([1.0], step("loss_weights.loss", 0.5), step("trainer.loss_weights.loss", 0.5))
    with pytest.raises(UsageError, match="target is 'trainer.loss_weights.loss', expected a target that no other"):
        schedules_of(twice)
    for given, remaining in (
        (["trainer.weight_noise.stddev"], [clip, sharpness]),
        (["optimizer", "scenario.model"], [noise]),
        ([], [clip, noise, sharpness]),
    ):
        assert [schedule.target for schedule in schedules_without(params, given)] == remaining


MIN = "tfaip.scenario.tutorial.min"
YAML = """
schedules:
  - target: optimizer.clip_global_norm
    points: {0: 1, 2: 0.25}
    interpolation: cosine
  - target: train.batch_size
    points: {0: 4, 1: 8}
    interpolation: step
"""


def test_the_preview_shows_every_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "curriculum.yaml").write_text(YAML)
    png = tmp_path / "schedules.png"
    flags = ["--trainer.epochs", "3", "--trainer.samples_per_epoch", "64", "--train.batch_size", "16"]
    flags += ["--config", str(tmp_path / "curriculum.yaml"), "--png", str(png)]
    assert preview_schedule.main([MIN, *flags]) == 0
    out = capsys.readouterr().out
    clip, batch = out.split("\noptimizer.clip_global_norm\n")[1].split("\ntrain.batch_size\n")
    # Four updates an epoch; the cosine falls from 1 to 0.25 within two epochs.
    assert [line.split() for line in clip.splitlines()[1:5]] == [
        ["epoch", "value"],
        ["1", "1", "->", "0.768506"],
        ["2", "0.625", "->", "0.278545"],
        ["3", "0.25"],
    ]
    assert [line.split() for line in batch.splitlines()[1:4]] == [["epoch", "value"], ["1", "4"], ["2-3", "8"]]
    picture = png.read_bytes()
    assert picture.startswith(b"\x89PNG")
    # Three panels of 2.7 inches and a label: the rate and both values.
    assert int.from_bytes(picture[20:24]) == 850
