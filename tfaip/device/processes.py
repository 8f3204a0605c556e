"""What the processes of a training tell each other, besides gradients. JAX only; every process makes the same calls."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tfaip.device.devices import Devices
from tfaip.errors import TfaipError, UsageError


@contextlib.contextmanager
def lost_ones_named(devices: Devices) -> Iterator[None]:
    """Say what has happened when another process is gone.

    Raises:
        TfaipError: one of the others has ended.
    """
    try:
        yield
    except Exception as error:
        if devices.num_processes == 1 or "Gloo" not in str(error):
            raise
        raise TfaipError(
            f"process {devices.process_id} of {devices.num_processes} lost another one: see what that one printed "
            f"({_first_line(error)})"
        ) from error


def from_chief(devices: Devices, value: Any) -> Any:
    """The JSON-able value that the chief has; what the other processes pass does not matter."""
    if devices.num_processes == 1:
        return value
    return json.loads(gather(devices, json.dumps(value if devices.is_chief else None).encode())[0])


def gather(devices: Devices, data: bytes) -> list[bytes]:
    """What every process has, in the order of the processes."""
    if devices.num_processes == 1:
        return [data]
    from jax.experimental import multihost_utils

    sizes = np.asarray(multihost_utils.process_allgather(np.array([len(data)], np.int64))).reshape(-1)
    padded = np.zeros(max(int(sizes.max()), 1), np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    rows = np.asarray(multihost_utils.process_allgather(padded))
    return [row[:size].tobytes() for row, size in zip(rows, sizes, strict=True)]


def gather_arrays(devices: Devices, arrays: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """The arrays of every process, in the order of the processes."""
    if devices.num_processes == 1:
        return [arrays]
    from safetensors.numpy import load, save

    return [load(data) for data in gather(devices, save({n: np.asarray(a, order="C") for n, a in arrays.items()}))]


def sums(devices: Devices, values: list[np.ndarray], initial: list[np.ndarray]) -> list[np.ndarray]:
    """Accumulators that count what all processes have added to their own, beginning with the same initial values."""
    parts = gather_arrays(devices, {str(i): value for i, value in enumerate(values)})
    return [first + sum(part[str(i)] - first for part in parts) for i, first in enumerate(initial)]


def wait_for_all(devices: Devices, what: str) -> None:
    """Return when every process has come here.

    Args:
        devices: of the training.
        what: name of this point of the program.
    """
    if devices.num_processes > 1:
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices(what)


def check_equal(devices: Devices, values: dict[str, Any]) -> None:
    """Whether all processes were started with the same params.

    Args:
        devices: of the training.
        values: dotted path -> JSON-able value.

    Raises:
        UsageError: a process has other values; names the paths.
    """
    ours = json.loads(json.dumps(values))
    chiefs = from_chief(devices, ours)
    differing = sorted(path for path in ours.keys() | chiefs.keys() if ours.get(path) != chiefs.get(path))
    found = gather(devices, json.dumps(differing).encode())
    for number, paths in enumerate(map(json.loads, found)):
        if paths:
            raise UsageError(
                f"process {number} was started with other params than process 0: {', '.join(paths)}; start all "
                "processes with the same flags"
            )


def on_chief(devices: Devices, work: Callable[[], None]) -> None:
    """Let the chief do something that may fail; then it fails in all processes.

    Raises:
        UsageError: the one that `work` raised.
    """
    message = None
    if devices.is_chief:
        try:
            work()
        except UsageError as error:
            message = str(error)
    message = from_chief(devices, message)
    if message is not None:
        raise UsageError(message)


def _first_line(error: Exception) -> str:
    text = str(error)
    return text[text.index("Gloo") :].splitlines()[0]
