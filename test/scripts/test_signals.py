"""Ctrl-C and SIGTERM: one line, a checkpoint, the exit code; the run then goes on as if nothing had happened."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from test.scripts.conftest import SEED
from test.support.commands import REPOSITORY, CommandResult, environment, finish_command
from test.support.runs import assert_same_run, checkpoints, fault, faulty, latest, printed_epochs, run_well

RunCommand = Callable[..., CommandResult]
Start = Callable[..., "subprocess.Popen[str]"]
FLAGS = ["--trainer.checkpoint_save_freq", "3"]


def stopped_line(result: CommandResult) -> str:
    """The one line that says that a run was stopped."""
    assert result.stderr == "", result
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("SIG")]
    return line


@pytest.mark.slow
def test_stopped_three_times(whole: Path, workplace: Path, tmp_path: Path, run_command: RunCommand) -> None:
    run = tmp_path / "run"
    how = f"checkpoint written; continue with 'tfaip-resume-training {run}'"
    # A signal that comes while a checkpoint is written, in the background, does not disturb it. The run is stopped
    # after the batches that are trained by then, with another checkpoint if there are more of them.
    within_epoch = faulty(fault("SIGINT", "os.rename", "epoch_0000_step_000006"))
    train = run_command("train", "tiny", "--trainer.output_dir", run, *SEED, *FLAGS, cwd=workplace, env=within_epoch)
    assert train.rc == 130, train
    stopped = re.fullmatch(f"SIGINT: stopped after batch (6|8|10) of epoch 1, {re.escape(how)}", stopped_line(train))
    assert stopped is not None, train
    assert latest(run) == f"epoch_0000_step_{int(stopped[1]):06d}"
    assert not (run / "export").exists()

    in_validation = faulty(fault("SIGTERM", "tiny.sample", "evaluation"))
    terminated = run_command("resume_training", run, cwd=workplace, env=in_validation)
    assert terminated.rc == 143, terminated
    assert stopped_line(terminated) == f"SIGTERM: stopped after batch 11 of epoch 1, {how}"
    assert (checkpoints(run)[-1], printed_epochs(terminated.stdout)) == ("epoch_0000_step_000011", [])

    at_the_end = faulty(fault("SIGINT", "os.rename", "/epoch_0004 "))
    last = run_command("resume_training", run, cwd=workplace, env=at_the_end)
    assert last.rc == 130, last
    assert stopped_line(last) == f"SIGINT: stopped after epoch 4, {how}"
    assert printed_epochs(last.stdout) == [1, 2, 3, 4]

    run_well("resume_training", run, cwd=workplace)
    assert_same_run(run, whole / "run")


@pytest.mark.slow
@pytest.mark.backend
def test_a_signal_from_outside(workplace: Path, tmp_path: Path, start: Start, run_command: RunCommand) -> None:
    run = tmp_path / "run"
    process = start("train", "tiny", "--trainer.output_dir", run, "--trainer.epochs", "10000", cwd=workplace)
    wait_for_line(process, "    2")
    # It holds still, so that its checkpoints do not change under the other one.
    process.send_signal(signal.SIGSTOP)
    second = run_command("resume_training", run, cwd=workplace)
    process.send_signal(signal.SIGCONT)
    assert second.rc == 2, second
    assert second.stderr == f"error: another process trains in {run}: choose another --trainer.output_dir\n"
    process.send_signal(signal.SIGTERM)
    result = finish_command(process)
    assert result.rc == 143, result
    assert "checkpoint written" in stopped_line(result)
    assert (run / "checkpoint" / latest(run) / "manifest.json").is_file()
    assert stopped_line(result) in (run / "train.log").read_text()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="pending signals are read from /proc")
@pytest.mark.parametrize(
    ("number", "mode", "count"), [(signal.SIGINT, "evaluation", 5), (signal.SIGTERM, "training", 25)]
)
def test_the_second_signal_ends_at_once(
    number: signal.Signals, mode: str, count: int, workplace: Path, whole: Path, tmp_path: Path, start: Start
) -> None:
    """Also where no border is ever reached: the data hangs, the main thread waits for it in compiled code."""
    run, hanging = tmp_path / "run", faulty(fault("HANG", "tiny.sample", mode, count))
    process = start("train", "tiny", "--trainer.output_dir", run, *SEED, cwd=workplace, env=hanging)
    wait_for_line(process, "HANGING")
    process.send_signal(number)
    status = Path(f"/proc/{process.pid}/status")
    while not re.search(r"^ShdPnd:\s+0+$", status.read_text(), re.MULTILINE):
        pass  # the system joins equal signals that it has not delivered yet
    process.send_signal(number)
    result = finish_command(process, timeout_s=30)
    assert (result.rc, result.stderr) == (128 + number, ""), result
    run_well("resume_training", run, cwd=workplace)
    assert_same_run(run, whole / "run")


def wait_for_line(process: subprocess.Popen[str], beginning: str) -> None:
    """Read what the command prints up to a line that begins so."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(beginning):
            return
    raise AssertionError(f"the command ended without a line {beginning!r}: {finish_command(process)}")


@pytest.mark.slow
def test_a_job_that_its_scheduler_stops_twice(whole: Path, workplace: Path, tmp_path: Path) -> None:
    """The batch script of the documents, with stand-ins for the commands of Slurm."""
    (script,) = re.findall(
        r"```bash\n(#!/bin/bash\n.*?)```", (REPOSITORY / "docs" / "devices.md").read_text(), re.DOTALL
    )
    assert script.count("my.scenario") == script.count("run=") == 1
    script = script.replace("run=", "trap '' USR1\nrun=")  # some scripts ignore the signal, and so would the training
    job, tools = tmp_path / "job.sh", tmp_path / "tools"
    job.write_text(script.replace("my.scenario", " ".join(["tiny", *SEED])))
    tools.mkdir()
    commands = {name: f'exec {sys.executable} -P -m tfaip.scripts.{name} "$@"' for name in ("train", "resume_training")}
    stand_ins = {"srun": 'exec "$@"', "scontrol": 'echo "$@" >> requeued'}
    for name, line in {
        **stand_ins,
        **{f"tfaip-{name.replace('_', '-')}": line for name, line in commands.items()},
    }.items():
        (tools / name).write_text(f"#!/bin/sh\n{line}\n")
        (tools / name).chmod(0o755)
    directory = tmp_path / "work"
    shutil.copytree(workplace / "tiny", directory / "tiny")
    run = directory / "runs" / "digits"

    def submit(*faults: list[object]) -> CommandResult:
        job_variables = {"SLURM_JOB_NAME": "digits", "SLURM_JOB_ID": "17", "PATH": f"{tools}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["/bin/bash", job],
            cwd=directory,
            env=environment(faulty(*faults) | job_variables),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)

    # Before its first checkpoint is written, so that it begins again, and then in the second epoch.
    early = submit(
        fault("SIGUSR1", "os.rename", r"/trainer_params\.json"), fault("SIGKILL", "os.rename", "epoch_0000_step_")
    )
    assert early.rc == 137, early
    assert not (directory / "requeued").exists()
    stopped = submit(fault("SIGUSR1", "tiny.sample", "training", 25))
    assert stopped.rc == 0, stopped
    assert f"{run.relative_to(directory)} was stopped before its first checkpoint: it begins again" in stopped.stdout
    assert stopped_line(stopped).startswith("SIGUSR1: stopped after ")
    assert (directory / "requeued").read_text() == "requeue 17\n"
    finished = submit()
    assert (finished.rc, finished.stderr) == (0, ""), finished
    assert (directory / "requeued").read_text() == "requeue 17\n"
    assert_same_run(run, whole / "run")
