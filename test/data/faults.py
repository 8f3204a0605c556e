"""Data and processors that fail in the ways that a test asks for."""

import logging
import os
import signal
import sys
import threading
import time
from typing import Any

import numpy as np

from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams, MappingDataProcessor


class FilesParams(DataGeneratorParams, cls=":Files"):
    """`count` rows with random access, each of which takes `seconds`."""

    count: int = 40
    seconds: float = 0


class Files(DataGenerator[FilesParams]):
    def __len__(self) -> int:
        return self.params.count

    def __getitem__(self, index: int) -> Sample:
        time.sleep(self.params.seconds)
        meta = {"id": index, "read by": os.getpid()}
        return Sample(inputs={"x": np.full(3, float(index))}, targets={"y": np.array([index])}, meta=meta)


class OddError(Exception):
    """Cannot be rebuilt from its text."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(f"{text} {number}")


class FaultParams(DataProcessorParams, cls=":Fault"):
    """Does what `fault` says to the sample whose target is `at`; others only note who processed them."""

    fault: str = "none"
    at: int = 11


class Fault(MappingDataProcessor[FaultParams]):
    def apply(self, sample: Sample) -> Sample:
        if int(sample.targets["y"][0]) != self.params.at:
            return sample.new_meta({**sample.meta, "processed by": os.getpid(), "modules": backends()})
        return self.fail(sample)

    def fail(self, sample: Sample) -> Sample:
        match self.params.fault:
            case "raise":
                raise ZeroDivisionError("bad pixel")
            case "odd error":
                raise OddError(7, "odd")
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exit":
                os._exit(3)
            case "breakpoint":
                breakpoint()  # noqa: T100
            case "sleep":
                time.sleep(3600)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "log":
                for number in range(2):
                    logging.getLogger("user").warning("line %d %%", number, extra={"of": lambda: None})
                logging.getLogger("user").warning("shape", number)  # noqa: PLE1205
            case "unpicklable":
                return sample.new_meta(threading.Lock())
        return sample


def backends() -> list[str]:
    """Which backends this process has imported."""
    return [name for name in ("keras", "tensorflow", "jax") if name in sys.modules]


class SlowParams(DataProcessorParams, cls=":Slow"):
    """Takes `seconds` for each sample."""

    seconds: float = 0.1


class Slow(MappingDataProcessor[SlowParams]):
    def apply(self, sample: Sample) -> Sample:
        time.sleep(self.params.seconds)
        return sample


class Unsendable(FaultParams):
    """Params that hold something which stays in its process."""

    def __post_init__(self) -> None:
        self.__dict__["lock"] = threading.Lock()


class OnlyHereParams(DataProcessorParams, cls=":OnlyHere"):
    """A processor that can be built in the process `home` only; others raise an error."""

    home: int = 0


class OnlyHere(MappingDataProcessor[OnlyHereParams]):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if os.getpid() != self.params.home:
            raise RuntimeError("no licence for this process")

    def apply(self, sample: Sample) -> Sample:
        return sample
