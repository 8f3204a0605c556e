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
