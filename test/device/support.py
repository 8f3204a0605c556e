"""Starts `train_cases` in processes that train alone or together."""

import contextlib
import itertools
import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from test.support.commands import CommandResult, Process, finish_command, start_module

Case = dict[str, Any]
Result = dict[str, Any]
# Weights with another rate and an optimizer of their own.
GROUPS = [{"match": ".*/bias", "lr_factor": 0.5, "optimizer": "SGDOptimizer"}]

EVERYTHING = {
    "train_accum_steps": 2,
    "calc_ema": 0.9,
    "optimizer.clip_value": 0.2,
    "optimizer.clip_norm": 0.1,
    "optimizer.clip_global_norm": 0.05,
    "optimizer.weight_decay": 0.01,
    "optimizer.skip_nonfinite": 3,
    "optimizer.groups": GROUPS,
    "no_train_scope": "out",
    "learning_rate.step_function": False,
}
# A smaller network, and another optimizer.
STAGES = {
    "small": {"class": "TrainStage", "fields": {"epochs": 1, "overrides": {"model.units": "4", "optimizer": "SGD"}}},
    "slow": {"class": "TrainStage", "fields": {"epochs": 1, "overrides": {"learning_rate.lr": "0.001"}}},
}

# Below those that Linux gives to outgoing connections, so that no connection takes one before the coordinator does.
# Test processes begin at different ones, and none asks for the same one twice.
_PORTS = itertools.cycle(range(20_000 + os.getpid() % 1000 * 10, 32_000))


def free_port() -> int:
    """Return a port of this machine that is not in use."""
    while True:
        port = next(_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def start_cases(
    directory: Path, cases: Sequence[Case], backend: str, devices: int = 1, name: str = "cases"
) -> tuple[Process, Path]:
    """Start a process that trains the cases one after the other; returns it, and where its results will be."""
    (directory / f"{name}.json").write_text(json.dumps(cases))
    results = directory / f"{name}.results.json"
    env = {"KERAS_BACKEND": backend, "TEST_LOGICAL_DEVICES": str(devices)}
    return start_module("test.device.train_cases", directory / f"{name}.json", results, env=env), results


def finish_cases(process: Process, results: Path) -> list[Result]:
    """The results of a process that must end well."""
    ended: CommandResult = finish_command(process)
    assert ended.rc == 0, ended
    return list(json.loads(results.read_text()))


def train_together(directory: Path, cases: Sequence[Case], processes: int) -> list[list[Result]]:
    """The results of each process of a cluster on JAX, which trains the cases one after the other."""
    address = f"127.0.0.1:{free_port()}"
    started = []
    for number in range(processes):
        cluster = {"num_processes": processes, "process_id": number, "coordinator": address}
        flags = {f"device.{name}": value for name, value in cluster.items()}
        ranked = [{**case, "set": {**case["set"], **flags}} for case in cases]
        started.append(start_cases(directory, ranked, "jax", name=f"process_{number}"))
    return [finish_cases(process, results) for process, results in started]


def assert_same_curve(result: Result, expected: Result) -> None:
    """Every value of every epoch agrees to 1e-5: the same sums, added up in another order."""
    assert len(result["epochs"]) == len(expected["epochs"])
    for epoch, wanted in zip(result["epochs"], expected["epochs"], strict=True):
        assert epoch == pytest.approx(wanted, rel=1e-5, abs=1e-6)
