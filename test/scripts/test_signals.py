"""Ctrl-C and SIGTERM: one line, a checkpoint, the exit code; the run then goes on as if nothing had happened."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest

from test.scripts.conftest import SEED
from test.support.commands import REPOSITORY, CommandResult, Run, environment, finish_command
from test.support.runs import (
    assert_same_run,
    checkpoints,
    fault,
    faulty,
    latest,
    printed_epochs,
    result_lines,
    run_well,
)
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.definitions import Sample
from tfaip.params import option
from tfaip.scenario.tutorial.full.data import TutorialData, TutorialGenerator
from tfaip.scripts.common.command import run_command

Start = Callable[..., "subprocess.Popen[str]"]
FLAGS = ["--trainer.checkpoint_save_freq", "3"]


def stopped_line(result: CommandResult) -> str:
    """The one line that says that a run was stopped."""
    assert result.stderr == "", result
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("SIG")]
    return line


@pytest.mark.slow
def test_stopped_three_times(whole: Path, workplace: Path, tmp_path: Path, run_command: Run) -> None:
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
def test_a_signal_from_outside(workplace: Path, tmp_path: Path, start: Start, run_command: Run) -> None:
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


# A moment: the name of an audit event, what its arguments match, and which of these events it is.
Kill = tuple[Any, ...]


def run_into(kill: Kill, *command: str | Path, run_command: Run, cwd: Path) -> CommandResult:
    """Run a command that does not survive the moment."""
    result = run_command(*command, cwd=cwd, env=faulty(fault("SIGKILL", *kill)))
    assert result.rc == -9, f"{kill} was never reached\n{result}"
    return result


def resume_through(kills: dict[str, tuple[Kill, str]], run: Path, run_command: Run, cwd: Path) -> None:
    """Resume and kill, moment after moment; after each one the newest checkpoint must match the pattern."""
    for moment, (kill, newest) in kills.items():
        run_into(kill, "resume_training", run, "--trainer.epochs", "4", run_command=run_command, cwd=cwd)
        assert re.fullmatch(newest, checkpoints(run)[-1]), f"{moment}: {checkpoints(run)}"


WRITING = {
    "while a checkpoint is written": (("open", r"epoch_0002_step_000006/state\.json"), "epoch_0002_step_000004"),
    "before the old best is removed": (("shutil.rmtree", "tmp-best"), "epoch_0002_step_000010"),
    "within the removal of an old checkpoint": (("os.remove", r"^state\.", 2), "epoch_0003"),
    # The history is written after the removal of old checkpoints.
    "before the history of the last epoch": (("os.rename", r"/epoch_0003_step_000006 .*/\.tmp-"), "epoch_0004"),
}


AFTER_WRITING = {
    "right behind a checkpoint within an epoch": (
        ("os.rename", r"/epoch_0002 .*/\.tmp-"),
        "epoch_0002_step_000006",
    ),
    "while the final export is written": (("open", r"tmp-export/weights"), "epoch_0004"),
}


@pytest.mark.guard
@pytest.mark.parametrize(
    "kills",
    [pytest.param(WRITING, id="writing"), pytest.param(AFTER_WRITING, id="after writing", marks=pytest.mark.backend)],
)
def test_killed_in_later_epochs(
    kills: dict[str, tuple[Kill, str]], half: Path, whole: Path, workplace: Path, run_command: Run
) -> None:
    resume_through(kills, half, run_command, workplace)
    result = run_well("resume_training", half, cwd=workplace)
    if kills is AFTER_WRITING:
        assert "training is finished: 4 of 4 epochs are done" in result.stdout.splitlines()
    assert latest(half) == "epoch_0004"
    assert_same_run(half, whole / "run")


EVERYTHING = [
    *("--trainer.val_every_n", "2", "--trainer.lav_every_n", "2", "--trainer.histogram_every_n", "1"),
    *("--trainer.train_accum_steps", "3", "--trainer.calc_ema", "-1", "--trainer.no_train_scope", "out"),
    *("--optimizer", "AdaBelief", "--optimizer.weight_decay", "0.01", "--optimizer.clip_value", "0.5"),
    *("--optimizer.clip_norm", "0.4", "--optimizer.clip_global_norm", "0.3"),
    *("--learning_rate", "WarmupCosineDecay", "--learning_rate.step_function", "False"),
    *("--learning_rate.warmup_epochs", "2", "--learning_rate.lr", "0.01"),
    *("--early_stopping.n_to_go", "9", "--early_stopping.frequency", "2"),
    *("--scenario.use_input_gradient_regularization", "True", "--trainer.checkpoint_save_freq", "2"),
]


@pytest.mark.guard
@pytest.mark.backend
def test_killed_with_every_option_on(workplace: Path, tmp_path: Path, run_command: Run) -> None:
    run, expected = tmp_path / "run", tmp_path / "expected"
    train = ["train", "tiny", *SEED, *EVERYTHING, "--trainer.output_dir"]
    run_well(*train, expected, cwd=workplace)
    # Two updates of three batches are saved within each epoch; the remainder of an epoch waits in the accumulators.
    in_training = ("tiny.sample", "training", 80)
    run_into(in_training, *train, run, run_command=run_command, cwd=workplace)
    assert re.fullmatch("epoch_0001(_step_0000(06|08))?", checkpoints(run)[-1]), checkpoints(run)
    # The validation and the LAV of epoch 2 take 20 samples, so this is in the LAV of epoch 4.
    in_lav = ("tiny.sample", "evaluation", 35)
    run_into(in_lav, "resume_training", run, run_command=run_command, cwd=workplace)
    assert re.fullmatch(r"epoch_0003(_step_0000\d\d)?", checkpoints(run)[-1]), checkpoints(run)
    resumed = run_well("resume_training", run, cwd=workplace)
    assert_same_run(run, expected)
    assert printed_epochs(resumed.stdout) == [4]
    assert result_lines(run) == result_lines(expected)
    assert "input_gradient_regularization" in result_lines(run)[-1][1]


class SignalImagesParams(DataGeneratorParams, cls=":SignalImages"):
    """Images, of which the 30th one comes with a signal."""

    number: int = option(signal.SIGTERM, "Signal to send")
    pid: int = option(0, "Process to send it to")


class SignalImages(DataGenerator[SignalImagesParams]):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._images = TutorialGenerator(data=TutorialData()).create(self.mode)

    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> Sample:
        if index == 30:
            os.kill(self.params.pid, self.params.number)
        return self._images[index]


@pytest.mark.parametrize(
    ("command", "number", "dump"),
    [
        ("multi_lav", signal.SIGTERM, "dump.npz"),
        ("predict", signal.SIGINT, "dump.jsonl"),
    ],
)
def test_a_dump_is_whole_or_not_there(
    command: str, number: signal.Signals, dump: str, tutorial: Path, run: Run
) -> None:
    models = ["--export_dir", tutorial / "best"]
    if command == "multi_lav":
        models = ["--export_dirs", tutorial / "best", tutorial / "export"]
    Path(dump).write_text("of an earlier run")
    handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    name = f"{SignalImagesParams.__module__}:{SignalImagesParams.__name__}"
    data = ["--data", name, "--data.number", int(number), "--data.pid", os.getpid()]
    result = run(command, *models, "--dump", dump, *data)
    assert (result.rc, result.stderr) == (128 + number, f"{number.name}: stopped\n")
    assert [(path.name, path.read_text()) for path in Path().iterdir()] == [(dump, "of an earlier run")]
    assert {one: signal.getsignal(one) for one in handlers} == handlers


def test_export(tutorial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """The signal comes when a file of the new format has been written."""
    copy = Path(shutil.copytree(tutorial / "best", tmp_path / "model"))
    before = sorted(copy.rglob("*"))
    save = keras.Model.save

    def save_and_signal(self: keras.Model, *args: Any, **kwargs: Any) -> None:
        save(self, *args, **kwargs)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(keras.Model, "save", save_and_signal)
    result = run("export", copy, "--format", "keras")
    assert (result.rc, result.stderr) == (143, "SIGTERM: stopped\n")
    assert sorted(copy.rglob("*")) == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_what_native_code_made_of_the_signal_is_still_its_end(capfd: pytest.CaptureFixture[str]) -> None:
    def work(_: Any) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt as error:
            raise ValueError("a callback failed") from error

    assert run_command(work, []) == 143
    assert capfd.readouterr().err == "SIGTERM: stopped\n"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_within_a_callback_of_the_garbage_collection_is_not_lost(name: str) -> None:
    """Python ignores what such a callback raises, and JAX has one."""
    code = f"""
import gc, signal, sys, time
from tfaip.scripts.common.command import run_command

def work(words):
    gc.callbacks.append(lambda phase, info: phase == "stop" and signal.raise_signal(signal.{name}))
    gc.collect()
    gc.callbacks.pop()
    time.sleep(60)

sys.exit(run_command(work, []))
"""
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=30, check=False)
    assert (result.returncode, result.stderr) == (128 + signal.Signals[name], f"{name}: stopped\n")
