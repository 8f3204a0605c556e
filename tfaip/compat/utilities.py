"""Small functions and classes of tfaip 1.2: resources, devices, times."""

import cProfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeVar

from tfaip.device.device_config import DeviceConfigParams
from tfaip.device.devices import prepare_devices
from tfaip.params.resource import Resource as PathResource

T = TypeVar("T")


class Resource(PathResource):
    """Resource with the attributes of tfaip 1.2; `dataclasses_json.config(encoder=Resource.encode)` changes nothing."""

    encode = decode = None

    def __str__(self) -> str:
        return str(self.path)

    abs_path = initial_path = property(__str__)

    @property
    def basename(self) -> str:
        """Name of the file."""
        return self.path.name


class DeviceConfig:
    """Devices of this process: the constructor imports the backend with them.

    Args:
        params: the devices; None: the default ones.

    Raises:
        UsageError: if a device is not there, or the backend is in use already and cannot be changed any more.
    """

    def __init__(self, params: DeviceConfigParams | None = None) -> None:
        self.params = params or DeviceConfigParams()
        prepare_devices(self.params, alone=True)


class MeasureTime:
    """Context that measures the seconds of its block."""

    def __init__(self) -> None:
        self.duration = 0.0
        """Seconds of the block; 0 until it has ended."""
        self._begin = 0.0

    def __enter__(self) -> Self:
        self._begin = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self.duration = time.perf_counter() - self._begin


@contextmanager
def profile(path: str | Path) -> Iterator[cProfile.Profile]:
    """Context, or decorator, that profiles its block; `python -m pstats PATH` shows the file.

    Args:
        path: of the file that is written after the block, also if it failed.
    """
    with cProfile.Profile() as profiler:
        try:
            yield profiler
        finally:
            profiler.dump_stats(path)


def enforce_types(decorated: T) -> T:
    """Return a class or function as it is: params check their values themselves."""
    return decorated
