"""Measurements of a data pipeline: its throughput, and the time of each of its parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count, islice, takewhile
from typing import Any, TypeVar

from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.processor.pipeline import ProcessorPipeline
from tfaip.data.pipeline.reader import PipelineReader
from tfaip.data.pipeline.sampler import Sampler
from tfaip.data.pipeline.workers.sharedmemory import Slot, create_file, pack, unpack

T = TypeVar("T")


@dataclass
class Stage:
    """Time of one part of a pipeline, when everything runs in one process.

    Args:
        name: of the part.
        sample_s: seconds per sample that is trained.
        in_workers: True if worker processes can do it.
    """

    name: str
    sample_s: float
    in_workers: bool


@dataclass
class StageTimes:
    """Times of all parts of a pipeline.

    Args:
        stages: generator, each processor, batching.
        transport_s: seconds per sample to bring it from a worker process to this one.
    """

    stages: list[Stage]
    transport_s: float

    @property
    def sample_s(self) -> float:
        """Seconds per sample when everything runs in one process."""
        return sum(stage.sample_s for stage in self.stages)

    def samples_per_s(self, workers: int) -> float:
        """Return the highest possible throughput.

        Args:
            workers: number of worker processes (0: none), with a CPU for each and one for training.
        """
        if workers == 0:
            return 1 / self.sample_s
        parallel = sum(stage.sample_s for stage in self.stages if stage.in_workers)
        return 1 / max(parallel / workers, self.sample_s - parallel + self.transport_s)


@dataclass
class Throughput:
    """Batches that came out of a pipeline.

    Args:
        seconds: since the first batch was requested.
        batches: number of batches.
        samples: number of samples in them.
        nbytes: of their arrays.
        first_s: seconds until the first batch.
        longest_s: longest time between two later batches.
    """

    seconds: float = 0.0
    batches: int = 0
    samples: int = 0
    nbytes: int = 0
    first_s: float = 0.0
    longest_s: float = 0.0

    @property
    def samples_per_s(self) -> float:
        """Samples per second after the first batch, which waits for workers to start."""
        return self._rate(self.samples)

    @property
    def mb_per_s(self) -> float:
        """Megabytes per second after the first batch."""
        return self._rate(self.nbytes) / 1e6

    def _rate(self, amount: int) -> float:
        seconds = self.seconds - self.first_s
        if self.batches < 2 or seconds <= 0:
            return 0.0
        return amount * (1 - 1 / self.batches) / seconds

    def add(self, batch: Batch, seconds: float) -> None:
        """Count a batch that came this time after the one before."""
        if self.batches == 0:
            self.first_s = seconds
        else:
            self.longest_s = max(self.longest_s, seconds)
        self.seconds += seconds
        self.batches += 1
        self.samples += batch.size
        self.nbytes += size_of(batch)


def size_of(batch: Batch) -> int:
    """Return the bytes of the arrays of a batch."""
    arrays = [*batch.inputs.values(), *batch.targets.values()]
    return sum(array.nbytes for array in arrays)


def measure_throughput(pipeline: DataPipeline, should_stop: Callable[[Throughput], bool]) -> Throughput:
    """Read batches as fast as possible, pass after pass.

    Args:
        pipeline: to be measured.
        should_stop: called after every batch.
    """
    done = Throughput()
    with pipeline.generate_input_batches(auto_repeat=True) as batches:
        while True:
            begin = time.perf_counter()
            batch = next(batches)
            done.add(batch, time.perf_counter() - begin)
            if should_stop(done):
                return done


def measure_stages(pipeline: DataPipeline, seconds: float) -> StageTimes | None:
    """Send samples through the parts of a pipeline one by one, all in this process.

    Args:
        pipeline: to be measured.
        seconds: about how long to read samples.

    Returns:
        the times per sample that came out; None if none did in this time.
    """
    reader = pipeline.reader
    next(reader.sampler.samples(0), None)  # the first sample may load the data
    end = time.perf_counter() + seconds
    source = _Timed("generator", _passes(reader.sampler))
    parts: list[_Timed[Any]] = [source]
    samples: Iterator[Sample] = takewhile(lambda _: time.perf_counter() < end, source)
    # New processors: those of the reader keep their state.
    processors = reader.pre_proc.create(pipeline.params, pipeline.data.params)
    for number, processor in enumerate(processors.processors):
        alone = ProcessorPipeline([(number, processor)])
        samples = _Timed(type(processor).__name__, alone.apply(samples, pipeline.seed))
        parts.append(samples)
    samples = filter(reader.filter.accepts, samples)
    groups = iter(lambda: list(islice(samples, reader.samples_per_batch)), [])
    batches = _Timed("batching", map(reader.stack, groups))
    transported = _Timed("transport", _transported(batches))
    trained = sum(batch.size for batch in transported)
    if trained == 0:
        return None
    stages, sources_s = [], 0.0
    for part, in_workers in zip([*parts, batches], _in_workers(reader), strict=True):
        stages.append(Stage(part.name, max(part.seconds - sources_s, 0.0) / trained, in_workers))
        sources_s = part.seconds
    return StageTimes(stages, max(transported.seconds - sources_s, 0.0) / trained)


def _in_workers(reader: PipelineReader) -> list[bool]:
    """Return which of generator, processors and batching worker processes can do."""
    parallel, total = len(reader.processors.parallel), len(reader.processors.processors)
    has_work = reader.workers_read or parallel > 0  # without work there are no workers
    of_processors = [number < parallel for number in range(total)]
    return [reader.workers_read, *of_processors, has_work and reader.workers_stack]


def _passes(sampler: Sampler) -> Iterator[Sample]:
    """Yield pass after pass, up to one without samples."""
    for pass_index in count():
        is_empty = True
        for _, sample in sampler.samples(pass_index):
            is_empty = False
            yield sample
        if is_empty:
            return


def _transported(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Send batches through shared memory, as between a worker process and this one."""
    slot = Slot(create_file())
    try:
        for batch in batches:
            received, _ = unpack(pack(batch, slot), slot)
            yield received
    finally:
        slot.close()


class _Timed(Iterator[T]):
    """Iterator whose reads are timed, with those of the iterators that it reads from.

    Args:
        name: of the part of the pipeline.
        items: passed on.
    """

    def __init__(self, name: str, items: Iterable[T]) -> None:
        self.name = name
        self.seconds = 0.0
        self._items = iter(items)

    def __next__(self) -> T:
        begin = time.perf_counter()
        try:
            return next(self._items)
        finally:
            self.seconds += time.perf_counter() - begin
