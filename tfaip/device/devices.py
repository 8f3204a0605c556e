"""The devices of a training as the backend has them, and the scope in which a model is built and trained on them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from tfaip.device.cluster import Cluster, find_cluster, join_cluster
from tfaip.device.device_config import DeviceConfigParams, DistStrategy, Precision
from tfaip.device.gpus import gpu_environment, installed_gpus, visible_gpus
from tfaip.errors import UsageError
from tfaip.util.backend import import_backend, quiet_output, quiet_stderr, select_backend
from tfaip.util.logging import logger

STRATEGIES = {"tensorflow": DistStrategy.MIRROR, "jax": DistStrategy.DATA_PARALLEL}

log = logger(__name__)


def prepare_devices(params: DeviceConfigParams, alone: bool = False) -> Cluster | None:
    """Import the backend with the devices asked for, and join the other processes. Safe to call again.

    Args:
        params: the devices.
        alone: do not look for other processes.

    Returns:
        the processes that train together; None: this one alone.

    Raises:
        UsageError: a device is not there, or the backend is in use already and cannot be changed any more.
    """
    backend = select_backend()
    changes = gpu_environment(params, backend, installed_gpus())
    os.environ.update(changes)
    cluster = None if alone else find_cluster(params)
    if cluster is not None:
        with quiet_stderr():
            join_cluster(cluster, backend)
    import_backend(lambda: _configure_tensorflow(params) if backend == "tensorflow" else None)
    return cluster


def _configure_tensorflow(params: DeviceConfigParams) -> None:
    import tensorflow as tf

    for gpu in tf.config.list_physical_devices("GPU"):
        if params.gpu_memory is None:
            tf.config.experimental.set_memory_growth(gpu, True)
        else:
            limit = tf.config.LogicalDeviceConfiguration(memory_limit=params.gpu_memory)
            tf.config.set_logical_device_configuration(gpu, [limit])
    tf.config.set_soft_device_placement(params.soft_device_placement)


@dataclass(frozen=True, eq=False)
class Devices:
    """What a training runs on.

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
        """Whether this process writes what the training leaves."""
        return self.process_id == 0

    @property
    def num_shares(self) -> int:
        """Into how many parts a batch is split."""
        return 1 if self.strategy is None else len(self.names)

    @property
    def shard(self) -> tuple[int, int]:
        """Which rows of a batch this process gets: (rank, n)."""
        return self.process_id, self.num_processes

    def describe(self) -> str:
        """`2 devices (cpu:0, cpu:1), mixed_bfloat16`."""
        devices = f"{len(self.names)} devices ({', '.join(self.names)})" if len(self.names) > 1 else self.names[0]
        processes = f" of {self.num_processes} processes" if self.num_processes > 1 else ""
        precision = "" if self.precision is Precision.FLOAT32 else f", {self.precision.value}"
        return f"{devices}{processes}{precision}"

    def check_batch_size(self, batch_size: int, flag: str) -> None:
        """Whether a batch can be split.

        Args:
            batch_size: of all devices together.
            flag: what sets it.

        Raises:
            UsageError: it cannot.
        """
        if batch_size % self.num_shares:
            raise UsageError(
                f"a batch of {batch_size} samples cannot be split equally on {self.num_shares} devices: change {flag}"
            )

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Where the model is built and trained; precision and strategy are as before when it is left."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(precision_scope(self.precision))
            if self.strategy is not None:
                stack.enter_context(self.strategy.scope())
            yield


@contextlib.contextmanager
def precision_scope(precision: Precision) -> Iterator[None]:
    """Where layers are made that compute in this precision."""
    import keras

    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision.value)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(policy)


def open_devices(params: DeviceConfigParams) -> Devices:
    """The devices that params ask for.

    Raises:
        UsageError: one is not there, or the backend does not have the strategy.
    """
    cluster = prepare_devices(params)
    backend = select_backend()
    strategy = params.dist_strategy
    if strategy is DistStrategy.CENTRAL_STORAGE:
        raise UsageError(
            "central_storage keeps one copy of the weights, but each device makes the whole update here: set "
            "--device.dist_strategy mirror"
        )
    if strategy not in (DistStrategy.DEFAULT, STRATEGIES[backend]):
        raise UsageError(
            f"{backend} has no strategy {strategy.value}: set --device.dist_strategy {STRATEGIES[backend].value}, or "
            "KERAS_BACKEND to the other backend"
        )
    if cluster is not None:
        from jax.experimental import multihost_utils

        # The first contact is reported by native code.
        with quiet_output():
            multihost_utils.sync_global_devices("start")
    names = tuple(_tensorflow_devices() if backend == "tensorflow" else _jax_devices())
    _check_gpus(params, names)
    shares = len(names) > 1 or strategy is not DistStrategy.DEFAULT
    make = _tensorflow_strategy if backend == "tensorflow" else _jax_strategy
    return Devices(
        names=names,
        num_processes=1 if cluster is None else cluster.num_processes,
        process_id=0 if cluster is None else cluster.process_id,
        precision=params.precision,
        strategy=make(names) if shares else None,
    )


def _tensorflow_devices() -> list[str]:
    import tensorflow as tf

    gpus = tf.config.list_logical_devices("GPU")
    return [device.name.removeprefix("/device:") for device in gpus or tf.config.list_logical_devices("CPU")]


def _jax_devices() -> list[str]:
    import jax

    return [f"{device.platform}:{device.id}" for device in jax.devices()]


def _check_gpus(params: DeviceConfigParams, names: tuple[str, ...]) -> None:
    used = not names[0].lower().startswith("cpu")
    if params.gpus and not used:
        raise UsageError(
            "the backend does not see the GPUs asked for with --device.gpus: install it with CUDA "
            "(tensorflow[and-cuda], jax[cuda12]), or leave the flag out"
        )
    left = 0 if used else len(visible_gpus(installed_gpus(), {}))
    if left:
        log.info("%d GPUs are left unused: --device.gpus %s uses them", left, " ".join(map(str, range(left))))


@cache
def _tensorflow_strategy(names: tuple[str, ...]) -> Any:
    # One for the process: TensorFlow mixes up the collective operations of two, which are numbered alike.
    import tensorflow as tf

    return tf.distribute.MirroredStrategy(list(names))


def _jax_strategy(names: tuple[str, ...]) -> Any:
    import keras

    return keras.distribution.DataParallel(devices=list(names), auto_shard_dataset=False)
