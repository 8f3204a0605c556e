"""Environment variables that GPU params become, for machines that tests do not have, and who trains together."""

import os
from pathlib import Path
from typing import Any

import pytest

from test.support.commands import finish_command, start_python
from tfaip.backend.distributed import Cluster, join_cluster
from tfaip.device import DeviceConfigParams, devices
from tfaip.device.devices import find_cluster, gpu_environment, visible_gpus
from tfaip.errors import UsageError
from tfaip.params.settings import flags_of
from tfaip.predict.params import LAVParams

GROWTH = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


@pytest.mark.parametrize(
    ("environ", "visible"),
    [
        ({}, ["0", "1", "2", "3"]),
        ({"CUDA_VISIBLE_DEVICES": "2, 3"}, ["2", "3"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
        ({"CUDA_VISIBLE_DEVICES": "1,-1,0"}, ["1"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-8f3a"}, ["GPU-8f3a"]),
    ],
)
def test_gpus_are_counted_among_the_visible_ones(environ: dict[str, str], visible: list[str]) -> None:
    assert visible_gpus(4, environ) == visible


DETERMINISTIC = {"gpus": [0], "deterministic": True}
JAX_FLAG = "--xla_gpu_deterministic_ops=true"
KEPT = {"XLA_PYTHON_CLIENT_PREALLOCATE": "true"}


@pytest.mark.parametrize(
    ("fields", "backend", "environ", "visible", "more"),
    [
        ({"gpus": [1, 0]}, "jax", {}, "1,0", GROWTH),
        ({"gpus": [1]}, "jax", {"CUDA_VISIBLE_DEVICES": "2,3"}, "3", GROWTH),
        ({}, "jax", {"CUDA_VISIBLE_DEVICES": "2,3"}, "2,3", GROWTH),
        ({}, "jax", {"CUDA_VISIBLE_DEVICES": ""}, "-1", {"JAX_PLATFORMS": "cpu"}),
        ({"gpus": []}, "jax", {"CUDA_VISIBLE_DEVICES": "2,3"}, "-1", {"JAX_PLATFORMS": "cpu"}),
        ({"gpus": [0]}, "jax", KEPT, "0", KEPT),
        ({}, "tensorflow", {}, "0", {}),
        ({"gpus": []}, "tensorflow", {}, "-1", {}),
        (DETERMINISTIC, "tensorflow", {}, "0", {"TF_DETERMINISTIC_OPS": "1"}),
        (DETERMINISTIC, "jax", {"XLA_FLAGS": "--a=b"}, "0", {**GROWTH, "XLA_FLAGS": f"--a=b {JAX_FLAG}"}),
    ],
)
def test_environment(
    fields: dict[str, Any], backend: str, environ: dict[str, str], visible: str, more: dict[str, str]
) -> None:
    expected = {"CUDA_VISIBLE_DEVICES": visible, **more}
    assert gpu_environment(DeviceConfigParams(**fields), backend, 4, environ) == expected


# None: a launcher knows which one, and JAX asks it.
@pytest.mark.parametrize(("number", "installed", "visible"), [(1, 4, "1"), (5, 4, "1"), (1, 1, "0"), (None, 2, "0,1")])
def test_each_process_of_a_machine_takes_one(number: int | None, installed: int, visible: str) -> None:
    found = gpu_environment(DeviceConfigParams(), "jax", installed, {}, number)
    assert found == {"CUDA_VISIBLE_DEVICES": visible, **GROWTH}


@pytest.mark.parametrize(
    ("fields", "count", "name", "line"),
    [
        ({}, 2, "gpu:0", "using gpu:0 of 2, see --device.gpus and --device.deterministic"),
        ({}, 1, "cpu:0", "the GPU is not used: the backend is installed without CUDA"),
        ({"gpus": [0]}, 2, "gpu:0", None),
        ({"gpus": []}, 2, "cpu:0", None),
        ({}, 0, "cpu:0", None),
    ],
)
def test_a_line_says_which_gpu_is_used_by_default(fields, count, name, line, monkeypatch, caplog):
    caplog.set_level("INFO")
    monkeypatch.setattr(devices, "installed_gpus", lambda: count)
    monkeypatch.setattr("tfaip.device.devices._before", {"HOME": "/"})
    devices._check_gpus(DeviceConfigParams(**fields), (name,))
    assert [message.startswith(line or "") for message in caplog.messages] == [True] * (line is not None)


@pytest.mark.parametrize(
    ("installed", "environ", "found"),
    [
        (2, {}, "found 0, 1"),
        (0, {"CUDA_VISIBLE_DEVICES": "0,1,2,3,4"}, "found none"),
        (4, {"CUDA_VISIBLE_DEVICES": "3"}, "found 0"),
    ],
)
def test_a_gpu_that_is_not_there(installed: int, environ: dict[str, str], found: str) -> None:
    params = LAVParams(device=DeviceConfigParams(gpus=[4]))
    with pytest.raises(UsageError, match=f"GPU 4 is not there, {found}: change gpus"):
        gpu_environment(params.device, "tensorflow", installed, environ)
    with pytest.raises(UsageError, match="change --device.gpus, or"), flags_of(params, "lav", "device"):
        gpu_environment(params.device, "tensorflow", installed, environ)
    assert gpu_environment(DeviceConfigParams(), "jax", 0, {"CUDA_VISIBLE_DEVICES": "0"}) == {}


def test_gpus_are_counted_among_those_from_before_the_choice() -> None:
    code = """
import os
from tfaip.device import DeviceConfigParams
from tfaip.device.devices import choose_gpus
from tfaip.errors import UsageError
# A command chooses before it imports the backend, and its trainer once more.
for _ in range(2):
    choose_gpus(DeviceConfigParams(gpus=[2, 0], deterministic=True), "jax", 4)
choose_gpus(DeviceConfigParams(), "jax", 4)
print(os.environ["CUDA_VISIBLE_DEVICES"], os.environ["XLA_FLAGS"])
for gpus in ([1], []):
    try:
        choose_gpus(DeviceConfigParams(gpus=gpus), "jax", 4)
    except UsageError as error:
        print(error)
"""
    result = finish_command(start_python("-c", code, env={"CUDA_VISIBLE_DEVICES": "4,5,6", "XLA_FLAGS": ""}))
    other = (
        "asks for other GPUs than this process has chosen before (CUDA_VISIBLE_DEVICES is 6,4): start another process"
    )
    assert result.stdout.splitlines() == [f"6,4 {JAX_FLAG}", f"gpus 1 {other}", f"gpus {other}"], result


def test_memory_on_jax_is_a_share_of_the_smallest_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params, path = DeviceConfigParams(gpus=[0], gpu_memory=2000), os.environ["PATH"]
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nprintf '16000\\n8000\\n'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{path}")
    changes = gpu_environment(params, "jax", 2, {})
    assert changes == {"CUDA_VISIBLE_DEVICES": "0", "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.2500"}


OPEN_MPI = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3"}
SLURM_STEP = {"SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "5", "SLURM_NTASKS": "8"}


def test_launchers(subtests: pytest.Subtests) -> None:
    address = {"process_id": 0, "coordinator": "node1:4000"}
    for fields, environ, expected in [
        ({}, {}, None),
        ({}, OPEN_MPI, Cluster(4, 3, None, "Open MPI")),
        ({}, SLURM_STEP, Cluster(8, 5, None, "Slurm")),
        ({}, {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"}, None),
        # The batch script itself is no task of a step.
        ({}, {"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, None),
        # Flags come before launchers; one process is no cluster.
        ({"num_processes": 2, **address}, OPEN_MPI, Cluster(2, 0, "node1:4000", "--device.coordinator")),
        ({"num_processes": 1, **address}, OPEN_MPI, None),
    ]:
        with subtests.test(fields=fields, environ=environ):
            assert find_cluster(DeviceConfigParams(**fields), environ) == expected


def test_tensorflow_refuses_and_names_what_works() -> None:
    with pytest.raises(UsageError, match=r"4 processes \(told by Open MPI\) cannot train together on tensorflow.*jax"):
        join_cluster(Cluster(4, 3, None, "Open MPI"), "tensorflow")
