"""Benchmark of the input pipeline of a training: where its time goes, and how many samples come out per second."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, islice, takewhile
from typing import Any, NamedTuple, TypeVar

from tfaip.components.scenario import ScenarioComponents
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.processor.dataprocessor import ProcessorPipeline
from tfaip.data.pipeline.sampler import Sampler
from tfaip.data.pipeline.workerpool import WorkerStats
from tfaip.params.settings import flags_of
from tfaip.trainer.datasets import create_training_pipeline
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.signals import StopRequest, TrainingInterrupted
from tfaip.util.logging import logger

T = TypeVar("T")

PARTS_S = 2.0
REPORT_S = 1.0

log = logger(__name__)


def benchmark_input(
    params: TrainerParams[Any, Any], scenario: ScenarioComponents[Any, Any], time_limit: float | None
) -> None:
    """Measure the pipeline of the training data, and log the time of its parts and a line per second.

    Args:
        params: the trainer params.
        scenario: the scenario that would be trained.
        time_limit: seconds to read for; None: until a signal.

    Raises:
        TrainingInterrupted: after Ctrl-C or SIGTERM, when all has been printed.
    """
    seeded = copy.copy(params)
    seeded.random_seed = params.random_seed or 0
    with flags_of(seeded, "trainer"):
        pipeline = create_training_pipeline(seeded, scenario)
    with StopRequest() as stop:
        log_parts(pipeline)
        log.info("reading %s:", "until Ctrl-C" if time_limit is None else f"for {time_limit:g} s")
        done, next_report_s = Throughput(), REPORT_S
        with pipeline.generate_input_batches(auto_repeat=True) as batches:
            while stop.received is None and (time_limit is None or done.seconds < time_limit):
                begin = time.perf_counter()
                batch = next(batches)
                done.add(batch, time.perf_counter() - begin)
                if done.seconds >= next_report_s:
                    next_report_s = done.seconds + REPORT_S
                    rates = f"{done.rate(done.samples):12,.0f} samples/s {done.rate(done.nbytes) / 1e6:9,.1f} MB/s"
                    wait = f"longest wait for a batch {done.longest_s * 1e3:,.1f} ms"
                    log.info("%6.1f s %s   %s%s", done.seconds, rates, wait, _load(pipeline.worker_stats()))
        log.info("%s", done)
        if pipeline.dropped.total:
            log.info("dropped while measuring: %s", pipeline.dropped)
        if stop.received is not None:
            raise TrainingInterrupted(stop.received)


@dataclass
class Throughput:
    """Batches that came out of a pipeline.

    Args:
        seconds: since the first batch was requested.
        batches: number of batches.
        samples: number of samples in them.
        nbytes: of their arrays.
        first_s: seconds until the first batch, which waits for workers to start.
        longest_s: longest time between two later batches.
    """

    seconds: float = 0.0
    batches: int = 0
    samples: int = 0
    nbytes: int = 0
    first_s: float = 0.0
    longest_s: float = 0.0

    def add(self, batch: Batch, seconds: float) -> None:
        """Count a batch that came this time after the one before."""
        if self.batches == 0:
            self.first_s = seconds
        else:
            self.longest_s = max(self.longest_s, seconds)
        self.seconds += seconds
        self.batches += 1
        self.samples += batch.size
        self.nbytes += sum(array.nbytes for array in [*batch.inputs.values(), *batch.targets.values()])

    def rate(self, amount: int) -> float:
        """Return an amount per second after the first batch."""
        seconds = self.seconds - self.first_s
        return amount * (1 - 1 / self.batches) / seconds if seconds > 0 else 0.0

    def __str__(self) -> str:
        rates = f"{self.rate(self.samples):,.0f} samples/s, {self.rate(self.nbytes) / 1e6:,.1f} MB/s"
        count = f"{self.samples:,} samples in {self.batches:,} batches"
        return f"{count}: {rates}; the first batch came after {self.first_s:.2f} s"


def _load(stats: WorkerStats | None) -> str:
    """Return the load of the workers as the end of a line; empty without workers."""
    if stats is None:
        return ""
    seconds = time.perf_counter() - stats.started
    shares = f"{stats.busy_s / (seconds * stats.workers):.0%} busy, waited for {stats.wait_s / seconds:.0%} of the time"
    return f"   {stats.workers} workers {shares}"


class Part(NamedTuple):
    """Seconds that a part of a pipeline takes for a sample that is trained, and if worker processes can do it."""

    name: str
    sample_s: float
    in_workers: bool


def log_parts(pipeline: DataPipeline) -> None:
    """Log a table of the time per sample, unless no sample comes out."""
    try:
        parts = measure_parts(pipeline, PARTS_S)
    except Exception as error:
        if pipeline.params.allowed_failures() == 0:
            raise
        log.warning("the parts are not timed, since a sample failed: %s: %s", type(error).__name__, error)
        return
    total = sum(part.sample_s for part in parts)
    if not total:
        return
    log.info("time per sample in one process:")
    for name, sample_s, in_workers in parts:
        where = "  can run in workers" if in_workers else ""
        log.info("  %-30s %10.4f ms %4.0f%%%s", name, sample_s * 1e3, 100 * sample_s / total, where)
    log.info("  %-30s %10.4f ms  %s samples/s", "together", total * 1e3, f"{1 / total:,.0f}")


def measure_parts(pipeline: DataPipeline, seconds: float) -> list[Part]:
    """Send samples through the parts of a pipeline one by one, all in this process, for about so many seconds."""
    reader = pipeline._sample_stream
    next(reader.sampler.samples(0), None)  # the first sample may load the data
    end = time.perf_counter() + seconds
    timed: list[_Timed[Any]] = [_Timed("generator", _passes(reader.sampler))]
    samples: Iterator[Sample] = takewhile(lambda _: time.perf_counter() < end, timed[0])
    # New processors: those of the reader keep their state.
    processors = pipeline._input_processors.create(pipeline.params, pipeline.data.params)
    for number, processor in enumerate(processors.processors):
        alone = ProcessorPipeline([(number, processor)])
        samples = _Timed(type(processor).__name__, alone.apply(samples, pipeline.seed))
        timed.append(samples)
    samples = filter(reader.filter.accepts, samples)
    groups = iter(lambda: list(islice(samples, reader.samples_per_batch)), [])
    batches = _Timed("batching", map(reader.stack, groups))
    trained = sum(batch.size for batch in batches)
    parallel = len(reader.processors.parallel)
    has_workers = reader.workers_read or parallel > 0  # without work there are none
    in_workers = [reader.workers_read, *(number < parallel for number in range(len(processors.processors)))]
    parts, sources_s = [], 0.0
    for part, is_parallel in zip([*timed, batches], [*in_workers, has_workers and reader.workers_stack], strict=True):
        parts.append(Part(part.name, max(part.seconds - sources_s, 0.0) / max(trained, 1), is_parallel))
        sources_s = part.seconds
    return parts if trained else []


def _passes(sampler: Sampler) -> Iterator[Sample]:
    """Yield pass after pass, up to one without samples."""
    for pass_index in count():
        is_empty = True
        for sample in sampler.samples(pass_index):
            is_empty = False
            yield sample
        if is_empty:
            return


class _Timed(Iterator[T]):
    """Iterator whose reads are timed, with those of the iterators that it reads from."""

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
