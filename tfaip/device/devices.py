"""Devices and processes of a training as the backend has them, and the scope in which a model is trained on them."""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from tfaip.backend.distributed import Cluster, join_cluster, synchronize
from tfaip.backend.environment import (
    VISIBLE_GPUS,
    import_backend,
    quiet_output,
    quiet_stderr,
    select_backend,
    set_variables,
    variables_with_gpu,
    variables_without_gpu,
)
from tfaip.device.device_config import DeviceConfigParams, DistStrategy, Precision
from tfaip.params.fields import FieldAdvice
from tfaip.util.logging import logger

# GPUs


def installed_gpus() -> int:
    """Return the number of NVIDIA GPUs of this machine."""
    return len([path for path in Path("/dev").glob("nvidia*") if path.name.removeprefix("nvidia").isdecimal()])


def visible_gpus(installed: int, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the names of the GPUs that `DeviceConfigParams.gpus` counts: those of CUDA_VISIBLE_DEVICES, else all."""
    if VISIBLE_GPUS not in environ:
        return [str(i) for i in range(installed)]
    if not installed:
        return []
    names = [name.strip() for name in environ[VISIBLE_GPUS].split(",")]
    # CUDA takes the names up to the first that is not valid; -1 is the usual one to hide all.
    return list(takewhile(lambda name: name not in ("", "-1"), names))


def gpu_environment(
    params: DeviceConfigParams,
    backend: str,
    installed: int,
    environ: Mapping[str, str] = os.environ,
    process_id: int | None = 0,
) -> dict[str, str]:
    """Return the environment variables to set before the backend searches its devices."""
    visible = visible_gpus(installed, environ)
    if params.gpus is not None:
        chosen = [_named(index, visible) for index in params.gpus]
    elif VISIBLE_GPUS in environ or process_id is None or not visible:
        chosen = visible
    else:
        chosen = [visible[process_id % len(visible)]]
    if not installed:
        return {}
    if not chosen:
        return variables_without_gpu(backend)
    options = variables_with_gpu(backend, environ, params.deterministic, params.gpu_memory, _total_memory)
    return {VISIBLE_GPUS: ",".join(chosen), **options}


# The environment before GPUs were chosen: `--device.gpus` counts those of its CUDA_VISIBLE_DEVICES.
_before: dict[str, str] = {}


def choose_gpus(params: DeviceConfigParams, backend: str, installed: int, process_id: int | None = 0) -> None:
    """Set the variables of `gpu_environment`; safe to call again, then only the same GPUs can be asked for."""
    if _before and params.gpus is None:
        return
    changes = gpu_environment(params, backend, installed, _before or os.environ, process_id)
    used = os.environ.get(VISIBLE_GPUS)
    if _before and changes.get(VISIBLE_GPUS, used) != used:
        asked = " ".join(["{gpus}", *map(str, params.gpus or [])])
        raise FieldAdvice(
            f"{asked} asks for other GPUs than this process has chosen before ({VISIBLE_GPUS} is {used}): start "
            "another process",
            "gpus",
        )
    if not _before:
        _before.update(os.environ)
        set_variables(changes)


def _named(index: int, visible: list[str]) -> str:
    if index < len(visible):
        return visible[index]
    found = ", ".join(map(str, range(len(visible)))) or "none"
    raise FieldAdvice(f"GPU {index} is not there, found {found}: change {{gpus}}, or leave it out for the CPU", "gpus")


def _total_memory() -> int:
    """Return the MiB of the smallest GPU."""
    query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    answer = subprocess.run(query, check=True, capture_output=True, text=True).stdout  # noqa: S603
    return min(int(line) for line in answer.split())


# Processes


def find_cluster(params: DeviceConfigParams, environ: Mapping[str, str] = os.environ) -> Cluster | None:
    """Return the cluster that this process belongs to; None: it trains alone."""
    found: tuple[int, int, str | None, str] | None = None
    if params.num_processes is not None and params.process_id is not None:
        found = params.num_processes, params.process_id, params.coordinator, "--device.coordinator"
    elif "OMPI_COMM_WORLD_SIZE" in environ:
        found = int(environ["OMPI_COMM_WORLD_SIZE"]), int(environ["OMPI_COMM_WORLD_RANK"]), None, "Open MPI"
    # The batch script of a job knows the number of its tasks too; only a step of srun runs them.
    elif {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"} <= environ.keys():
        found = int(environ["SLURM_STEP_NUM_TASKS"]), int(environ["SLURM_PROCID"]), None, "Slurm"
    if found is None or found[0] == 1:
        return None
    return Cluster(*found)


# Devices

log = logger(__name__)


def prepare_devices(params: DeviceConfigParams, alone: bool = False) -> Cluster | None:
    """Import the backend with the devices asked for, and join the other processes. Safe to call again."""
    name = select_backend()
    cluster = None if alone else find_cluster(params)
    process_id: int | None = 0
    if cluster is not None:
        process_id = None if cluster.coordinator is None else cluster.process_id
    choose_gpus(params, name, installed_gpus(), process_id)
    if cluster is not None:
        with quiet_stderr():
            join_cluster(cluster, name)

    def configure() -> None:
        from tfaip.backend.active import backend

        try:
            backend.configure_devices(params.gpu_memory)
        except (RuntimeError, ValueError) as error:  # they are in use already, and stay as they are
            if params.gpu_memory is not None:
                raise FieldAdvice(f"{{gpu_memory}} comes too late: {error}", "gpu_memory") from error

    import_backend(configure)
    return cluster


@dataclass(frozen=True, eq=False)
class Devices:
    """Devices, processes and precision of a training.

    Args:
        names: the devices that share the work, of all processes.
        num_processes: processes that train together.
        process_id: number of this one, from 0.
        precision: what layers compute in.
        strategy: a `tf.distribute.Strategy` or `keras.distribution.Distribution`; None: one device, nothing to share.
    """

    names: tuple[str, ...] = ()
    num_processes: int = 1
    process_id: int = 0
    precision: Precision = Precision.FLOAT32
    strategy: Any = None

    @property
    def is_chief(self) -> bool:
        """True if this process writes what the training leaves."""
        return self.process_id == 0

    @property
    def num_shares(self) -> int:
        """The number of parts that a batch is split into."""
        return 1 if self.strategy is None else len(self.names)

    @property
    def shard(self) -> tuple[int, int, int]:
        """The share of each batch that this process gets: number of the process, of processes, of all devices."""
        return self.process_id, self.num_processes, self.num_shares

    def describe(self) -> str:
        """Return a description, such as `2 devices (cpu:0, cpu:1), mixed_bfloat16`."""
        text = self.names[0]
        if len(self.names) > 1:
            text = f"{len(self.names)} devices ({', '.join(self.names)})"
        if self.num_processes > 1:
            text += f" of {self.num_processes} processes"
        if self.precision is not Precision.FLOAT32:
            text += f", {self.precision.value}"
        return text

    def check_batch_size(self, batch_size: int, field: str) -> None:
        """Raise unless the batch size can be split over the devices."""
        if batch_size % self.num_shares:
            raise FieldAdvice(
                f"a batch of {batch_size} samples cannot be split equally on {self.num_shares} devices: "
                f"change {{{field}}}",
                field,
            )

    def building(self) -> AbstractContextManager[Any]:
        """Return the context in which the model is built."""
        return contextlib.nullcontext() if self.strategy is None else self.strategy.scope()

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Context of the whole training; precision and distribution are as before when it is left."""
        from tfaip.backend.active import backend  # not before: it imports Keras

        # In the scope of a strategy, a SavedModel cannot be called, and other models would be mirrored too.
        shared = contextlib.nullcontext() if backend.MODEL_KEEPS_STRATEGY else self.building()
        with precision_scope(self.precision), shared:
            yield


@contextlib.contextmanager
def precision_scope(precision: Precision) -> Iterator[None]:
    """Context in which layers are made that compute in this precision."""
    import keras

    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision.value)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(policy)


def open_devices(params: DeviceConfigParams) -> Devices:
    """Return the devices that params ask for."""
    cluster = prepare_devices(params)
    from tfaip.backend.active import backend  # not before: it imports Keras

    if params.dist_strategy not in (DistStrategy.DEFAULT, backend.STRATEGY):
        raise FieldAdvice(
            f"{select_backend()} has no strategy {params.dist_strategy.value}: set {{dist_strategy}} "
            f"{backend.STRATEGY}, or KERAS_BACKEND to the other backend",
            "dist_strategy",
        )
    if cluster is not None:
        # The first contact is reported by native code.
        with quiet_output():
            synchronize("start")
    names = tuple(backend.device_names())
    _check_gpus(params, names)
    is_shared = len(names) > 1 or params.dist_strategy is not DistStrategy.DEFAULT
    return Devices(
        names=names,
        num_processes=1 if cluster is None else cluster.num_processes,
        process_id=0 if cluster is None else cluster.process_id,
        precision=params.precision,
        strategy=backend.create_strategy(names) if is_shared else None,
    )


def _check_gpus(params: DeviceConfigParams, names: tuple[str, ...]) -> None:
    """Raise if GPUs are asked for and not used; log which one is used if none is named."""
    is_used = not names[0].lower().startswith("cpu")
    if params.gpus and not is_used:
        raise FieldAdvice(
            "the backend does not see the GPUs asked for with {gpus}: install it with CUDA (tensorflow[and-cuda], "
            "jax[cuda12]), or leave the flag out",
            "gpus",
        )
    count = installed_gpus()
    # Neither params nor CUDA_VISIBLE_DEVICES name the GPUs.
    is_default = params.gpus is None and VISIBLE_GPUS not in (_before or os.environ)
    if not count or not is_default:
        return
    if not is_used:
        log.info("the GPU is not used: the backend is installed without CUDA (tensorflow[and-cuda], jax[cuda12])")
        return
    log.info("using %s of %d, see --device.gpus and --device.deterministic", names[0], count)
