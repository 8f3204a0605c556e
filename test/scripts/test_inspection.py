"""What looks at a run before it starts: help, values with their origin, the dry run. Nothing is written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from test.support.commands import REPOSITORY, CommandResult, finish_command, start_python
from test.support.runs import copy_tiny, files_below, without_durations

RunCommand = Callable[..., CommandResult]
BACKENDS = ("keras", "tensorflow", "jax")


def imported(
    command: str, *arguments: str, cwd: Path, env: dict[str, str] | None = None, ends_with: int = 0
) -> list[str]:
    """Which of the heavy packages a command has imported when it ends with this exit code."""
    code = f"""
import sys
from tfaip.scripts.{command} import main
try:
    code = main({list(arguments)!r})
except SystemExit as end:
    code = end.code
print("END", code, *[name for name in {BACKENDS!r} if name in sys.modules])
"""
    result = finish_command(start_python("-c", code, cwd=cwd, env=env))
    end, exit_code, *found = result.stdout.splitlines()[-1].split()
    assert (end, exit_code, result.stderr != "") == ("END", str(ends_with), ends_with != 0), result
    return found


@pytest.mark.parametrize("command", ["train", "resume_training", "train_from_params"])
def test_help_of_a_command(command: str, tmp_path: Path) -> None:
    assert imported(command, "--help", cwd=tmp_path) == []


@pytest.mark.slow
def test_help_and_config_of_runs_import_no_backend(whole: Path, workplace: Path) -> None:
    run = str(whole / "run")
    assert imported("train", "tiny", "--help", cwd=workplace) == []
    assert imported("train", "tiny", "--trainer.output_dir", "x", "--print_config", cwd=workplace) == []
    assert imported("resume_training", run, "--help", cwd=workplace) == []
    assert imported("train_from_params", f"{run}/trainer_params.json", "--help", cwd=workplace) == []


@pytest.mark.slow
def test_jax_trains_and_resumes_without_tensorflow(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KERAS_BACKEND")
    jax = {"KERAS_BACKEND": "jax"}
    run = str(tmp_path / "run")
    flags = ["--trainer.output_dir", run, "--trainer.epochs", "1", "--scenario.export_serve", "False"]
    assert imported("train", "tiny", *flags, cwd=workplace, env=jax) == ["keras", "jax"]
    # Where no variable is set, the run's own backend continues it.
    assert imported("resume_training", run, "--trainer.epochs", "2", cwd=workplace) == ["keras", "jax"]


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


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_stream_that_was_closed_before(closed: str, workplace: Path, tmp_path: Path) -> None:
    """As some programs start others."""
    path = os.pathsep.join([str(REPOSITORY), str(workplace)])
    flags = f"--trainer.epochs 1 --trainer.output_dir {tmp_path / 'run'}"
    ended = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -m tfaip.scripts.train tiny {flags} {closed}', sys.executable],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert "Results of epoch 0001" in (tmp_path / "run" / "train.log").read_text()


def test_values_have_origins_and_are_a_config_file(tmp_path: Path, run_command: RunCommand) -> None:
    copy_tiny(tmp_path)
    (tmp_path / "a.yaml").write_text("trainer:\n  epochs: 7\n  val_every_n: 3\noptimizer: SGD\n")
    (tmp_path / "b.json").write_text('{"trainer.epochs": 8, "optimizer": {"momentum": 0.5}}')
    flags = ["--config", "a.yaml", "b.json", "--trainer.val_every_n", "2", "--trainer.output_dir", "run"]
    first = run_command("train", "tiny", *flags, "--print_config", cwd=tmp_path)
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
    second = run_command("train", "tiny", "--config", "all.yaml", "--print_config", cwd=tmp_path)
    assert yaml.safe_load(second.stdout) == yaml.safe_load(first.stdout)
    assert {line.split("  # ")[1] for line in second.stdout.splitlines()} == {"all.yaml"}
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    copy_tiny(tmp_path)
    (tmp_path / "temporary").mkdir()
    before = files_below(tmp_path)
    flags = ["--trainer.output_dir", "run", "--dry_run", "--scenario.export_serve", "True"]
    result = finish_command(
        start_python(
            *("-m", "tfaip.scripts.train", "tiny", *flags),
            cwd=tmp_path,
            env={"TMPDIR": str(tmp_path / "temporary")},
        )
    )
    assert (result.rc, result.stderr) == (0, ""), result
    assert files_below(tmp_path) == before
    assert list((tmp_path / "temporary").iterdir()) == []
    first, last = without_durations(result.stdout).splitlines()
    assert first.startswith("dry run: would train tiny.scenario:TinyScenario for 4 epochs into run, on keras/")
    assert last == "one batch went through training, validation, export and resume; nothing was kept"
    assert "Best model" not in result.stdout  # it is gone
