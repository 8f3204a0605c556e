"""The processes of one training: found from flags, Slurm or Open MPI, and joined."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from tfaip.device.device_config import DeviceConfigParams
from tfaip.errors import TfaipError, UsageError

# The default of 100 s would let a training hang for as long after one of its processes has died.
HEARTBEAT_TIMEOUT_S = 10
# All processes wait for each other right before they leave, so that this only bounds the leaving itself.
SHUTDOWN_TIMEOUT_S = 30


@dataclass(frozen=True)
class Cluster:
    """Processes that train together.

    Args:
        num_processes: how many.
        process_id: which one this is, from 0.
        coordinator: `host:port` of process 0; None: the launcher knows.
        launcher: who started the processes.
    """

    num_processes: int
    process_id: int
    coordinator: str | None
    launcher: str


def find_cluster(params: DeviceConfigParams, environ: Mapping[str, str] = os.environ) -> Cluster | None:
    """The cluster that this process belongs to; None: it trains alone.

    Args:
        params: name a cluster, or leave it to the launcher.
        environ: where launchers say what they have started.
    """
    if params.num_processes is not None and params.process_id is not None:
        return _of_several(params.num_processes, params.process_id, params.coordinator, "--device.coordinator")
    if "OMPI_COMM_WORLD_SIZE" in environ:
        size, rank = int(environ["OMPI_COMM_WORLD_SIZE"]), int(environ["OMPI_COMM_WORLD_RANK"])
        return _of_several(size, rank, None, "Open MPI")
    # The batch script of a job knows the number of its tasks too; only a step of srun runs them.
    if {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"} <= environ.keys():
        size, rank = int(environ["SLURM_STEP_NUM_TASKS"]), int(environ["SLURM_PROCID"])
        return _of_several(size, rank, None, "Slurm")
    return None


def _of_several(num_processes: int, process_id: int, coordinator: str | None, launcher: str) -> Cluster | None:
    return Cluster(num_processes, process_id, coordinator, launcher) if num_processes > 1 else None


def join_cluster(cluster: Cluster, backend: str) -> None:
    """Connect with the other processes, before the backend looks for its devices. Safe to call again.

    Args:
        cluster: the processes.
        backend: name of the Keras backend.

    Raises:
        UsageError: the backend cannot do it, or has been used already.
        TfaipError: the other processes were not found in time.
    """
    if backend != "jax":
        raise UsageError(
            f"{cluster.num_processes} processes (told by {cluster.launcher}) cannot train together on {backend}, whose "
            "strategy for several machines does not work with Keras 3: set KERAS_BACKEND=jax"
        )
    import jax

    if jax.distributed.is_initialized():
        return
    named = cluster.coordinator is not None
    try:
        jax.distributed.initialize(
            cluster.coordinator,
            cluster.num_processes,
            cluster.process_id,
            cluster_detection_method="deactivate" if named else None,
            heartbeat_timeout_seconds=HEARTBEAT_TIMEOUT_S,
            shutdown_timeout_seconds=SHUTDOWN_TIMEOUT_S,
        )
    except RuntimeError as error:
        if "before any JAX" in str(error):
            raise UsageError(
                "JAX has been used before this process joined the others: create the trainer and call train() first"
            ) from error
        raise TfaipError(
            f"process {cluster.process_id} of {cluster.num_processes} did not find the others at "
            f"{cluster.coordinator or cluster.launcher}: {_first_line(error)}"
        ) from error


def leave_at_once(exit_code: int) -> None:
    """End the process without waiting for the others, as a normal end would, if it has joined some.

    A process that failed would wait for processes that in turn wait for it; this way they fail at once.
    """
    jax = sys.modules.get("jax")
    if jax is not None and jax.distributed.is_initialized():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]
