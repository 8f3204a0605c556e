"""What a run prints and writes, and what its scenario logs."""

import json
import re
from pathlib import Path

import pytest

from test.scripts.conftest import read_params, well
from test.support.commands import Run
from test.support.runs import (
    files_below,
    history,
    latest,
    result_lines,
    without_durations,
)

TINY = "test.support.tiny"
MODEL = ["manifest.json", "scenario_params.json", "training_data.json", "weights.safetensors"]
CHECKPOINT = ["manifest.json", "state.json", "state.safetensors", *(f"best/{name}" for name in MODEL)]
VALUES = ["loss", "loss/mean_epoch", "lr", "mae", "mse", "val_loss", "val_loss/mean_epoch", "val_mae", "val_mse"]


def test_files_of_a_run(whole: Path) -> None:
    run = whole / "run"
    names = [re.sub(r"tfevents\..*", "tfevents", name) for name in files_below(run)]
    assert sorted(names) == sorted(
        [
            *(f"checkpoint/{epoch}/{name}" for epoch in ("epoch_0003", "epoch_0004") for name in CHECKPOINT),
            *(f"{directory}/{name}" for directory in ("best", "export") for name in MODEL),
            *("history.json", "train.log", "trainer_params.json"),
            *("train/events.out.tfevents", "validation/events.out.tfevents"),
            "events.out.tfevents",  # the hyper-parameters
        ]
    )
    assert latest(run) == "epoch_0004"


def test_what_is_stored(whole: Path) -> None:
    params = read_params(whole / "run")
    assert (params["epochs"], params["random_seed"]) == (4, 7)
    assert params["scenario"]["scenario_id"] == "tiny.scenario:TinyScenario"
    manifest = json.loads((whole / "run" / "checkpoint" / "epoch_0004" / "manifest.json").read_text())
    assert {name: entry["size"] for name, entry in manifest["files"].items()} == {
        name: (whole / "run" / "checkpoint" / "epoch_0004" / name).stat().st_size
        for name in ("state.json", "state.safetensors")
    }
    assert [record["meta"]["updates"] for record in history(whole / "run").values()] == [11, 22, 33, 44]


SUMMARY = """\
layer    class    output  parameters  trained
hidden   Dense    8               40       40
dropout  Dropout                   0        0
out      Dense    1                9        9
49 parameters in 3 layers""".splitlines()


def test_lines_of_a_run(whole: Path) -> None:
    """One line per epoch in train.log, its values sorted by name and rounded; then where to look next."""
    stdout, run = without_durations((whole / "stdout").read_text()), whole / "run"
    records = history(run)
    lines = result_lines(run)
    assert [epoch for epoch, _ in lines] == [1, 2, 3, 4]
    for epoch, text in lines:
        shown = dict(value.split(": ") for value in text.split(" - "))
        record = records[str(epoch)]
        assert list(shown) == VALUES
        assert shown == {name: f"{v:.4f}" for name, v in sorted({**record["values"], "lr": record["lr"]}.items())}
    monitored = {int(epoch): record["values"]["val_loss/mean_epoch"] for epoch, record in records.items()}
    best = min(monitored, key=monitored.__getitem__)
    assert stdout.splitlines()[-4:] == [
        f"Best epoch   val_loss/mean_epoch {monitored[best]:.4f} in epoch {best}",
        f"Best model   {run / 'best'}",
        f"Final model  {run / 'export'}",
        f"TensorBoard  tensorboard --logdir {run}",
    ]
    log = without_durations((run / "train.log").read_text()).splitlines()
    stamp = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (INFO|WARNING) +tfaip\.[\w.]+: ")
    logged = [stamp.sub("", line) for line in log]
    # Only the summary and the lines of the epochs look different on the console.
    printed = stdout.splitlines()
    assert logged[1:7] == ["model:", *SUMMARY]
    assert printed[:2] == [logged[0], f"model: {SUMMARY[-1]}"]
    assert printed[-4:] == [line for line in logged[7:] if not line.startswith("Results of epoch ")]


@pytest.mark.slow
def test_checkpoints_and_exports_can_be_left_out(run: Run, tmp_path: Path) -> None:
    off = ["--trainer.write_checkpoints", "False", "--trainer.export_best", "False", "--trainer.export_final", "False"]
    flags = ["--trainer.output_dir", tmp_path / "run", "--trainer.epochs", "1", "--trainer.val_every_n", "0"]
    printed = well(run("train", TINY, *flags, *off))
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        *("events.out.tfevents.hparams", "history.json", "train", "train.log", "trainer_params.json")
    ]
    assert "no validation: the best model follows loss/mean_epoch of the training" in printed.splitlines()


def test_a_summary_without_a_training(run: Run, tmp_path: Path) -> None:
    printed = well(run("train", TINY, "--summary", "--trainer.no_train_scope", "hidden"))
    expected = [line.replace("40       40", "40        0") for line in SUMMARY]
    expected[-1] += ", 40 of them not trained"
    assert without_durations(printed).splitlines() == expected
    assert list(tmp_path.iterdir()) == []
