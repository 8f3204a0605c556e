"""Environment variables and modules that libraries look for at their import: nothing else changes these.

(`tfaip/util/importpath.py` changes `sys.path`.)
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping

VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"


def set_variables(changes: Mapping[str, str]) -> None:
    """Set environment variables of this process and of those that it starts."""
    os.environ.update(changes)


def set_default(name: str, value: str) -> str:
    """Set an environment variable unless it is set; return its value."""
    return os.environ.setdefault(name, value)


@contextlib.contextmanager
def default_variable(name: str, value: str) -> Iterator[None]:
    """Context in which an environment variable has a value, unless it is set already."""
    if name in os.environ:
        yield
        return
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


def variables_without_gpu(backend: str) -> dict[str, str]:
    """Return what hides all GPUs from a backend.

    Args:
        backend: name of the Keras backend.
    """
    hidden = {VISIBLE_GPUS: "-1"}
    if backend == "jax":
        # It complains about a hidden GPU that its plugin was installed for, unless it is told not to search.
        hidden["JAX_PLATFORMS"] = "cpu"
    return hidden


def variables_with_gpu(
    backend: str,
    environ: Mapping[str, str],
    deterministic: bool,
    memory: int | None,
    total_memory: Callable[[], int],
) -> dict[str, str]:
    """Return what tells a backend how to use the GPU.

    Args:
        backend: name of the Keras backend.
        environ: the environment so far, whose flags stay.
        deterministic: take only kernels that give the same bits in every run.
        memory: MiB to take of each GPU; None: as much as is needed.
        total_memory: returns the MiB of the GPU; called only if they are needed.
    """
    if backend == "tensorflow":
        # The memory is set by a function: `configure_devices`.
        return {"TF_DETERMINISTIC_OPS": "1"} if deterministic else {}
    options = {}
    if memory is None:
        options["XLA_PYTHON_CLIENT_PREALLOCATE"] = environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    else:
        # JAX takes a share, not a size.
        options["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{memory / total_memory():.4f}"
    if deterministic:
        options["XLA_FLAGS"] = f"{environ.get('XLA_FLAGS', '')} --xla_gpu_deterministic_ops=true".strip()
    return options


def has_reading_threads() -> bool:
    """Return True if threads of a library may still call Python code when the process ends.

    At the clean-up of the interpreter such a thread of tf.data waits for the interpreter, and TensorFlow waits for the
    thread.
    """
    return "tensorflow" in sys.modules
