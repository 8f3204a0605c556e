"""Schedules from the command line, from YAML and JSON, and in the preview."""

from __future__ import annotations

from pathlib import Path

import pytest

from test.params.tiny_flags import tiny_params
from test.support.tiny.scenario import TinyTrainerParams
from tfaip.scripts import preview_schedule
from tfaip.trainer.scheduler.rules import Interpolation
from tfaip.trainer.schedules import ScheduleParams

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


def test_flags_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "curriculum.yaml").write_text(YAML)
    flags = ["--schedules", "Schedule", "Schedule"]
    for index, (target, points, kind) in enumerate(
        [("optimizer.clip_global_norm", "0=1 2=0.25", "cosine"), ("train.batch_size", "0=4 1=8", "step")]
    ):
        flags += [f"--schedules.{index}.target", target, f"--schedules.{index}.points", *points.split()]
        flags += [f"--schedules.{index}.interpolation", kind]
    params = tiny_params(*flags)
    assert params.schedules == [
        ScheduleParams("optimizer.clip_global_norm", {0: 1.0, 2: 0.25}, Interpolation.COSINE),
        ScheduleParams("train.batch_size", {0: 4.0, 1: 8.0}, Interpolation.STEP),
    ]
    assert tiny_params("--config", str(tmp_path / "curriculum.yaml")).schedules == params.schedules
    assert TinyTrainerParams.from_json(params.to_json()).schedules == params.schedules


def test_the_preview_shows_every_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "curriculum.yaml").write_text(YAML)
    png = tmp_path / "schedules.png"
    flags = ["--trainer.epochs", "3", "--trainer.samples_per_epoch", "64", "--train.batch_size", "16"]
    flags += ["--config", str(tmp_path / "curriculum.yaml"), "--png", str(png)]
    assert preview_schedule.main([MIN, *flags]) == 0
    out = capsys.readouterr().out
    _, clip, batch = (
        out.split("\noptimizer.clip_global_norm\n")[0],
        *out.split("\noptimizer.clip_global_norm\n")[1].split("\ntrain.batch_size\n"),
    )
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
