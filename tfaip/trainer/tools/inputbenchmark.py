"""Benchmark of the input pipeline of a training, printed line by line."""

from __future__ import annotations

import copy
import math
import os
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import cycle, islice, takewhile
from typing import Any

from tfaip.backend.active import backend
from tfaip.components.scenario import ScenarioComponents
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.benchmark import StageTimes, Throughput, measure_stages, measure_throughput, size_of
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.params.settings import flags_of
from tfaip.trainer.datasetup import create_training_pipeline
from tfaip.trainer.feed import Feeder
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.signals import StopRequest, TrainingInterrupted
from tfaip.util.logging import logger

STAGES_S = 2.0
CEILING_S = 1.0
REPORT_S = 1.0
CACHED_BATCHES = 32
CACHED_BYTES = 64 * 2**20
WARM_UP_S = 0.1
# No advice from this share of the possible rate on.
NEAR = 0.8
WORKER_COUNTS = (1, 2, 4, 8, 16, 32)

log = logger(__name__)


def benchmark_input(
    params: TrainerParams[Any, Any], scenario: ScenarioComponents[Any, Any], time_limit: float | None
) -> Throughput:
    """Measure the pipeline of the training data and print the results.

    Args:
        params: the trainer params.
        scenario: the scenario that would be trained.
        time_limit: seconds to read for; None: until a signal.

    Returns:
        The number and rate of samples and batches.

    Raises:
        TrainingInterrupted: after Ctrl-C or SIGTERM, when all has been printed.
    """
    seeded = copy.copy(params)
    seeded.random_seed = params.random_seed or 0
    with flags_of(seeded, "trainer"):
        pipeline = create_training_pipeline(seeded, scenario)
    with StopRequest() as stop:
        times = _stage_times(pipeline)
        if times is not None:
            _print(stage_lines(times))
        ceiling = measure_ceiling(pipeline, CEILING_S)
        log.info("the training can read %s samples/s if batches are ready", f"{ceiling:,.0f}")
        end = "until Ctrl-C" if time_limit is None else f"for {time_limit:g} s"
        log.info("reading %s:", end)
        done = measure_throughput(pipeline, LiveReport(pipeline, stop, time_limit))
        _print(summary_lines(done, pipeline))
        if times is not None:
            _print(advice(times, done.samples_per_s, ceiling))
        if stop.received is not None:
            raise TrainingInterrupted(stop.received)
    return done


def _stage_times(pipeline: DataPipeline) -> StageTimes | None:
    try:
        return measure_stages(pipeline, STAGES_S)
    except Exception as error:
        if pipeline.params.allowed_failures() == 0:
            raise
        log.warning("the parts are not timed, since a sample failed: %s: %s", type(error).__name__, error)
        return None


class LiveReport:
    """Report of the rate, once per second, and decision when to stop.

    Args:
        pipeline: the measured pipeline.
        stop: the stop request of a signal.
        time_limit: seconds to read for; None: until a signal.
    """

    def __init__(self, pipeline: DataPipeline, stop: StopRequest, time_limit: float | None) -> None:
        self._pipeline = pipeline
        self._stop = stop
        self._time_limit = math.inf if time_limit is None else time_limit
        self._next_s = REPORT_S
        self._last = (0.0, 0.0, 0.0)

    def __call__(self, done: Throughput) -> bool:
        """Return True to stop reading."""
        if done.seconds >= self._next_s:
            log.info("%s%s", rate_line(done), self._worker_load())
            self._next_s = done.seconds + REPORT_S
        return self._stop.received is not None or done.seconds >= self._time_limit

    def _worker_load(self) -> str:
        """Return the load of the workers since the last report as the end of a line; empty without workers."""
        stats = self._pipeline.worker_stats()
        if stats is None:
            return ""
        now = (time.perf_counter() - stats.started, stats.busy_s, stats.wait_s)
        seconds, busy, wait = (new - old for new, old in zip(now, self._last, strict=True))
        self._last = now
        shares = f"{busy / (seconds * stats.workers):.0%} busy, waited for {wait / seconds:.0%} of the time"
        return f"   {stats.workers} workers {shares}"


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        log.info("%s", line)


def stage_lines(times: StageTimes) -> Iterator[str]:
    """Yield a table of the time per sample."""
    yield "time per sample in one process:"
    for stage in times.stages:
        share, where = stage.sample_s / times.sample_s, "  can run in workers" if stage.in_workers else ""
        yield f"  {stage.name:30} {stage.sample_s * 1e3:10.4f} ms {share:5.0%}{where}"
    yield f"  {'together':30} {times.sample_s * 1e3:10.4f} ms  {times.samples_per_s(0):,.0f} samples/s"
    yield f"  {'transport, with workers':30} {times.transport_s * 1e3:10.4f} ms"


def rate_line(done: Throughput) -> str:
    """Return the rate so far."""
    rate = f"{done.samples_per_s:12,.0f} samples/s {done.mb_per_s:9,.1f} MB/s"
    return f"{done.seconds:6.1f} s {rate}   longest wait for a batch {done.longest_s * 1e3:,.1f} ms"


def summary_lines(done: Throughput, pipeline: DataPipeline) -> Iterator[str]:
    """Yield the totals, and the samples that were dropped."""
    yield (
        f"{done.samples:,} samples in {done.batches:,} batches: {done.samples_per_s:,.0f} samples/s, "
        f"{done.mb_per_s:,.1f} MB/s; the first batch came after {done.first_s:.2f} s"
    )
    dropped = pipeline.dropped
    if dropped.total:
        yield (
            f"dropped while measuring: {dropped.invalid} invalid samples, {dropped.failed} that failed, "
            f"{dropped.too_long} too long ones"
        )


def advice(times: StageTimes, rate: float, ceiling: float) -> Iterator[str]:
    """Yield what to change if the training waits for its data.

    Args:
        times: time of each stage in one process.
        rate: samples per second of the whole pipeline.
        ceiling: samples per second of batches that are ready.
    """
    if rate >= NEAR * ceiling:
        yield "the pipeline is about as fast as the training can read: only larger batches may help"
        return
    slowest = max(times.stages, key=lambda stage: stage.sample_s)
    yield f"most of the time goes into {slowest.name} ({slowest.sample_s / times.sample_s:.0%})"
    if slowest.in_workers:
        counts = [count for count in WORKER_COUNTS if count <= (os.cpu_count() or 1)]
        rates = ", ".join(f"{count}: {times.samples_per_s(count):,.0f}" for count in counts)
        yield f"at most so many samples/s with workers (--train.num_processes): {rates}"
    else:
        yield f"{slowest.name} cannot run in workers here: make it faster, or see docs/data.md"


def measure_ceiling(pipeline: DataPipeline, seconds: float) -> float:
    """Return the samples per second that `fit` could read if making batches took no time.

    Args:
        pipeline: gives some batches, which are repeated.
        seconds: approximate duration.
    """
    cached = _some_batches(pipeline)
    _feed(pipeline, cached, WARM_UP_S)
    return _feed(pipeline, cached, seconds)


def _feed(pipeline: DataPipeline, cached: list[Batch], seconds: float) -> float:
    given, begin = 0, 0.0

    def endless() -> Generator[tuple[Batch, None], None, None]:
        nonlocal given, begin
        begin = time.perf_counter()
        for batch in takewhile(lambda _: time.perf_counter() < begin + seconds, cycle(cached)):
            given += batch.size
            yield batch, None

    with Feeder(pipeline.data).feed(closing(endless()), pipeline.params.bucket_lengths()) as feed:
        backend.consume(feed.dataset)
    return given / (time.perf_counter() - begin)


def _some_batches(pipeline: DataPipeline) -> list[Batch]:
    cached: list[Batch] = []
    with pipeline.generate_input_batches(auto_repeat=False) as batches:
        for batch in islice(batches, CACHED_BATCHES):
            cached.append(batch)
            if sum(map(size_of, cached)) > CACHED_BYTES:
                break
    return cached
