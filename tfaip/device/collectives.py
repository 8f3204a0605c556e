"""Values that the processes of a training exchange, besides gradients.

Every process must make the same calls in the same order. With one process nothing is exchanged.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tfaip.backend import distributed
from tfaip.device.devices import Devices
from tfaip.errors import TfaipError, UsageError
from tfaip.util.text import shorten_text

_WORKING, _DONE = "working", "done"


@contextlib.contextmanager
def explain_lost_process(devices: Devices) -> Iterator[None]:
    """Context that explains the error of a process whose connection to another one broke."""
    try:
        yield
    except Exception as error:
        reason = distributed.lost_connection(error) if devices.num_processes > 1 else None
        if reason is None:
            raise
        raise TfaipError(
            f"process {devices.process_id} of {devices.num_processes} lost another one: see what that one printed "
            f"({reason})"
        ) from error


def broadcast(devices: Devices, value: Any) -> Any:
    """Return the JSON-able value that the chief has; what the other processes pass does not matter."""
    if devices.num_processes == 1:
        return value
    return json.loads(all_gather(devices, json.dumps(value if devices.is_chief else None).encode())[0])


def all_gather(devices: Devices, data: bytes) -> list[bytes]:
    """Return what every process has, in the order of the processes."""
    if devices.num_processes == 1:
        return [data]
    # Arrays of one shape are exchanged: first the sizes, then the bytes, filled up to the largest size.
    sizes = distributed.exchange(np.array([len(data)], np.int64)).reshape(-1)
    padded = np.zeros(max(int(sizes.max()), 1), np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    rows = distributed.exchange(padded)
    return [row[:size].tobytes() for row, size in zip(rows, sizes, strict=True)]


def all_gather_arrays(devices: Devices, arrays: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Return the arrays of every process, in the order of the processes."""
    if devices.num_processes == 1:
        return [arrays]
    from safetensors.numpy import load, save

    ours = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    return [load(data) for data in all_gather(devices, ours)]


def all_reduce_sum(devices: Devices, values: list[np.ndarray], initial: list[np.ndarray]) -> list[np.ndarray]:
    """Return accumulators that count what all processes have added to their own."""
    parts = all_gather_arrays(devices, {str(i): value for i, value in enumerate(values)})
    return [first + sum(part[str(i)] - first for part in parts) for i, first in enumerate(initial)]


def barrier(devices: Devices, name: str) -> None:
    """Return when every process has come here."""
    if devices.num_processes > 1:
        distributed.synchronize(name)


def check_equal(devices: Devices, values: dict[str, Any]) -> None:
    """Raise unless all processes were started with the same params."""
    ours = json.loads(json.dumps(values))
    chiefs = broadcast(devices, ours)
    differing = sorted(flag for flag in ours.keys() | chiefs.keys() if ours.get(flag) != chiefs.get(flag))
    for number, found in enumerate(all_gather(devices, json.dumps(differing).encode())):
        flags = json.loads(found)
        if flags:
            distributed.leave_together()
            raise UsageError(
                f"process {number} was started with other params than process 0: {', '.join(flags)}; start all "
                "processes with the same flags"
            )


def run_on_chief(devices: Devices, work: Callable[[], None]) -> None:
    """Let the chief do something that may take any time, while the other processes wait.

    An exchange ends with an error if a process comes much later: a thread exchanges meanwhile that the chief works.
    """
    if devices.num_processes == 1:
        work()
        return
    result = _DONE
    if not devices.is_chief:
        while (result := broadcast(devices, None)) == _WORKING:
            pass
        if result != _DONE:
            distributed.leave_together()
            raise TfaipError(f"process 0 has failed: {result}")
        return
    ended = threading.Event()

    def report() -> None:
        while not ended.wait(1.0):
            broadcast(devices, _WORKING)
        broadcast(devices, result)

    with ThreadPoolExecutor(1) as pool:
        reports = pool.submit(report)
        try:
            work()
        except BaseException as error:
            result = shorten_text(f"{type(error).__name__}: {error}", 200)
            distributed.leave_together()
            raise
        finally:
            ended.set()
    reports.result()
