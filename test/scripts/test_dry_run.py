"""`--dry_run` of a training and of a resume: two lines, an exit code as without it, and nothing written."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from test.scripts.conftest import well
from test.scripts.test_model_commands import Run, refused
from test.support.runs import files_below

FULL = "tfaip.scenario.tutorial.full"
# Flags of a resume, and what the first line says.
RESUMES = {
    "--trainer.epochs 4": "continue RUN (TutorialScenario) from epoch_0002 up to epoch 4",
    "": "train nothing: RUN has done 2 of 2 epochs",
}


@pytest.fixture
def place(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory (after that of `run`)."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("flags", RESUMES)
def test_two_lines_and_nothing_written(flags: str, run: Run, tutorial: Path, place: Path) -> None:
    before = files_below(tutorial)
    out = well(run("resume_training", tutorial, *flags.split(), "--dry_run"))
    assert out.replace(str(tutorial), "RUN").splitlines() == [
        f"dry run: would {RESUMES[flags]}",
        "would write checkpoints, models and values into RUN; nothing was written",
    ]
    assert files_below(tutorial) == before
    assert sorted(path.name for path in place.rglob("*")) == ["here"]


@pytest.mark.slow
def test_a_training(run: Run, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place / "temporary"))
    small = ["--model.graph", "MLP", "--trainer.epochs", "5", "--trainer.output_dir", "new", "--dry_run"]
    first, second = well(run("train", FULL, *small)).splitlines()
    assert first.startswith(f"dry run: would train {FULL}.scenario:TutorialScenario for 5 epochs into new, on keras/")
    assert second == "one batch went through training, validation, export and resume; nothing was kept"
    assert sorted(path.name for path in place.rglob("*")) == ["here", "temporary"]


def test_damage_is_found_before_anything_is_written(run: Run, tutorial: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(tutorial, bad)
    for file in (*bad.glob("*/weights.safetensors"), *bad.glob("checkpoint/*/state.safetensors")):
        content = file.read_bytes()
        file.unlink()  # links of the same model
        file.write_bytes(content[:-4] + b"oops")
    before = files_below(bad)
    for line in ("lav --export_dir BAD/best", "predict --export_dir BAD/best", "export BAD/best --format keras"):
        refused(run(*line.replace("BAD", str(bad)).split()), "weights.safetensors", code=1)
    result = run("resume_training", bad, "--trainer.epochs", "3", "--dry_run")
    assert (result.rc, "checkpoints" in result.stderr, "are damaged" in result.stderr) == (2, True, True), result
    assert files_below(bad) == before
