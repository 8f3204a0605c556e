"""Params of the devices, the distribution over them, and the precision of a training."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from tfaip.params import ParamsBase, option
from tfaip.params.fields import FieldError
from tfaip.params.names import warn_removed
from tfaip.util.oldnames import old_names

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)


class DistStrategy(StrEnum):
    """Distribution of a training over several devices."""

    DEFAULT = "default"
    MIRROR = "mirror"
    DATA_PARALLEL = "data_parallel"

    @classmethod
    def _missing_(cls, value: object) -> DistStrategy | None:
        """Return the member that a value of tfaip 1.2 means."""
        if value != "central_storage":
            return None
        warn_removed("dist_strategy central_storage", "each device has the weights, as with the default")
        return cls.DEFAULT


class Precision(StrEnum):
    """Data type in which layers compute; weights are always float32."""

    FLOAT32 = "float32"
    MIXED_FLOAT16 = "mixed_float16"
    MIXED_BFLOAT16 = "mixed_bfloat16"


class PreemptionSignal(StrEnum):
    """Signal with which a scheduler announces the end of a job."""

    SIGUSR1 = "SIGUSR1"
    SIGUSR2 = "SIGUSR2"


def _expected_address(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    is_valid = bool(host) and port.isdecimal() and 0 < int(port) < 2**16
    return None if is_valid else "host:port, e.g. node1:12345"


class DeviceConfigParams(ParamsBase):
    """Devices of this process, and the other processes of the training."""

    gpus: list[int] | None = option(
        None,
        "Numbers of the GPUs to use, e.g. 0 1, counted among those of CUDA_VISIBLE_DEVICES if that is set "
        "(None: all of CUDA_VISIBLE_DEVICES, else one for each process, if there is one; no number: the CPU)",
        low=0,
        common=True,
    )
    gpu_memory: int | None = option(None, "Memory to reserve on each GPU in MiB (None: as much as is needed)", low=1)
    deterministic: bool = option(
        False, "Take only GPU kernels that give the same bits in every run, chosen without timing them; they are slower"
    )
    dist_strategy: DistStrategy = option(
        DistStrategy.DEFAULT,
        "Distribution over several devices (default: that of the backend; mirror: tensorflow; data_parallel: jax)",
    )
    precision: Precision = option(
        Precision.FLOAT32, "Data type of the computation: float32, mixed_float16 or mixed_bfloat16", common=True
    )
    num_processes: int | None = option(
        None, "Number of processes of the training, one per machine or GPU (None: as given by Slurm or Open MPI)", low=1
    )
    process_id: int | None = option(None, "Number of this process, from 0 (0: the chief, which writes)", low=0)
    coordinator: str | None = option(
        None, "host:port at which all processes can reach process 0", text=_expected_address
    )
    preemption_signal: PreemptionSignal | None = option(
        None,
        "Signal at which a training writes a checkpoint and ends, besides SIGTERM and SIGINT: that with which the "
        "scheduler announces the end of the job (exit code: SIGUSR1 138, SIGUSR2 140)",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_cluster()

    def without_cluster(self) -> DeviceConfigParams:
        """Return a copy for a process that is alone, or whose launcher describes the others."""
        return replace(self, num_processes=None, process_id=None, coordinator=None)

    def _check_cluster(self) -> None:
        names = ("num_processes", "process_id", "coordinator")
        missing = [name for name in names if getattr(self, name) is None]
        if len(missing) == len(names):
            return
        if missing:
            expected = "a value, since a cluster needs num_processes, process_id and coordinator"
            raise FieldError(missing[0], None, expected, others=missing[1:])
        number, count = self.process_id, self.num_processes
        if number is not None and count is not None and number >= count:
            raise FieldError("process_id", number, f"0 to num_processes - 1 ({count - 1})", others=["num_processes"])
