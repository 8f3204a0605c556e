"""Which processes train together, by flags and by what launchers write into the environment."""

from __future__ import annotations

import pytest

from tfaip.backend.distributed import Cluster, join_cluster
from tfaip.device import DeviceConfigParams
from tfaip.device.devices import find_cluster
from tfaip.errors import UsageError

OPEN_MPI = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3"}
SLURM_STEP = {"SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "5", "SLURM_NTASKS": "8"}


def test_launchers(subtests: pytest.Subtests) -> None:
    for environ, expected in [
        ({}, None),
        (OPEN_MPI, Cluster(4, 3, None, "Open MPI")),
        (SLURM_STEP, Cluster(8, 5, None, "Slurm")),
        ({"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"}, None),
        # The batch script itself is no task of a step.
        ({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, None),
    ]:
        with subtests.test(environ=environ):
            assert find_cluster(DeviceConfigParams(), environ) == expected


def test_flags_come_before_launchers() -> None:
    params = DeviceConfigParams(num_processes=2, process_id=1, coordinator="node1:4000")
    assert find_cluster(params, OPEN_MPI) == Cluster(2, 1, "node1:4000", "{coordinator}")


def test_one_process_is_no_cluster() -> None:
    params = DeviceConfigParams(num_processes=1, process_id=0, coordinator="node1:4000")
    assert find_cluster(params, OPEN_MPI) is None


def test_tensorflow_refuses_and_names_what_works() -> None:
    with pytest.raises(UsageError, match=r"4 processes \(told by Open MPI\) cannot train together on tensorflow.*jax"):
        join_cluster(Cluster(4, 3, None, "Open MPI"), "tensorflow")
