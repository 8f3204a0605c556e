"""The benchmark of the input pipeline of a training, as it is printed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import keras

from tfaip.data.pipeline.benchmark import StageTimes, Throughput, measure_ceiling, measure_stages, measure_throughput
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.trainer.build import data_pipeline
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.signals import StopRequest, TrainingInterrupted
from tfaip.util.logging import logger

STAGES_S = 2.0
CEILING_S = 1.0
REPORT_S = 1.0
# From this share of what can be reached on, nothing is advised.
NEAR = 0.8
WORKER_COUNTS = (1, 2, 4, 8, 16, 32)

log = logger(__name__)


def benchmark_input(
    params: TrainerParams[Any, Any], scenario: ScenarioBase[Any, Any], time_limit: float | None
) -> Throughput:
    """Measure the pipeline of the training data and print what comes out.

    Args:
        params: the params of the training.
        scenario: what would be trained.
        time_limit: seconds to read for; None: until a signal comes.

    Returns:
        what was read.

    Raises:
        TrainingInterrupted: after Ctrl-C or SIGTERM, when all has been printed.
    """
    params.random_seed = params.random_seed or 0
    pipeline = data_pipeline(params, scenario, PipelineMode.TRAINING)
    with StopRequest() as stop:
        times = _stage_times(pipeline)
        if times is not None:
            _print(stage_lines(times))
        ceiling = measure_ceiling(pipeline, keras.backend.backend(), CEILING_S)
        log.info("the training can read %s samples/s if batches are ready", f"{ceiling:,.0f}")
        log.info("reading%s:", " until Ctrl-C" if time_limit is None else f" for {time_limit:g} s")
        next_report = REPORT_S
        load = WorkerLoad(pipeline)

        def should_stop(done: Throughput) -> bool:
            nonlocal next_report
            if done.seconds >= next_report:
                log.info("%s%s", rate_line(done), load.since_last())
                next_report = done.seconds + REPORT_S
            return stop.received is not None or (time_limit is not None and done.seconds >= time_limit)

        done = measure_throughput(pipeline, should_stop)
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


class WorkerLoad:
    """How busy the workers of a pipeline are, and how long their reader waits for them."""

    def __init__(self, pipeline: DataPipeline) -> None:
        self._pipeline = pipeline
        self._then = (0.0, 0.0, 0.0)

    def since_last(self) -> str:
        """What happened since the last call, for the end of a line; empty without workers."""
        stats = self._pipeline.worker_stats()
        if stats is None:
            return ""
        now = (time.perf_counter() - stats.started, stats.busy_s, stats.wait_s)
        seconds, busy, wait = (new - old for new, old in zip(now, self._then, strict=True))
        self._then = now
        shares = f"{busy / (seconds * stats.workers):.0%} busy, waited for {wait / seconds:.0%} of the time"
        return f"   {stats.workers} workers {shares}"


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        log.info("%s", line)


def stage_lines(times: StageTimes) -> Iterator[str]:
    """A table of the time per sample."""
    yield "time per sample in one process:"
    for stage in times.stages:
        share, where = stage.sample_s / times.sample_s, "  can run in workers" if stage.in_workers else ""
        yield f"  {stage.name:30} {stage.sample_s * 1e3:10.4f} ms {share:5.0%}{where}"
    yield f"  {'together':30} {times.sample_s * 1e3:10.4f} ms  {times.samples_per_s(0):,.0f} samples/s"
    yield f"  {'transport, with workers':30} {times.transport_s * 1e3:10.4f} ms"


def rate_line(done: Throughput) -> str:
    """How fast it is so far."""
    rate = f"{done.samples_per_s:12,.0f} samples/s {done.mb_per_s:9,.1f} MB/s"
    return f"{done.seconds:6.1f} s {rate}   longest wait for a batch {done.longest_s * 1e3:,.1f} ms"


def summary_lines(done: Throughput, pipeline: DataPipeline) -> Iterator[str]:
    """What was read, and what was not."""
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
    """What to change if the training waits for its data.

    Args:
        times: where the time goes in one process.
        rate: samples per second of the whole pipeline.
        ceiling: of batches that are ready.
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
