"""How fast a data pipeline is, and where its time goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count, cycle, islice, takewhile
from typing import Any, TypeVar

from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.feed import Feed
from tfaip.data.pipeline.order import RawOrder
from tfaip.data.pipeline.processor.pipeline import ProcessorPipeline
from tfaip.data.pipeline.workers.memory import Slot, create_file, pack, unpack

T = TypeVar("T")

CACHED_BATCHES = 32
WARM_UP_S = 0.1
CACHED_BYTES = 64 * 2**20


@dataclass
class Stage:
    """The time of one part of a pipeline, when everything runs in one process.

    Args:
        name: of the part.
        sample_s: seconds per sample that is trained.
        in_workers: whether worker processes can do it.
    """

    name: str
    sample_s: float
    in_workers: bool


@dataclass
class StageTimes:
    """Where the time of a pipeline goes.

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
        """The most that a number of worker processes (0: none) can reach, with a CPU for each and one for training."""
        if workers == 0:
            return 1 / self.sample_s
        parallel = sum(stage.sample_s for stage in self.stages if stage.in_workers)
        return 1 / max(parallel / workers, self.sample_s - parallel + self.transport_s)


@dataclass
class Throughput:
    """What came out of a pipeline.

    Args:
        seconds: since the first batch was asked for.
        batches: number of batches.
        samples: in these batches.
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
        """Behind the first batch, which waits for all that has to start."""
        return self._rate(self.samples)

    @property
    def mb_per_s(self) -> float:
        """The same in megabytes."""
        return self._rate(self.nbytes) / 1e6

    def _rate(self, amount: int) -> float:
        seconds = self.seconds - self.first_s
        return amount * (1 - 1 / self.batches) / seconds if self.batches > 1 and seconds > 0 else 0.0

    def add(self, batch: Batch, seconds: float) -> None:
        """Count a batch that came this long after the one before."""
        if self.batches == 0:
            self.first_s = seconds
        else:
            self.longest_s = max(self.longest_s, seconds)
        self.seconds += seconds
        self.batches += 1
        self.samples += batch.size
        self.nbytes += size_of(batch)


def size_of(batch: Batch) -> int:
    """Bytes of the arrays of a batch."""
    return sum(array.nbytes for part in (batch.inputs, batch.targets) for array in part.values())


def measure_throughput(pipeline: DataPipeline, should_stop: Callable[[Throughput], bool]) -> Throughput:
    """Read batches as fast as they come, pass after pass.

    Args:
        pipeline: what to read.
        should_stop: asked after every batch.
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
    """Take samples through the parts of a pipeline one by one, all in this process.

    Args:
        pipeline: what to measure.
        seconds: about how long to read samples.

    Returns:
        the times per sample that came out; None if none did in this time.
    """
    generator, params = pipeline.generator, pipeline.params
    order = RawOrder(generator, params, pipeline.mode, pipeline.seed)
    next(order.samples(0), None)  # the first sample may load the data
    clock = _Clock()
    end = time.perf_counter() + seconds
    raw = clock.timed("generator", _passes(order))
    samples: Iterator[Sample] = takewhile(lambda _: time.perf_counter() < end, raw)
    processors = pipeline.data.params.pre_proc.create(params, pipeline.data.params)
    for number, processor in enumerate(processors.processors):
        alone = ProcessorPipeline([(number, processor)])
        samples = clock.timed(type(processor).__name__, alone.apply(samples, pipeline.seed))
    samples = filter(pipeline.accepts, samples)
    groups = iter(lambda: list(islice(samples, pipeline.samples_per_batch)), [])
    batches = clock.timed("batching", map(pipeline.stack, groups))
    transported = clock.timed("transport", _transported(batches))
    trained = sum(batch.size for batch in transported)
    if trained == 0:
        return None
    times = clock.own_times()
    parallel = len(processors.parallel)
    reads = pipeline.workers_can_read()
    stacks = (reads or parallel > 0) and pipeline.workers_can_stack()  # without work there are no workers
    in_workers = [reads, *(number < parallel for number in range(len(processors.processors))), stacks]
    stages = [Stage(name, own / trained, where) for (name, own), where in zip(times, in_workers, strict=False)]
    return StageTimes(stages, times[-1][1] / trained)


def _passes(order: RawOrder) -> Iterator[Sample]:
    """Pass after pass, up to one without samples."""
    for pass_index in count():
        is_empty = True
        for _, sample in order.samples(pass_index):
            is_empty = False
            yield sample
        if is_empty:
            return


def _transported(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Batches that went through shared memory, as between a worker process and this one."""
    slot = Slot(create_file())
    try:
        for batch in batches:
            received, _ = unpack(pack(batch, slot), slot)
            yield received
    finally:
        slot.close()


class _Clock:
    """Measures iterators that read from each other."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._times: list[float] = []

    def timed(self, name: str, items: Iterable[T]) -> Iterator[T]:
        """Pass items on; the time includes that of the iterators below."""
        place = len(self._names)
        self._names.append(name)
        self._times.append(0.0)
        return self._measured(place, iter(items))

    def _measured(self, place: int, items: Iterator[T]) -> Iterator[T]:
        while True:
            begin = time.perf_counter()
            try:
                item = next(items)
            except StopIteration:
                return
            finally:
                self._times[place] += time.perf_counter() - begin
            yield item

    def own_times(self) -> list[tuple[str, float]]:
        """Seconds of each iterator without those below it."""
        below = [0.0, *self._times]
        return [(n, max(t - b, 0.0)) for n, t, b in zip(self._names, self._times, below, strict=False)]


def measure_ceiling(pipeline: DataPipeline, backend: str, seconds: float) -> float:
    """Samples per second that `fit` could read if making batches took no time.

    Args:
        pipeline: gives some batches, which are repeated.
        backend: name of the Keras backend.
        seconds: about how long to measure.
    """
    cached = _some_batches(pipeline)
    _feed(pipeline, cached, backend, WARM_UP_S)
    return _feed(pipeline, cached, backend, seconds)


def _feed(pipeline: DataPipeline, cached: list[Batch], backend: str, seconds: float) -> float:
    given, begin = 0, 0.0

    def endless() -> Generator[tuple[Batch, None], None, None]:
        nonlocal given, begin
        begin = time.perf_counter()
        for batch in takewhile(lambda _: time.perf_counter() < begin + seconds, cycle(cached)):
            given += batch.size
            yield batch, None

    with Feed(closing(endless()), pipeline.data, backend, pipeline.params.bucket_lengths()) as feed:
        _read(feed.dataset, backend)
    return given / (time.perf_counter() - begin)


def _some_batches(pipeline: DataPipeline) -> list[Batch]:
    cached: list[Batch] = []
    with pipeline.generate_input_batches(auto_repeat=False) as batches:
        for batch in islice(batches, CACHED_BATCHES):
            cached.append(batch)
            if sum(map(size_of, cached)) > CACHED_BYTES:
                break
    return cached


def _read(dataset: Any, backend: str) -> None:
    if backend == "tensorflow":
        dataset.reduce(0, lambda count, _: count + 1)  # without Python, as `fit` does
        return
    import jax

    for (element,) in dataset:
        jax.block_until_ready(jax.device_put(element))
