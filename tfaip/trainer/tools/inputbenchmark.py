"""Benchmark of the input pipeline of a training: where its time goes, and how many samples come out per second."""

import time
from collections.abc import Iterable, Iterator
from itertools import chain, islice, takewhile
from typing import Any, TypeVar

from tfaip.components.scenario import ScenarioComponents
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.processor.dataprocessor import ProcessorPipeline
from tfaip.params.settings import flags_of
from tfaip.trainer.datasets import create_training_pipeline
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.signals import StopRequest, TrainingInterrupted
from tfaip.util.logging import logger

T = TypeVar("T")

PARTS_S = 2.0
REPORT_S = 1.0
_MAX_PASSES = 1000

log = logger(__name__)


def benchmark_input(
    params: TrainerParams[Any, Any], scenario: ScenarioComponents[Any, Any], time_limit: float | None
) -> None:
    """Measure the pipeline of the training data, and log the time of its parts and a line per second.

    Args:
        time_limit: seconds to read for; None: until a signal.

    Raises:
        TrainingInterrupted: after Ctrl-C or SIGTERM, when all has been printed.
    """
    params.random_seed = params.random_seed or 0
    with flags_of(params, "trainer"):
        pipeline = create_training_pipeline(params, scenario)
    with StopRequest() as stop:
        if pipeline.params.allowed_failures() == 0:  # else a sample may fail, which only workers and streams leave out
            log_parts(pipeline)
        log.info("reading %s:", "until Ctrl-C" if time_limit is None else f"for {time_limit:g} s")
        with pipeline.generate_input_batches(auto_repeat=True) as batches:
            started = time.perf_counter()
            next(batches)  # waits for workers to start
            begin = shown = time.perf_counter()
            samples, is_done = 0, False
            while not is_done:
                samples += next(batches).size
                now = time.perf_counter()
                is_done = stop.received is not None or (time_limit is not None and now - started >= time_limit)
                if is_done or now - shown >= REPORT_S:
                    log.info("%6.1f s %s samples/s", now - started, f"{samples / (now - begin):12,.0f}")
                    shown = now
        if pipeline.dropped.total:
            log.info("dropped while measuring: %s", pipeline.dropped)
        if stop.received is not None:
            raise TrainingInterrupted(stop.received)


def log_parts(pipeline: DataPipeline) -> None:
    """Log a table of the time per sample, unless no sample comes out."""
    parts = measure_parts(pipeline, PARTS_S)
    total = sum(sample_s for _, sample_s in parts)
    if total > 0:
        log.info("time per sample in one process:")
        for name, sample_s in parts:
            log.info("  %-30s %10.4f ms %4.0f%%", name, sample_s * 1e3, 100 * sample_s / total)
        log.info("  %-30s %10.4f ms  %s samples/s", "together", total * 1e3, f"{1 / total:,.0f}")


def measure_parts(pipeline: DataPipeline, seconds: float) -> list[tuple[str, float]]:
    """Send samples through the parts of a pipeline one by one, in this process, for about so many seconds.

    Returns:
        Name of each part, and its seconds for a sample that is trained; empty if there is none.
    """
    reader = pipeline._sample_stream
    next(reader.sampler.samples(0), None)  # the first sample may load the data
    end = time.perf_counter() + seconds
    timed: list[_Timed[Any]] = [
        _Timed("generator", chain.from_iterable(map(reader.sampler.samples, range(_MAX_PASSES))))
    ]
    samples: Iterator[Sample] = takewhile(lambda _: time.perf_counter() < end, timed[0])
    # New processors: those of the reader keep their state.
    processors = pipeline._input_processors.create(pipeline.params, pipeline.data.params)
    for number, processor in enumerate(processors.processors):
        alone = ProcessorPipeline([(number, processor)])
        samples = _Timed(type(processor).__name__, alone.apply(samples, pipeline.seed))
        timed.append(samples)
    samples = filter(reader.filter.accepts, samples)
    groups = iter(lambda: list(islice(samples, reader.samples_per_batch)), [])
    timed.append(_Timed("batching", map(reader.stack, groups)))
    trained = sum(batch.size for batch in timed[-1])
    # The time of a part includes that of the part that it reads from.
    own = [part.seconds - before for part, before in zip(timed, [0.0, *(part.seconds for part in timed)], strict=False)]
    return [(part.name, max(part_s, 0.0) / trained) for part, part_s in zip(timed, own, strict=True) if trained]


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
