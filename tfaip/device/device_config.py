"""Which devices a training runs on, how it is spread over them, and in which precision it computes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from tfaip.params import ParamsBase, pai_dataclass, pai_meta
from tfaip.util.text import shorten


class DistStrategy(StrEnum):
    """How a model is trained on several devices."""

    DEFAULT = "default"
    MIRROR = "mirror"
    CENTRAL_STORAGE = "central_storage"
    DATA_PARALLEL = "data_parallel"


class Precision(StrEnum):
    """What the layers compute in; weights are float32 in each case."""

    FLOAT32 = "float32"
    MIXED_FLOAT16 = "mixed_float16"
    MIXED_BFLOAT16 = "mixed_bfloat16"


@pai_dataclass
@dataclass
class DeviceConfigParams(ParamsBase):
    """Devices of this process, and the other processes of the training."""

    gpus: list[int] | None = field(
        default=None,
        metadata=pai_meta(
            help="GPUs to use, e.g. 0 1, counted among those of CUDA_VISIBLE_DEVICES where that is set. None: all of "
            "CUDA_VISIBLE_DEVICES, else the CPU"
        ),
    )
    gpu_memory: int | None = field(
        default=None, metadata=pai_meta(help="Memory to take of each GPU, in MiB; None: as much as is needed")
    )
    gpu_auto_tune: bool | None = field(
        default=None,
        metadata=pai_meta(help="Whether kernels are chosen by timing them on the GPU; None: as the backend does"),
    )
    soft_device_placement: bool = field(
        default=True,
        metadata=pai_meta(help="On tensorflow: an operation that the GPU does not have runs on the CPU"),
    )
    dist_strategy: DistStrategy = field(
        default=DistStrategy.DEFAULT,
        metadata=pai_meta(
            help="How several devices share the work. default: what the backend has; mirror: tensorflow; "
            "data_parallel: jax; central_storage: not supported any more"
        ),
    )
    precision: Precision = field(
        default=Precision.FLOAT32,
        metadata=pai_meta(help="What layers compute in: float32, mixed_float16 or mixed_bfloat16"),
    )
    num_processes: int | None = field(
        default=None,
        metadata=pai_meta(help="Processes of the training, one per machine or GPU; None: as Slurm or Open MPI say"),
    )
    process_id: int | None = field(
        default=None, metadata=pai_meta(help="Number of this process, from 0; 0 is the chief, which writes")
    )
    coordinator: str | None = field(
        default=None, metadata=pai_meta(help="host:port at which all processes can reach process 0")
    )

    def __post_init__(self) -> None:
        if self.gpus is not None and (min(self.gpus, default=0) < 0 or len(set(self.gpus)) != len(self.gpus)):
            raise ValueError(f"gpus is {self.gpus}, expected different numbers from 0: change --device.gpus")
        if self.gpu_memory is not None and self.gpu_memory < 1:
            raise ValueError(f"gpu_memory is {self.gpu_memory}, expected MiB above 0: change --device.gpu_memory")
        self._check_cluster()

    def without_cluster(self) -> DeviceConfigParams:
        """A copy for a process that is alone, or whose launcher tells about the others."""
        return replace(self, num_processes=None, process_id=None, coordinator=None)

    def _check_cluster(self) -> None:
        fields = {name: getattr(self, name) for name in ("num_processes", "process_id", "coordinator")}
        missing = [f"--device.{name}" for name, value in fields.items() if value is None]
        if len(missing) == len(fields):
            return
        if missing:
            raise ValueError(f"a cluster needs num_processes, process_id and coordinator: set {', '.join(missing)} too")
        number, of = self.process_id, self.num_processes
        if of is None or number is None or not 0 <= number < of:
            raise ValueError(
                f"process_id is {number} of {of} processes, expected 0 to num_processes - 1: change "
                "--device.process_id or --device.num_processes"
            )
        host, _, port = (self.coordinator or "").rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
            raise ValueError(
                f"coordinator is {shorten(self.coordinator)}, expected host:port, e.g. node1:12345: change "
                "--device.coordinator"
            )
