"""Real trainings whose samples are processed in worker processes."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from test.scripts.conftest import SEED
from test.support.commands import CommandResult
from test.support.runs import assert_same_run, fault, faulty, run_well

WORKERS = ["--train.num_processes", "2", "--train.prefetch", "3", "--val.num_processes", "1"]


@pytest.mark.slow
@pytest.mark.backend
def test_a_training_with_workers_is_the_same_run_even_if_it_is_stopped(
    whole: Path, workplace: Path, tmp_path: Path, run_command: Callable[..., CommandResult]
) -> None:
    run = tmp_path / "run"
    stopped = faulty(fault("SIGINT", "os.rename", "epoch_0000_step_000006"))
    flags = ["--trainer.output_dir", run, *SEED, *WORKERS, "--trainer.checkpoint_save_freq", "3"]
    train = run_command("train", "tiny", *flags, cwd=workplace, env=stopped)
    assert (train.rc, train.stderr) == (128 + signal.SIGINT, ""), train
    run_well("resume_training", run, cwd=workplace)
    # What the workers made cannot be told from what the training process made itself.
    assert_same_run(run, whole / "run")


@pytest.mark.slow
def test_an_error_in_a_worker_is_one_line_and_its_traceback(
    workplace: Path, tmp_path: Path, run_command: Callable[..., CommandResult]
) -> None:
    flags = ["--trainer.output_dir", tmp_path / "run", *WORKERS, "--data.pre_proc.processors.0.amount", "-1"]
    result = run_command("train", "tiny", *flags, cwd=workplace)
    assert (result.rc, len(result.stderr.splitlines())) == (1, 2), result
    line, place = result.stderr.splitlines()
    assert line.startswith("error: ValueError: scale < 0; in Jitter.apply, sample ")
    assert "; in data worker " in line
    assert re.match(r"  in \S*scenario\.py:\d+ in apply ", place), place
    code = "self.rng.normal(scale=self.amount"
    assert code in (tmp_path / "run" / "train.log").read_text()
    assert code not in result.stdout
