"""GPUs of this machine, and the environment variables that choose among them before a backend is imported."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

from tfaip.backend.environment import VISIBLE_GPUS, set_variables, variables_with_gpu, variables_without_gpu
from tfaip.device.device_config import DeviceConfigParams
from tfaip.params.limits import FieldAdvice


def installed_gpus() -> int:
    """Return the number of NVIDIA GPUs of this machine."""
    return len([path for path in Path("/dev").glob("nvidia*") if path.name.removeprefix("nvidia").isdecimal()])


def visible_gpus(installed: int, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the names of the GPUs that `DeviceConfigParams.gpus` counts: those of CUDA_VISIBLE_DEVICES, else all.

    Args:
        installed: GPUs of the machine.
        environ: may hold CUDA_VISIBLE_DEVICES.
    """
    if VISIBLE_GPUS not in environ:
        return [str(i) for i in range(installed)]
    if not installed:
        return []
    names = [name.strip() for name in environ[VISIBLE_GPUS].split(",")]
    # CUDA takes the names up to the first that is not valid; -1 is the usual one to hide all.
    return list(takewhile(lambda name: name not in ("", "-1"), names))


def gpu_environment(
    params: DeviceConfigParams,
    backend: str,
    installed: int,
    environ: Mapping[str, str] = os.environ,
    process_id: int | None = 0,
) -> dict[str, str]:
    """Return the environment variables to set before the backend searches its devices.

    Args:
        params: the devices asked for.
        backend: name of the Keras backend.
        installed: GPUs of the machine.
        environ: the environment so far.
        process_id: number of this process, which takes one GPU by default; None: JAX takes the one that belongs to
            the number that a launcher gave to the process on this machine.

    Raises:
        FieldAdvice: if a GPU is asked for that is not there.
    """
    visible = visible_gpus(installed, environ)
    if params.gpus is not None:
        chosen = [_named(index, visible) for index in params.gpus]
    elif VISIBLE_GPUS in environ or process_id is None or not visible:
        chosen = visible
    else:
        chosen = [visible[process_id % len(visible)]]
    if not installed:
        return {}
    if not chosen:
        return variables_without_gpu(backend)
    options = variables_with_gpu(backend, environ, params.deterministic, params.gpu_memory, _total_memory)
    return {VISIBLE_GPUS: ",".join(chosen), **options}


# The environment before GPUs were chosen: `--device.gpus` counts those of its CUDA_VISIBLE_DEVICES.
_before: dict[str, str] = {}


def choose_gpus(params: DeviceConfigParams, backend: str, installed: int, process_id: int | None = 0) -> None:
    """Set the variables of `gpu_environment`; safe to call again, then only the same GPUs can be asked for.

    Args:
        params: the devices asked for.
        backend: name of the Keras backend.
        installed: GPUs of the machine.
        process_id: as in `gpu_environment`.

    Raises:
        FieldAdvice: if a GPU is asked for that is not there, or that this process has not chosen before.
    """
    if _before and params.gpus is None:
        return
    changes = gpu_environment(params, backend, installed, _before or os.environ, process_id)
    used = os.environ.get(VISIBLE_GPUS)
    if _before and changes.get(VISIBLE_GPUS, used) != used:
        asked = " ".join(["{gpus}", *map(str, params.gpus or [])])
        raise FieldAdvice(
            f"{asked} asks for other GPUs than this process has chosen before ({VISIBLE_GPUS} is {used}): start "
            "another process",
            "gpus",
        )
    if not _before:
        _before.update(os.environ)
        set_variables(changes)


def is_default_choice(params: DeviceConfigParams) -> bool:
    """Return True if neither params nor CUDA_VISIBLE_DEVICES name the GPUs."""
    return params.gpus is None and VISIBLE_GPUS not in (_before or os.environ)


def _named(index: int, visible: list[str]) -> str:
    if index < len(visible):
        return visible[index]
    found = "found no GPU"
    if visible:
        found = f"found GPUs {', '.join(str(number) for number in range(len(visible)))}"
    raise FieldAdvice(f"GPU {index} is not there, {found}: change {{gpus}}, or leave it out for the CPU", "gpus")


def _total_memory() -> int:
    """Return the MiB of the smallest GPU."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        raise FieldAdvice("{gpu_memory} on jax needs nvidia-smi to tell the memory of the GPU, not found", "gpu_memory")
    query = [tool, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    answer = subprocess.run(query, check=True, capture_output=True, text=True).stdout  # noqa: S603
    return min(int(line) for line in answer.split())
