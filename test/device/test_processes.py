"""Processes that train together on JAX, over loopback: started by hand, by Open MPI, and one of them killed."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from test.device.support import (
    EVERYTHING,
    STAGES,
    Case,
    Result,
    assert_same_curve,
    finish_cases,
    free_port,
    start_cases,
    train_together,
)
from test.support.commands import REPOSITORY, CommandResult, finish_command, start_python
from test.support.runs import checkpoints, copy_tiny, fault, faulty, latest, printed_epochs
from tfaip.predict.samplefile import read_samples

ALL = {**EVERYTHING, "optimizer.gradient_noise.stddev": 0.01, "lav_every_n": 1, "lav_silent": True}
# Random layers, noise on weights and schedules.
RANDOM: Case = {
    "set": {
        "scenario.model": "RandomLayersParams",
        "weight_noise.stddev": 0.05,
        "schedules": {"optimizer.clip_value": {"0": 1.0, "2": 0.1}, "optimizer.weight_decay": {"0": 0.0, "2": 0.1}},
    }
}
FLAGS = ["--train.batch_size", "12", "--val.batch_size", "6", "--trainer.random_seed", "1"]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def alone_and_random(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    """One process with the whole batch: four epochs with everything, and a training with random layers."""
    case: Case = {"set": {**ALL, "epochs": 4}}
    return finish_cases(*start_cases(tmp_path_factory.mktemp("alone"), [case, RANDOM], "jax"))


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_processes_train_as_one(alone_and_random: list[Result], tmp_path: Path, processes: int) -> None:
    alone, random = alone_and_random
    run = {"output_dir": str(tmp_path / "run"), "write_checkpoints": True, "export_best": True, "export_final": True}
    half: Case = {"set": {"device.precision": "mixed_float16"}}
    results = train_together(tmp_path, [{"set": {**ALL, **run, "epochs": 2}}, half, RANDOM], processes)
    for result, in_half, at_random in results:
        assert result["weights"] == results[0][0]["weights"]
        assert result["epochs"] == results[0][0]["epochs"]
        assert_same_curve(result, {**alone, "epochs": alone["epochs"][:2]})
        assert in_half == results[0][1]
        assert_same_curve(at_random, random)
        losses = [epoch["val_loss"] for epoch in in_half["epochs"]]
        assert losses[1] < losses[0]
        assert "lav_l0_distance" in result["epochs"][0]
    # Written once, and whole: another number of processes goes on from there.
    assert {"best", "export", "lav_l0", "history.json", "train.log"} <= {p.name for p in (tmp_path / "run").iterdir()}
    stored = json.loads((tmp_path / "run" / "trainer_params.json").read_text())["device"]
    assert (stored["num_processes"], stored["process_id"], stored["coordinator"]) == (None, None, None)

    more: Case = {"set": {**ALL, **run, "epochs": 4}, "restore": True}
    (resumed,) = finish_cases(*start_cases(tmp_path, [more], "jax"))
    assert_same_curve(resumed, {**alone, "epochs": alone["epochs"][2:]})


@pytest.mark.slow
def test_processes_train_stages_as_one(tmp_path: Path) -> None:
    call = {"class": "CallStage", "fields": {"function": "test.device.train_cases:note"}}
    stages = {**STAGES, "apply": {"class": "PredictStage", "fields": {"include_inputs": True}}, "call": call}
    values = {"stages": stages, "epochs": 3, "write_checkpoints": True}

    def case(run: Path, restore: bool = False, **more: int) -> Case:
        return {"set": {**values, **more, "output_dir": str(run)}, "restore": restore}

    (expected,) = finish_cases(*start_cases(tmp_path, [case(tmp_path / "alone")], "jax"))
    together = tmp_path / "together"
    results = train_together(tmp_path, [case(together), case(together, restore=True, epochs=4)], 2)
    for result, resumed in results:
        assert_same_curve(result, expected)
        assert result == results[0][0]
        assert resumed == results[0][1]
        assert len(resumed["epochs"]) == 1
    for name in ("small", "slow", "apply", "call", "main"):
        assert (together / "stages" / name / "DONE").exists()
    # Once, by process 0, which may be told to stop before the others know.
    assert (together / "stages" / "call" / "note").read_text() == "0 False\n"
    ours, theirs = (
        list(read_samples(run / "stages" / "apply" / "predictions.jsonl")) for run in (together, tmp_path / "alone")
    )
    assert len(ours) == len(theirs) == 30
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.inputs["x"].tolist() == other.inputs["x"].tolist()
        assert mine.outputs["y"].tolist() == pytest.approx(other.outputs["y"].tolist(), rel=1e-5, abs=1e-6)


def started_together(
    start: Start, cwd: Path, *args: str | Path, envs: dict[int, dict[str, str]]
) -> list[CommandResult]:
    """Three times the same command, on JAX; `envs` adds variables to some of the processes."""
    address = f"127.0.0.1:{free_port()}"
    processes = []
    for number in range(3):
        cluster = ["--device.num_processes", "3", "--device.process_id", str(number), "--device.coordinator", address]
        env = {"KERAS_BACKEND": "jax", **envs.get(number, {})}
        processes.append(start(*args, *cluster, cwd=cwd, env=env))
    return processes


@pytest.mark.slow
def test_a_killed_process_ends_all_and_one_goes_on(tmp_path: Path, start: Start) -> None:
    workplace, run = copy_tiny(tmp_path), tmp_path / "run"
    # Of 48 samples in an epoch it has 16: it dies in the second one.
    kill = faulty(fault("SIGKILL", "tiny.sample", "training", 24))
    train = ["train", "tiny", "--trainer.output_dir", run, "--trainer.samples_per_epoch", "48", *FLAGS]
    processes = started_together(start, workplace, *train, envs={2: kill})
    killed = finish_command(processes[2])
    # They notice within seconds; a process that does not, never ends.
    results = [finish_command(process, timeout_s=120) for process in processes[:2]]
    assert killed.rc == -9, killed
    for number, result in enumerate(results):
        assert result.rc in (1, -6), result
        assert f"error: process {number} of 3 lost another one" in result.stderr or "another task died" in result.stderr
    assert checkpoints(run) == ["epoch_0001"]

    resume = start("resume_training", run, cwd=workplace, env={"KERAS_BACKEND": "jax"})
    resumed = finish_command(resume)
    assert resumed.rc == 0, resumed
    assert printed_epochs(resumed.stdout) == [2, 3, 4]
    assert latest(run) == "epoch_0004"


@pytest.mark.slow
def test_a_signal_to_one_process_stops_all_at_the_same_batch(tmp_path: Path, start: Start) -> None:
    workplace, run = copy_tiny(tmp_path), tmp_path / "run"
    train = ["train", "tiny", "--trainer.output_dir", run, "--trainer.samples_per_epoch", "48", *FLAGS]
    told = {1: faulty(fault("SIGTERM", "tiny.sample", "evaluation", 2))}
    results = [finish_command(process) for process in started_together(start, workplace, *train, envs=told)]
    assert [result.rc for result in results] == [143, 143, 143], results
    assert "SIGTERM: stopped after batch 4 of epoch 1, checkpoint written" in results[0].stdout  # in the validation
    assert checkpoints(run) == ["epoch_0000_step_000004"]


@pytest.mark.slow
def test_other_params_in_one_process_are_refused(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    started = []
    for number, rate in enumerate((0.01, 0.02)):
        cluster = {"num_processes": 2, "process_id": number, "coordinator": address}
        flags = {f"device.{name}": value for name, value in cluster.items()}
        case: Case = {"set": {"learning_rate.lr": rate, "epochs": 4, **flags}}
        started.append(start_cases(tmp_path, [case], "jax", name=str(number))[0])
    for process in started:
        result = finish_command(process)
        assert result.rc != 0
        assert "process 1 was started with other params than process 0: --learning_rate.lr" in result.stderr


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("mpirun") is None and "CI" not in os.environ, reason="mpirun is not installed (Debian: openmpi-bin)"
)
def test_open_mpi(tmp_path: Path) -> None:
    workplace, run = copy_tiny(tmp_path), tmp_path / "run"
    options = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2"]
    # On a terminal, which mpirun gives to all processes, the chief would show a bar.
    plain = ["--trainer.output_dir", str(run), "--trainer.progress_bar_mode", "plain"]
    command = [sys.executable, "-m", "tfaip.scripts.train", "tiny", *plain, *FLAGS]
    process = subprocess.Popen(
        [str(shutil.which("mpirun")), *options, *command, "--trainer.epochs", "2", "--trainer.lav_every_n", "1"],
        cwd=workplace,
        env={**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": str(REPOSITORY), "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    result = finish_command(process)
    assert result.rc == 0, result
    # The chief alone reports and writes.
    assert printed_epochs(result.stdout) == [1, 2]
    assert len(re.findall(r"on keras/jax, 2 devices \(cpu:0, cpu:\d+\) of 2 processes", result.stdout)) == 1
    assert "Gloo" not in result.stdout + result.stderr
    assert {"best", "export", "lav_l0", "checkpoint"} <= {path.name for path in run.iterdir()}


def test_a_gpu_that_is_not_there(run_command: Callable[..., CommandResult], tmp_path: Path) -> None:
    args = ["train", "tiny", "--trainer.output_dir", tmp_path / "run", "--device.gpus", "7"]
    result = run_command(*args, cwd=copy_tiny(tmp_path))
    assert result.rc == 2, result
    assert result.stderr.startswith("error: GPU 7 is not there, found ")
    assert not (tmp_path / "run").exists()


WORKING = """
import sys, time
from tfaip.backend.distributed import Cluster, join_cluster, leave_at_once
from tfaip.device.collectives import broadcast, run_on_chief
from tfaip.device.devices import Devices
from tfaip.errors import TfaipError
number, calls = int(sys.argv[1]), []
join_cluster(Cluster(2, number, sys.argv[2], "--device.coordinator"), "jax")
devices = Devices(num_processes=2, process_id=number)
broadcast(devices, 1)

def work():
    calls.append(number)
    time.sleep(5)  # more than an exchange waits for

def fail():
    raise TfaipError("the reason")

run_on_chief(devices, work)
print(broadcast(devices, "together"), calls, flush=True)
try:
    run_on_chief(devices, fail)
except TfaipError as error:
    time.sleep(number)  # the first process would be gone
    print(error, flush=True)
    leave_at_once(1)
"""


@pytest.mark.slow
def test_the_first_process_works_longer_than_an_exchange_waits() -> None:
    address, env = f"127.0.0.1:{free_port()}", {"KERAS_BACKEND": "jax"}
    env["XLA_FLAGS"] = "--xla_cpu_collective_timeout_seconds=3"
    started = [start_python("-c", WORKING, str(number), address, env=env) for number in (0, 1)]
    results = [finish_command(process) for process in started]
    # The library of the exchange prints lines of its own before.
    assert [result.rc for result in results] == [1, 1], results
    assert [result.stdout.splitlines()[-2:] for result in results] == [
        ["together [0]", "the reason"],
        ["together []", "process 0 has failed: TfaipError: the reason"],
    ], results
