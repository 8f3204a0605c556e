"""The processes of one training, found from flags, Slurm or Open MPI."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tfaip.backend.distributed import Cluster
from tfaip.device.device_config import DeviceConfigParams


def find_cluster(params: DeviceConfigParams, environ: Mapping[str, str] = os.environ) -> Cluster | None:
    """Return the cluster that this process belongs to; None: it trains alone.

    Args:
        params: name a cluster, or leave it to the launcher.
        environ: where launchers say what they have started.
    """
    found: tuple[int, int, str | None, str] | None = None
    if params.num_processes is not None and params.process_id is not None:
        # A field in braces: the caller of `join_cluster` knows its flag.
        found = params.num_processes, params.process_id, params.coordinator, "{coordinator}"
    elif "OMPI_COMM_WORLD_SIZE" in environ:
        found = int(environ["OMPI_COMM_WORLD_SIZE"]), int(environ["OMPI_COMM_WORLD_RANK"]), None, "Open MPI"
    # The batch script of a job knows the number of its tasks too; only a step of srun runs them.
    elif {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"} <= environ.keys():
        found = int(environ["SLURM_STEP_NUM_TASKS"]), int(environ["SLURM_PROCID"]), None, "Slurm"
    if found is None or found[0] == 1:
        return None
    return Cluster(*found)
