"""Params of the data floor: where samples come from, how they are processed, how they are batched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.data.pipeline.processor.params import (
    MAX_PROCESSES,
    ComposedProcessorPipelineParams,
    DataProcessorPipelineParams,
    SequentialProcessorPipelineParams,
)
from tfaip.params import ParamsBase, pai_dataclass, pai_meta
from tfaip.util.text import shorten

if TYPE_CHECKING:
    from tfaip.data.data import DataBase
    from tfaip.data.pipeline.datagenerator import DataGenerator


AUTOMATIC_PROCESSES = 4
# More than any machine has memory for.
MAX_PREFETCH = 2**20
# What Python's functions that wait can take, on any platform: 24 days.
MAX_SECONDS = 2**31 // 1000
_ALLOWED_FAILURES = {"raise": 0, "skip": None}


@pai_dataclass
@dataclass
class DataGeneratorParams(ParamsBase):
    """Where samples come from. A subclass names its generator in `cls` and adds what that needs."""

    @staticmethod
    def cls() -> type[DataGenerator[Any]]:
        """The `DataGenerator` subclass that these params describe."""
        raise NotImplementedError("override cls() of the generator params and return your DataGenerator subclass")

    def create(self, mode: PipelineMode) -> DataGenerator[Any]:
        """Build the generator for a pipeline of this mode."""
        return self.cls()(mode=mode, params=self)


@pai_dataclass
@dataclass
class DataPipelineParams(ParamsBase):
    """How a pipeline turns samples into batches."""

    mode: PipelineMode = field(
        default=PipelineMode.TRAINING, metadata=pai_meta(mode="ignore", help="Use of the pipeline.")
    )
    batch_size: int = field(
        default=16, metadata=pai_meta(help="Samples per batch, all devices and processes together.")
    )
    limit: int = field(
        default=-1,
        metadata=pai_meta(help="Use only the first samples of the data, as many as this; -1: all."),
    )
    max_element_length: int | None = field(
        default=None,
        metadata=pai_meta(help="Drop longer samples, measured by the data's element_length_fn; None: keep all."),
    )
    batch_drop_remainder: bool = field(
        default=False,
        metadata=pai_meta(
            help="Drop the last batch of an epoch if it is smaller than batch_size; with buckets: what is left in them "
            "at the end of a pass over the data."
        ),
    )
    bucket_boundaries: list[int] = field(
        default_factory=list,
        metadata=pai_meta(
            help="Batch samples of similar length, measured by the data's element_length_fn: rising lengths at which a "
            "bucket ends and the next one begins, e.g. 100 200 makes the buckets 0-99, 100-199, 200 and longer; empty: "
            "no buckets."
        ),
    )
    bucket_batch_sizes: list[int] | None = field(
        default=None,
        metadata=pai_meta(
            help="Samples per batch for each bucket, one number more than bucket_boundaries; None: batch_size."
        ),
    )
    shuffle_buffer_size: int = field(
        default=-1,
        metadata=pai_meta(
            help="Training only. -1: automatic; 0: keep the order of the data; else the number of samples "
            "to choose from. Data with random access is always shuffled as a whole."
        ),
    )
    num_processes: int = field(
        default=AUTOMATIC_PROCESSES,
        metadata=pai_meta(
            help="Worker processes that read and process samples; 0: the training process does. The default starts up "
            "to 4, not more than there are processor cores, once they are worthwhile (see worker_start_s)."
        ),
    )
    worker_start_s: float = field(
        default=-1.0,
        metadata=pai_meta(
            help="Start the workers when the training process has worked on samples for so many seconds; 0: at once. "
            "-1: at once if num_processes is not the default, else after a second, if a sample takes more than 0.1 ms."
        ),
    )
    worker_timeout_s: float = field(
        default=60.0, metadata=pai_meta(help="A worker that finishes no sample in so many seconds hangs: an error.")
    )
    prefetch: int = field(
        default=-1,
        metadata=pai_meta(help="Batches that workers make ahead; -1: automatic, if possible within 128 MiB."),
    )
    use_shared_memory: bool = field(
        default=True, metadata=pai_meta(help="Whether arrays come from workers through shared memory, else pipes.")
    )
    on_error: str = field(
        default="raise",
        metadata=pai_meta(
            help="What to do if a sample cannot be read or processed. raise: stop; skip: leave it out, count and log "
            "it; skip:N: skip at most N different samples, then stop."
        ),
    )

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size}, expected at least 1")
        if self.shuffle_buffer_size < -1:
            raise ValueError(
                f"shuffle_buffer_size is {self.shuffle_buffer_size}, expected -1, 0 or a number of samples"
            )
        if self.limit < -1 or self.limit == 0:
            raise ValueError(f"limit is {self.limit}, expected a number of samples or -1 for all")
        if self.max_element_length is not None and self.max_element_length < 1:
            raise ValueError(f"max_element_length is {self.max_element_length}, expected a length from 1, or None")
        self._check_buckets()
        self._check_workers()
        self.allowed_failures()

    def has_default_workers(self) -> bool:
        """Whether the pipeline itself decides how many workers there are and when they start."""
        return self.num_processes == AUTOMATIC_PROCESSES

    def _check_workers(self) -> None:
        if not 0 <= self.num_processes <= MAX_PROCESSES:
            raise ValueError(f"num_processes is {self.num_processes}, expected a number from 0 to {MAX_PROCESSES}")
        if not 0 < self.worker_timeout_s <= MAX_SECONDS:
            raise ValueError(
                f"worker_timeout_s is {self.worker_timeout_s}, expected seconds above 0, at most {MAX_SECONDS}"
            )
        if not 0 <= self.worker_start_s <= MAX_SECONDS and self.worker_start_s != -1:
            raise ValueError(
                f"worker_start_s is {self.worker_start_s}, expected seconds from 0 to {MAX_SECONDS}, or -1: automatic"
            )
        if not 1 <= self.prefetch <= MAX_PREFETCH and self.prefetch != -1:
            raise ValueError(
                f"prefetch is {self.prefetch}, expected batches from 1 to {MAX_PREFETCH}, or -1 for automatic"
            )

    def allowed_failures(self) -> int | None:
        """How many samples may fail, as `on_error` says; None: any number."""
        if self.on_error in _ALLOWED_FAILURES:
            return _ALLOWED_FAILURES[self.on_error]
        word, _, number = self.on_error.partition(":")
        if word != "skip" or not number.isdecimal():
            raise ValueError(f"on_error is {shorten(self.on_error)}, expected raise, skip, or skip:N, e.g. skip:100")
        return int(number)

    def bucket_lengths(self) -> list[int]:
        """The longest length of each bucket that has one."""
        limits = [] if self.max_element_length is None else [self.max_element_length]
        return (
            sorted({*(boundary - 1 for boundary in self.bucket_boundaries), *limits}) if self.bucket_boundaries else []
        )

    def _check_buckets(self) -> None:
        boundaries, sizes = self.bucket_boundaries, self.bucket_batch_sizes
        if boundaries != sorted(set(boundaries)) or (boundaries and boundaries[0] < 1):
            raise ValueError(f"bucket_boundaries is {boundaries}, expected rising lengths from 1")
        if sizes is not None and (len(sizes) != len(boundaries) + 1 or min(sizes) < 1):
            raise ValueError(
                f"bucket_batch_sizes is {sizes}, expected {len(boundaries) + 1} numbers from 1: one for each bucket, "
                f"which are one more than bucket_boundaries ({boundaries})"
            )


@pai_dataclass
@dataclass
class DataBaseParams(ParamsBase):
    """What the data of a scenario is: its processors, and in subclasses what its specs depend on."""

    pre_proc: DataProcessorPipelineParams = field(
        default_factory=SequentialProcessorPipelineParams,
        metadata=pai_meta(
            help="Processors between the generator and the model.",
            choices=[SequentialProcessorPipelineParams, ComposedProcessorPipelineParams],
        ),
    )
    post_proc: DataProcessorPipelineParams = field(
        default_factory=SequentialProcessorPipelineParams,
        metadata=pai_meta(
            help="Processors after the model, for predictions.",
            choices=[SequentialProcessorPipelineParams, ComposedProcessorPipelineParams],
        ),
    )

    @staticmethod
    def cls() -> type[DataBase[Any]]:
        """The `DataBase` subclass that these params describe."""
        raise NotImplementedError("override cls() of the data params and return your DataBase subclass")

    def create(self, **kwargs: Any) -> DataBase[Any]:
        """Build the data."""
        return self.cls()(self, **kwargs)
