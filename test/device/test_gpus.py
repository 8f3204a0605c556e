"""The environment variables that GPU params become, for machines that tests do not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from test.support.commands import finish_command, start_python
from tfaip.device import DeviceConfigParams, devices
from tfaip.device.devices import gpu_environment, visible_gpus
from tfaip.errors import UsageError
from tfaip.params.settings import flags_of
from tfaip.predict.params import LAVParams

GROWTH = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def test_gpus_are_counted_among_the_visible_ones(subtests: pytest.Subtests) -> None:
    for environ, visible in [
        ({}, ["0", "1", "2", "3"]),
        ({"CUDA_VISIBLE_DEVICES": "2, 3"}, ["2", "3"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
        ({"CUDA_VISIBLE_DEVICES": "1,-1,0"}, ["1"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-8f3a"}, ["GPU-8f3a"]),
    ]:
        with subtests.test(environ=environ):
            assert visible_gpus(4, environ) == visible


def test_jax(subtests: pytest.Subtests) -> None:
    for gpus, environ, expected in [
        ([1, 0], {}, {"CUDA_VISIBLE_DEVICES": "1,0", **GROWTH}),
        ([1], {"CUDA_VISIBLE_DEVICES": "2,3"}, {"CUDA_VISIBLE_DEVICES": "3", **GROWTH}),
        (None, {"CUDA_VISIBLE_DEVICES": "2,3"}, {"CUDA_VISIBLE_DEVICES": "2,3", **GROWTH}),
        (None, {}, {"CUDA_VISIBLE_DEVICES": "0", **GROWTH}),
        ([], {}, {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}),
        (None, {"CUDA_VISIBLE_DEVICES": ""}, {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}),
        ([], {"CUDA_VISIBLE_DEVICES": "2,3"}, {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}),
    ]:
        with subtests.test(gpus=gpus):
            assert gpu_environment(DeviceConfigParams(gpus=gpus), "jax", 4, environ) == expected


def test_tensorflow(subtests: pytest.Subtests) -> None:
    for gpus, environ, expected in [
        ([1], {}, {"CUDA_VISIBLE_DEVICES": "1"}),
        (None, {}, {"CUDA_VISIBLE_DEVICES": "0"}),
        ([], {}, {"CUDA_VISIBLE_DEVICES": "-1"}),
    ]:
        with subtests.test(gpus=gpus):
            assert gpu_environment(DeviceConfigParams(gpus=gpus), "tensorflow", 4, environ) == expected


def test_each_process_of_a_machine_takes_one(subtests: pytest.Subtests) -> None:
    # None: a launcher knows which one, and JAX asks it.
    for process_id, installed, expected in [(1, 4, "1"), (5, 4, "1"), (1, 1, "0"), (None, 2, "0,1")]:
        with subtests.test(process_id=process_id, installed=installed):
            environment = gpu_environment(DeviceConfigParams(), "jax", installed, {}, process_id)
            assert environment == {"CUDA_VISIBLE_DEVICES": expected, **GROWTH}


@pytest.mark.parametrize(
    ("fields", "count", "name", "line"),
    [
        (
            {},
            2,
            "gpu:0",
            "using gpu:0 of 2: --device.gpus 0 1 uses all, --device.gpus without a number the CPU; runs repeat",
        ),
        ({"deterministic": True}, 1, "gpu:0", "using gpu:0 of 1: --device.gpus without a number the CPU"),
        ({}, 1, "cpu:0", "the GPU is not used: the backend is installed without CUDA"),
        ({"gpus": [0]}, 2, "gpu:0", None),
        ({"gpus": []}, 2, "cpu:0", None),
        ({}, 0, "cpu:0", None),
    ],
)
def test_a_line_says_which_gpu_is_used_by_default(
    fields: dict[str, Any],
    count: int,
    name: str,
    line: str | None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(devices, "installed_gpus", lambda: count)
    monkeypatch.setattr("tfaip.device.devices._before", {"HOME": "/"})
    devices._check_gpus(DeviceConfigParams(**fields), (name,))
    assert [message.startswith(line or "") for message in caplog.messages] == [True] * (line is not None)


def test_a_machine_without_gpus_is_left_alone() -> None:
    assert gpu_environment(DeviceConfigParams(), "jax", 0, {"CUDA_VISIBLE_DEVICES": "0"}) == {}


def test_a_gpu_that_is_not_there(subtests: pytest.Subtests) -> None:
    for installed, environ, found in [
        (2, {}, "found GPUs 0, 1"),
        (0, {}, "found no GPU"),
        (0, {"CUDA_VISIBLE_DEVICES": "0,1,2,3,4"}, "found no GPU"),
        (4, {"CUDA_VISIBLE_DEVICES": "3"}, "found GPUs 0"),
    ]:
        with (
            subtests.test(installed=installed),
            pytest.raises(UsageError, match=f"GPU 4 is not there, {found}: change gpus"),
        ):
            gpu_environment(DeviceConfigParams(gpus=[4]), "tensorflow", installed, environ)


def test_the_flag_is_the_one_of_the_command() -> None:
    params = LAVParams(device=DeviceConfigParams(gpus=[4]))
    with pytest.raises(UsageError, match="change --device.gpus, or"), flags_of(params, "lav", "device"):
        gpu_environment(params.device, "tensorflow", 0, {})


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
    assert result.stdout.splitlines() == ["6,4 --xla_gpu_deterministic_ops=true", f"gpus 1 {other}", f"gpus {other}"], (
        result
    )


@pytest.mark.parametrize(
    ("backend", "environ", "expected"),
    [
        ("tensorflow", {}, {"TF_DETERMINISTIC_OPS": "1"}),
        ("jax", {}, {**GROWTH, "XLA_FLAGS": "--xla_gpu_deterministic_ops=true"}),
        (
            "jax",
            {"XLA_FLAGS": "--xla_dump_to=d"},
            {**GROWTH, "XLA_FLAGS": "--xla_dump_to=d --xla_gpu_deterministic_ops=true"},
        ),
    ],
)
def test_deterministic_kernels(backend: str, environ: dict[str, str], expected: dict[str, str]) -> None:
    params = DeviceConfigParams(gpus=[0], deterministic=True)
    assert gpu_environment(params, backend, 1, environ) == {"CUDA_VISIBLE_DEVICES": "0", **expected}


def test_memory_on_jax_is_a_share_of_the_smallest_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nprintf '16000\\n8000\\n'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    changes = gpu_environment(DeviceConfigParams(gpus=[0], gpu_memory=2000), "jax", 2, {})
    assert changes == {"CUDA_VISIBLE_DEVICES": "0", "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.2500"}


def test_memory_on_jax_needs_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="gpu_memory on jax needs nvidia-smi"):
        gpu_environment(DeviceConfigParams(gpus=[0], gpu_memory=2000), "jax", 2, {})


def test_a_set_preallocation_is_kept() -> None:
    environ = {"XLA_PYTHON_CLIENT_PREALLOCATE": "true"}
    assert gpu_environment(DeviceConfigParams(gpus=[0]), "jax", 1, environ) == {"CUDA_VISIBLE_DEVICES": "0", **environ}
