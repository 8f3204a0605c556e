"""Processes that compute together: joined, what they exchange, left. JAX only; TensorFlow refuses.

JAX is imported inside of the functions: `jax.distributed.initialize` must come before Keras, which may use a device.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfaip.errors import TfaipError, UsageError
from tfaip.util.text import shorten_text

if TYPE_CHECKING:  # commands that only print their help import this module
    import numpy as np

# The default of 100 s would let a training hang for as long after one of its processes has died.
HEARTBEAT_TIMEOUT_S = 10
# All processes wait for each other right before they leave, so that this only bounds the leaving itself.
SHUTDOWN_TIMEOUT_S = 30

# The library in which JAX exchanges arrays between processes without a GPU; its errors have no type and no code.
_EXCHANGE = "Gloo"
_left_together = threading.Event()


@dataclass(frozen=True)
class Cluster:
    """Processes that train together.

    Args:
        coordinator: `host:port` of process 0; None: the launcher knows.
        launcher: who started the processes.
    """

    num_processes: int
    process_id: int
    coordinator: str | None
    launcher: str


def join_cluster(cluster: Cluster, backend: str) -> None:
    """Connect with the other processes, before the backend uses its devices. Safe to call again."""
    if backend != "jax":
        # MultiWorkerMirroredStrategy does not work with `fit` of Keras 3.
        raise UsageError(
            f"{cluster.num_processes} processes (told by {cluster.launcher}) cannot train together on {backend}, whose "
            "strategy for several machines does not work with Keras 3: set KERAS_BACKEND=jax"
        )
    import jax

    if jax.distributed.is_initialized():
        return
    if cluster.process_id == 0 and cluster.coordinator is not None:
        _require_free_port(cluster.coordinator, cluster.launcher)
    try:
        jax.distributed.initialize(
            cluster.coordinator,
            cluster.num_processes,
            cluster.process_id,
            cluster_detection_method="deactivate" if cluster.coordinator is not None else None,
            heartbeat_timeout_seconds=HEARTBEAT_TIMEOUT_S,
            shutdown_timeout_seconds=SHUTDOWN_TIMEOUT_S,
        )
    except RuntimeError as error:  # also if JAX was used before
        raise TfaipError(
            f"process {cluster.process_id} of {cluster.num_processes} did not find the others at "
            f"{cluster.coordinator or cluster.launcher}: {str(error).strip().partition(chr(10))[0]}"
        ) from error


def _require_free_port(address: str, flag: str) -> None:
    """Raise unless this process can listen for the others: JAX ends with SIGSEGV where it cannot."""
    import socket  # takes milliseconds, which all commands would pay

    try:
        socket.create_server(("", int(address.rpartition(":")[2]))).close()
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise UsageError(
            f"process 0 cannot wait for the others at {shorten_text(address)} ({reason}): choose another port with "
            f"{flag}, the same for all processes"
        ) from error


def exchange(array: np.ndarray) -> np.ndarray:
    """Return the arrays of all processes, of equal shape and type, stacked in the order of the processes."""
    import numpy as np
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(array))


def synchronize(name: str) -> None:
    """Return when every process has come here."""
    from jax.experimental import multihost_utils

    multihost_utils.sync_global_devices(name)


def leave_together() -> None:
    """Let `leave_at_once` wait until every process has called it, since an error is raised in all of them.

    With the process that leads the others its connections are gone, and a library ends those that still have one,
    before they have printed the error.
    """
    _left_together.set()


def lost_connection(error: Exception) -> str | None:
    """Return what an error says of a connection to another process that broke; None: it is of another kind."""
    import jax

    text = str(error)
    # Collective operations raise a ValueError, compiled steps what JAX has for all errors of its runtime, such as
    # exhausted memory: only the text tells a broken connection from those.
    if _EXCHANGE not in text or not isinstance(error, (jax.errors.JaxRuntimeError, ValueError)):
        return None
    return text[text.index(_EXCHANGE) :].splitlines()[0]


def leave_at_once(exit_code: int) -> None:
    """End the process without waiting for the others, as a normal end would, if it has joined some.

    A process that failed would wait for processes that in turn wait for it, until the heartbeat timeout; this way they
    fail at once. Only those that know of each other that they fail do wait; see `leave_together`.
    """
    jax = sys.modules.get("jax")
    if jax is not None and jax.distributed.is_initialized():
        sys.stdout.flush()
        sys.stderr.flush()
        if _left_together.is_set():
            with contextlib.suppress(Exception):  # one of them may have been killed meanwhile
                jax.distributed.shutdown()
        os._exit(exit_code)
