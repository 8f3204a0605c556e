"""Params of a pipeline: batches, buckets, order, workers and failures; needs no backend."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.params import ParamsBase, option
from tfaip.params.fields import FieldError
from tfaip.util.logging import logger
from tfaip.util.reading import parse_whole_number
from tfaip.util.text import shorten_text

log = logger(__name__)

T = TypeVar("T")

AUTOMATIC_PROCESSES = 4
# More worker processes than any machine runs: a mistyped number must not fork until the machine stops.
MAX_PROCESSES = 1024
_ALLOWED_FAILURES = {"raise": 0, "skip": None}


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def at_most_cores(name: str, count: int, path: Path) -> int:
    """Return how many worker processes a field of a file starts: one for each core at most, with a line."""
    cores = available_cores()
    if count > cores:
        message = "%s asks for %d worker processes, there will be %d, one for each core: give %s as a flag to have more"
        log.info(message, shorten_text(str(path), 120), count, cores, name)
    return min(count, cores)


class DataPipelineParams(ParamsBase):
    """Batches of a pipeline, and how samples become batches."""

    mode: PipelineMode = option(PipelineMode.TRAINING, "Use of the pipeline", mode="ignore")
    batch_size: int = option(16, "Samples per batch, all devices and processes together", low=1, common=True)
    limit: int = option(
        -1, "Maximum number of samples, the first ones of the data (-1: all)", low=1, also={-1: "all"}, common=True
    )
    max_element_length: int | None = option(
        None, "Drop longer samples, measured by the data's length_of or element_length_fn (None: keep all)", low=1
    )
    batch_drop_remainder: bool = option(
        False,
        "Drop the last batch of an epoch if it is smaller than batch_size; with buckets: drop the samples "
        "left in them at the end of a pass over the data",
    )
    bucket_boundaries: list[int] = option(
        [],
        "Batch samples of similar length, measured by the data's length_of or element_length_fn: "
        "rising lengths at which a bucket ends and the next one begins, e.g. 100 200 makes the "
        "buckets 0-99, 100-199, 200 and longer (empty: no buckets)",
        low=1,
    )
    bucket_batch_sizes: list[int] | None = option(
        None, "Samples per batch for each bucket, one number more than bucket_boundaries (None: batch_size)", low=1
    )
    shuffle_buffer_size: int = option(
        -1,
        "Number of training samples to choose the next one from (-1: automatic, 0: keep the order of the "
        "data); data with random access is always shuffled as a whole",
        low=0,
        also={-1: "automatic"},
    )
    num_processes: int = option(
        AUTOMATIC_PROCESSES,
        "Worker processes that read and process samples (0: the training process does; the default: up to 4, "
        "at most one per core, started after 1 s if a sample takes more than 0.1 ms)",
        low=0,
        high=MAX_PROCESSES,
        common=True,
    )
    worker_timeout_s: float = option(
        60.0,
        "Seconds without a finished sample after which a worker counts as hanging, an error",
        above=0,
        high=2_147_483,  # the longest wait that Python accepts on every platform: 24 days
    )
    prefetch: int = option(
        -1,
        "Batches that workers prepare ahead (-1: automatic, within 128 MiB if possible)",
        low=1,
        also={-1: "automatic"},
    )
    use_shared_memory: bool = option(True, "Pass arrays from workers through shared memory instead of pipes")
    on_error: str = option(
        "raise",
        "Reaction to a sample that cannot be read or processed (raise: stop; skip: leave it out, count and "
        "log it; skip:N: skip at most N samples of a pass over the data, then stop)",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.mode = PipelineMode(self.mode)  # of its text too
        self.allowed_failures()
        boundaries, sizes = self.bucket_boundaries, self.bucket_batch_sizes
        if boundaries != sorted(set(boundaries)):
            raise FieldError("bucket_boundaries", boundaries, "rising lengths from 1")
        if sizes is not None and not boundaries:
            # One number would fit one bucket, and change nothing.
            raise FieldError("bucket_batch_sizes", sizes, "bucket_boundaries beside it", others=["bucket_boundaries"])
        if sizes is not None and len(sizes) != len(boundaries) + 1:
            expected = f"one number per bucket ({len(boundaries) + 1}, one more than bucket_boundaries)"
            raise FieldError("bucket_batch_sizes", sizes, expected, others=["bucket_boundaries"])

    def limit_to_machine(self, path: Path) -> None:
        """Reduce what params in a file ask for; called when they are loaded."""
        if not self.has_default_workers():
            self.num_processes = at_most_cores("num_processes", self.num_processes, path)

    def has_default_workers(self) -> bool:
        """Return True if the pipeline itself decides how many workers there are and when they start."""
        return self.num_processes == AUTOMATIC_PROCESSES

    def allowed_failures(self) -> int | None:
        """Return how many samples may fail according to `on_error`; None: any number.

        Raises:
            FieldError: if `on_error` has another form.
        """
        if self.on_error in _ALLOWED_FAILURES:
            return _ALLOWED_FAILURES[self.on_error]
        word, _, text = self.on_error.partition(":")
        number = parse_whole_number(text)
        if word != "skip" or number is None:
            raise FieldError("on_error", self.on_error, "raise, skip, or skip:N, e.g. skip:100")
        return number

    def limited_size(self, size: int) -> int:
        """Return how many of `size` samples `limit` leaves."""
        return size if self.limit < 0 else min(size, self.limit)

    def limited(self, samples: Iterable[T]) -> Iterator[T]:
        """Iterate over the samples that `limit` leaves."""
        return islice(samples, None if self.limit < 0 else self.limit)

    def bucket_lengths(self) -> list[int]:
        """Return the longest length of each bucket that has one."""
        if not self.bucket_boundaries:
            return []
        lengths = {boundary - 1 for boundary in self.bucket_boundaries}
        if self.max_element_length is not None:
            lengths.add(self.max_element_length)
        return sorted(lengths)
