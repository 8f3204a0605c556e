"""Which GPUs the backend may see, and how much of them it takes: said in environment variables, before its import."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tfaip.device.device_config import DeviceConfigParams
from tfaip.errors import UsageError

VISIBLE = "CUDA_VISIBLE_DEVICES"


def installed_gpus() -> int:
    """Number of NVIDIA GPUs of this machine."""
    return len([path for path in Path("/dev").glob("nvidia*") if path.name.removeprefix("nvidia").isdecimal()])


def visible_gpus(installed: int, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Names of the GPUs that `--device.gpus` counts: those of CUDA_VISIBLE_DEVICES, else all.

    Args:
        installed: GPUs of the machine.
        environ: may hold CUDA_VISIBLE_DEVICES.
    """
    if VISIBLE not in environ:
        return [str(i) for i in range(installed)]
    names = [name.strip() for name in environ[VISIBLE].split(",")]
    # CUDA takes the names up to the first that is not valid; -1 is the usual one to hide all.
    end = next((i for i, name in enumerate(names) if name in ("", "-1")), len(names))
    return names[:end] if installed else []


def gpu_environment(
    params: DeviceConfigParams, backend: str, installed: int, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Environment variables to set before the backend looks for its devices.

    Args:
        params: the devices asked for.
        backend: name of the Keras backend.
        installed: GPUs of the machine.
        environ: the environment so far.

    Raises:
        UsageError: a GPU is asked for that is not there.
    """
    visible = visible_gpus(installed, environ)
    if params.gpus is None and VISIBLE in environ:
        chosen = visible
    else:
        chosen = [_named(index, visible) for index in params.gpus or []]
    if not installed:
        return {}
    if not chosen:
        # JAX complains about a hidden GPU that its plugin was installed for, unless it is told not to look.
        return {VISIBLE: "-1"} if backend == "tensorflow" else {VISIBLE: "-1", "JAX_PLATFORMS": "cpu"}
    changes = {VISIBLE: ",".join(chosen)}
    return {**changes, **(_jax_options(params, environ) if backend == "jax" else _tensorflow_options(params))}


def _named(index: int, visible: list[str]) -> str:
    if index < len(visible):
        return visible[index]
    found = f"found GPUs {', '.join(map(str, range(len(visible))))}" if visible else "found no GPU"
    raise UsageError(f"GPU {index} is not there, {found}: change --device.gpus, or leave it out for the CPU")


def _tensorflow_options(params: DeviceConfigParams) -> dict[str, str]:
    return {} if params.gpu_auto_tune is None else {"TF_CUDNN_USE_AUTOTUNE": str(int(params.gpu_auto_tune))}


def _jax_options(params: DeviceConfigParams, environ: Mapping[str, str]) -> dict[str, str]:
    options = {}
    if params.gpu_memory is None:
        options["XLA_PYTHON_CLIENT_PREALLOCATE"] = environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    else:
        options["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{params.gpu_memory / _total_memory():.4f}"
    if params.gpu_auto_tune is not None:
        flag = f"--xla_gpu_autotune_level={4 if params.gpu_auto_tune else 0}"
        options["XLA_FLAGS"] = f"{environ.get('XLA_FLAGS', '')} {flag}".strip()
    return options


def _total_memory() -> int:
    """MiB of the smallest GPU; JAX takes a fraction, not a size."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        raise UsageError("--device.gpu_memory on jax needs nvidia-smi to tell the memory of the GPU, not found")
    query = [tool, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    answer = subprocess.run(query, check=True, capture_output=True, text=True).stdout  # noqa: S603
    return min(int(line) for line in answer.split())
