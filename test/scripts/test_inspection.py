"""What looks at a run before it starts: help, values with their origin, the dry run. Nothing is written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from test.support.commands import REPOSITORY, CommandResult
from test.support.runs import copy_tiny

Run = Callable[..., CommandResult]


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


@pytest.mark.parametrize(("closed", "name", "code"), [(">&-", "plants", 0), ("2>&-", "Plants", 2)])
def test_a_stream_that_was_closed_before(closed: str, name: str, code: int, tmp_path: Path) -> None:
    """As some programs start others."""
    ended = shell(f"tfaip.scripts.new {name} {closed}", tmp_path)
    assert (ended.returncode, ended.stdout if code else ended.stderr) == (code, b"")


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


@pytest.mark.parametrize(("streams", "code", "lines"), [("> /dev/full", 1, 1), ("2> /dev/full", 2, 0)])
def test_a_full_disk_has_an_exit_code_and_one_line(streams: str, code: int, lines: int, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "trainer_params.json").write_text("{}")
    ended = shell(f"tfaip.scripts.runs {'run' if lines else 'other'} {streams}", tmp_path)
    assert (ended.returncode, ended.stderr.count(b"\n")) == (code, lines)


def test_a_name_that_the_console_cannot_print(tmp_path: Path) -> None:
    (tmp_path / "rün").mkdir()
    (tmp_path / "rün" / "trainer_params.json").write_text("{}")
    ended = shell("tfaip.scripts.runs rün", tmp_path, PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b"r\\xfcn " in ended.stdout


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


def test_values_have_origins_and_are_a_config_file(tmp_path: Path, run: Run) -> None:
    copy_tiny(tmp_path)
    (tmp_path / "a.yaml").write_text("trainer:\n  epochs: 7\n  val_every_n: 3\noptimizer: SGD\n")
    (tmp_path / "b.json").write_text('{"trainer.epochs": 8, "optimizer": {"momentum": 0.5}}')
    flags = ["--config", "a.yaml", "b.json", "--trainer.val_every_n", "2", "--trainer.output_dir", "run"]
    first = run("train", "tiny", *flags, "--print_config")
    assert (first.rc, first.stderr) == (0, ""), first
    expected = {
        "trainer.epochs: 8  # b.json",
        "trainer.val_every_n: 2  # command line",
        "optimizer: SGD  # a.yaml",
        "optimizer.momentum: 0.5  # b.json",
        "trainer.samples_per_epoch: 44  # default",
        "trainer.output_dir: run  # command line",
    }
    assert expected - set(first.stdout.splitlines()) == set()
    (tmp_path / "all.yaml").write_text(first.stdout)
    second = run("train", "tiny", "--config", "all.yaml", "--print_config")
    assert yaml.safe_load(second.stdout) == yaml.safe_load(first.stdout)
    assert {line.split("  # ")[1] for line in second.stdout.splitlines()} == {"all.yaml"}
    assert not (tmp_path / "run").exists()


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
        ["5", "later", "known when the stage is reached"],
        ["6", "main", "0.4"],
        ["7", "main", "0.3"],
        ["8", "main", "0.2"],
        ["9", "main", "0.1"],
    ]
    # Two epochs of 4 batches, seven of 11.
    assert "Constant, PolynomialDecay: 9 epochs in 4 stages, 85 updates" in out
