"""Schedules from the command line, from YAML and JSON, in the preview and in TensorBoard."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from test.support.commands import run_several
from test.support.runs import copy_tiny
from tfaip.scripts import preview_schedule

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


@pytest.mark.slow
def test_flags_yaml_and_json_give_the_same_run(tmp_path: Path) -> None:
    copy_tiny(tmp_path)
    (tmp_path / "curriculum.yaml").write_text(YAML)
    flags = ["--schedules", "Schedule", "Schedule"]
    for index, (target, points, kind) in enumerate(
        [("optimizer.clip_global_norm", "0=1 2=0.25", "cosine"), ("train.batch_size", "0=4 1=8", "step")]
    ):
        flags += [f"--schedules.{index}.target", target, f"--schedules.{index}.points", *points.split()]
        flags += [f"--schedules.{index}.interpolation", kind]
    common = ["train", "tiny", "--trainer.epochs", "2", "--trainer.random_seed", "3", "--trainer.output_dir"]
    result = run_several(
        [
            [*common, "by_flags", *flags],
            [*common, "by_yaml", "--config", "curriculum.yaml"],
            ["train_from_params", "by_flags/trainer_params.json", "--trainer.output_dir", "by_json"],
            [
                *common,
                "refused",
                "--schedules",
                "Schedule",
                "--schedules.0.target",
                "lr",
                "--schedules.0.points",
                "0=1",
            ],
        ],
        cwd=tmp_path,
    )
    found = [json.loads((tmp_path / name / "history.json").read_text()) for name in ("by_flags", "by_yaml", "by_json")]
    values = [[history[epoch]["values"] for epoch in ("1", "2")] for history in found]
    assert values[0] == values[1] == values[2]
    assert [epoch["schedule/train.batch_size"] for epoch in values[0]] == [4, 8]
    assert 0.25 < values[0][1]["schedule/optimizer.clip_global_norm"] < 0.625 + 1e-6
    assert (result.rc, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith("error: --schedules.0.target 'lr' cannot be scheduled; what can: ")
    assert not (tmp_path / "refused").exists()
    assert "values that can be scheduled: " in result.stdout
    # TensorBoard has a scalar of this name.
    events = b"".join(path.read_bytes() for path in (tmp_path / "by_flags" / "train").glob("events*"))
    assert b"schedule/optimizer.clip_global_norm" in events
    assert b"schedule/train.batch_size" in events


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
    schedule = ["--schedules", "Schedule", "--schedules.0.points", "0=1", "--schedules.0.target"]
    assert preview_schedule.main([MIN, *schedule, "optimizer.clip"]) == 2
    assert "--schedules.0.target 'optimizer.clip' cannot be scheduled" in capsys.readouterr().err
