"""What looks at a run before it starts, and streams that are closed or full. Nothing is written."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from test.scripts.conftest import well
from test.support.commands import REPOSITORY, Run
from test.support.runs import files_below


def test_a_reader_that_leaves_early(workplace: Path) -> None:
    """As in `tfaip-train tiny --help | head`."""
    reader, writer = os.pipe()
    os.close(reader)
    path = os.pathsep.join([str(REPOSITORY), str(workplace)])
    ended = subprocess.run(
        [sys.executable, "-m", "tfaip.scripts.train", "tiny", "--help"],
        env={**os.environ, "PYTHONPATH": path},
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (1, b"")


@pytest.mark.parametrize(
    ("command", "code", "printed", "errors"),
    [
        ("new plants >&-", 0, b"", 0),  # closed, as some programs start others
        ("new Plants 2>&-", 2, b"", 0),
        ("runs run > /dev/full", 1, b"", 1),
        ("runs other 2> /dev/full", 2, b"", 0),
        ("runs r\u00fcn", 0, b"r\\xfcn ", 0),  # which the console cannot print
    ],
)
def test_streams_that_cannot_take_everything(
    command: str, code: int, printed: bytes, errors: int, tmp_path: Path
) -> None:
    for name in ("run", "r\u00fcn"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "trainer_params.json").write_text("{}")
    ended = shell(f"tfaip.scripts.{command}", tmp_path, PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stderr.count(b"\n"), printed in ended.stdout) == (code, errors, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("streams", "printed"),
    [
        (">&- 2>&-", b""),
        ("<&- >&- 2>&-", b""),
        ("> /dev/full", b"warning: stdout cannot be written: No space left on device\n"),
    ],
)
def test_a_training_without_streams(streams: str, printed: bytes, workplace: Path, tmp_path: Path) -> None:
    flags = f"--trainer.epochs 1 --trainer.output_dir {tmp_path / 'run'}"
    ended = shell(f"tfaip.scripts.train tiny {flags} {streams}", workplace)
    assert (ended.returncode, ended.stderr) == (0, printed)
    assert "Results of epoch 0001" in (tmp_path / "run" / "train.log").read_text()


def shell(command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Start a module as a shell does."""
    path = os.pathsep.join([str(REPOSITORY), str(cwd)])
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -m {command}', sys.executable],
        # Buffered, as most users have it.
        env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "", **environment},
        cwd=cwd,
        capture_output=True,
        check=False,
    )


def test_preview_of_the_rates_of_all_stages(run: Run) -> None:
    flags = [
        *["--trainer.epochs", "9", "--learning_rate", "PolynomialDecay", "--learning_rate.lr", "0.9"],
        *["--stages", "warm=Train", "p=Predict", "held=Train", "later=Train"],
        *["--stages.warm.epochs", "2", "--stages.held.epochs", "2", "--stages.later.epochs", "1"],
        *["--stages.warm.overrides", "learning_rate=Constant", "learning_rate.lr=0.05", "train.batch_size=11"],
        *["--stages.held.rate_control", "False", "--stages.later.overrides", "no_train_scope={p.file}"],
    ]
    code, out, err = run("preview_schedule", "test.support.tiny", *flags)
    assert (code, err) == (0, "")
    table, rates = out.split("\n\n")[0].splitlines(), out.split("\n\n")[2].splitlines()
    assert [line.split()[:2] for line in table[1:]] == [
        ["warm", "1-2"],
        ["p", "-"],
        ["held", "3-4"],
        ["later", "5"],
        ["main", "6-9"],
    ]
    # A rule goes from 1 in epoch 1 to 0 after epoch 9, whatever the epochs before it were.
    assert [line.split(maxsplit=2) for line in rates] == [
        ["epoch", "stage", "rate"],
        ["1-2", "warm", "0.05"],
        ["3-4", "held", "0.9"],
        ["5", "later", "0.5"],
        ["6", "main", "0.4"],
        ["7", "main", "0.3"],
        ["8", "main", "0.2"],
        ["9", "main", "0.1"],
    ]
    # Two epochs of 4 batches, seven of 11.
    assert "Constant, PolynomialDecay: 9 epochs in 4 stages, 85 updates" in out


FULL = "tfaip.scenario.tutorial.full"


@pytest.fixture
def place(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory (after that of `run`)."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "work"),
    [
        ("--trainer.epochs 4", "continue RUN (TutorialScenario) from epoch_0002 up to epoch 4"),
        ("", "train nothing: RUN has done 2 of 2 epochs"),
    ],
)
def test_two_lines_and_nothing_written(flags: str, work: str, run: Run, tutorial: Path, place: Path) -> None:
    before = files_below(tutorial)
    out = well(run("resume_training", tutorial, *flags.split(), "--dry_run"))
    assert out.replace(str(tutorial), "RUN").splitlines() == [
        f"dry run: would {work}",
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
    # TensorFlow keeps files of its own there, of functions that it converts for the first time in the process.
    names = sorted(path.name for path in place.rglob("*"))
    assert [name for name in names if not name.startswith("__autograph_generated")] == ["here", "temporary"]
