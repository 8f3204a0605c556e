"""`--dry_run` of a training and of a resume: two lines, an exit code as without it, and nothing written."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from test.scripts.conftest import well
from test.scripts.test_model_commands import Run, refused
from test.support.commands import CommandResult
from test.support.runs import files_below

FULL = "tfaip.scenario.tutorial.full"
DRY = ["--trainer.output_dir", "new", "--dry_run"]
# Command and arguments, then what the first line says, and what the second.
CASES: dict[str, tuple[list[str], str, str]] = {
    "resume_training": (
        ["resume_training", "RUN", "--trainer.epochs", "4"],
        "continue RUN (TutorialScenario) from epoch_0002 up to epoch 4",
        "checkpoints, models and values into RUN",
    ),
    "resume of a finished run": (
        ["resume_training", "RUN"],
        "train nothing: RUN has done 2 of 2 epochs",
        "checkpoints, models and values into RUN",
    ),
}


@pytest.fixture
def place(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory (after that of `run`)."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_two_lines_and_nothing_written(case: str, run: Run, tutorial: Path, place: Path) -> None:
    (command, *args), action, results = CASES[case]
    before = files_below(tutorial)
    out = well(run(command, *[arg.replace("RUN", str(tutorial)) for arg in args], "--dry_run"))
    assert out.replace(str(tutorial), "RUN").splitlines() == [
        f"dry run: would {action}",
        f"would write {results}; nothing was written",
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


def damaged(tutorial: Path, copy: Path) -> Path:
    shutil.copytree(tutorial, copy)
    for file in (*copy.glob("*/weights.safetensors"), *copy.glob("checkpoint/*/state.safetensors")):
        content = file.read_bytes()
        file.unlink()  # links of the same model
        file.write_bytes(content[:-4] + b"oops")
    return copy


@pytest.mark.parametrize(
    ("args", "fragments", "code"),
    [
        (["lav", "--export_dir", "BAD/best"], ["weights.safetensors"], 1),
        (["export", "BAD/best", "--format", "keras"], ["weights.safetensors"], 1),
        (["export", "BAD/best", "--check"], ["weights.safetensors"], 1),
        (["resume_training", "BAD", "--trainer.epochs", "3", "--dry_run"], ["checkpoints", "are damaged"], 2),
        (["lav", "--export_dir", "RUN", "--dump", "no/d.npz"], ["--dump no/d.npz", "no directory no"], 2),
        (["predict", "--export_dir", "RUN", "--dump_inputs"], ["--dump_inputs", "give --dump FILE"], 2),
        (
            ["multi_lav", "--export_dirs", "RUN", "--tensorboard", "/dev/null/events"],
            ["--tensorboard /dev/null/events cannot be written: /dev/null is no directory"],
            2,
        ),
        (
            ["train", FULL, *DRY, "--trainer.history_file", "RUN/best/weights.safetensors"],
            ["weights.safetensors", "is not a text file"],
            2,
        ),
        (["evaluate", "--prediction", "no.jsonl", "--scenario", "RUN"], ["no.jsonl cannot be read"], 2),
        (["preview_schedule", FULL, "--png", "no/p.png"], ["--png no/p.png", "no directory no"], 2),
        (["benchmark_input_pipeline", FULL, "--data.dataset", "x"], ["--data.dataset"], 2),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, list) else None,
)
def test_mistakes_are_found_before_anything_is_written(
    args: list[str], fragments: list[str], code: int, run: Run, tutorial: Path, tmp_path: Path
) -> None:
    bad = damaged(tutorial, tmp_path / "bad") if "BAD" in " ".join(args) else tmp_path
    command, *rest = [arg.replace("RUN", str(tutorial)).replace("BAD", str(bad)) for arg in args]
    result = run(command, *rest)
    lines = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    refused(CommandResult(result.rc, result.stdout, "\n".join(lines)), *fragments, code=code)
