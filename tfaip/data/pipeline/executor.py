"""Executor of blocks, in this process or in worker processes (the bytes are the same), and prefetching in a thread."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import count, islice
from typing import Any, Generic, TypeVar

from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.definitions import Outcome, Sample, SampleSpecs
from tfaip.data.pipeline.failures import DropCounts, SampleFilter, as_failure
from tfaip.data.pipeline.params import DataPipelineParams, available_cores
from tfaip.data.pipeline.processor.params import DataProcessorPipelineParams
from tfaip.data.pipeline.processor.pipeline import ProcessorPipeline
from tfaip.data.pipeline.sampler import Block, Segment
from tfaip.data.pipeline.worker import BlockProcessor, BlockResult, WorkerSpec
from tfaip.data.pipeline.workerpool import WorkerDied, WorkerPool, WorkerStats
from tfaip.util.logging import logger

AUTOMATIC_START_S = 1.0
WORTHWHILE_S = 100e-6
"""A sample with less work than this is not worth the transport to another process and back."""

T = TypeVar("T")

_END: Any = object()

log = logger(__name__)


class BlockExecutor:
    """Executor of blocks; `close` ends the workers.

    Workers may start late, see `DataPipelineParams.worker_start_s`: until then, and while they
    start, blocks are processed in this process. By default a second of work decides, since the
    bytes are the same: small data never pay for a process, and the first batch never waits for one.

    Args:
        processors: run in this process.
        spec: what workers do, up to `processors.parallel`.
        generator: source of the samples in this process; None: the blocks contain them.
    """

    def __init__(
        self, processors: ProcessorPipeline, spec: WorkerSpec, generator: DataGenerator[Any] | None = None
    ) -> None:
        self._local = BlockProcessor(
            generator, processors.mapper, spec.seed, None if processors.processors else spec.batcher
        )
        self._processors = processors
        self._spec = spec
        self.cuts_batches = self._local.arrays is not None
        """True if whole batches are cut from arrays in this process."""
        params = spec.pipeline_params
        number, self._start_s = params.num_processes, params.worker_start_s
        # A 4 that the user typed cannot be told from the default; docs/data.md says how to get 4.
        if params.has_default_workers():  # only the default number is limited to the cores
            cores = available_cores()
            number = min(number, cores) if cores > 1 else 0
        elif self._start_s < 0:
            self._start_s = 0.0
        has_work = (spec.generator_params is not None or processors.parallel) and not self.cuts_batches
        self._num_workers = spec.processors.worker_limit(number) if number and has_work else 0
        self._pool: WorkerPool | None = None
        self._seconds = 0.0
        self._samples = 0

    @property
    def stats(self) -> WorkerStats | None:
        """Work of the workers so far; None: there are none."""
        return None if self._pool is None else self._pool.stats

    def close(self) -> None:
        """End the workers; the next block starts new ones if they are due."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def in_samples(self, block: Block) -> BlockResult:
        """Process a block in this process, and do not stack it."""
        block.stacked = False
        return self._local.process(block)

    def execute(self, blocks: Iterable[Block]) -> Iterator[BlockResult]:
        """Process blocks, in order.

        Args:
            blocks: may be endless; workers read ahead.

        Raises:
            WorkerDied: if a worker ended or hangs.
        """
        blocks = iter(blocks)
        is_first = True
        try:
            # In this process until workers are ready, if they ever are.
            while not self._workers_are_ready():
                block = next(blocks, None)
                if block is None:
                    return
                begin = time.perf_counter()
                result = self._local.process(block)
                if not is_first:  # the first one may have loaded the data
                    self._seconds += time.perf_counter() - begin
                    self._samples += block.size
                is_first = False
                yield result
            if self._pool is not None:
                yield from map(self._completed, self._pool.execute(blocks))
        except WorkerDied:
            self.close()
            raise

    def _workers_are_ready(self) -> bool:
        if self._num_workers == 0:
            return False
        due_s = self._start_s
        if due_s < 0:
            due_s = max(AUTOMATIC_START_S, self._samples * WORTHWHILE_S)
        if self._pool is None and self._seconds >= due_s:
            try:
                self._pool = WorkerPool(self._spec, self._num_workers, self._prepare)
                log.debug("%d data workers started", self._num_workers)
            except Exception as error:
                self._num_workers = 0
                log.warning(
                    "samples are processed in the training process, since no workers could be started: %s: %s",
                    type(error).__name__,
                    error,
                )
        return self._pool is not None and (self._start_s == 0 or self._pool.is_ready())

    def _prepare(self, block: Block) -> Block:
        """Return a block that contains its samples, unless workers read them."""
        if self._spec.generator_params is not None:
            return block
        segments = [replace(segment, items=list(self._local.raw_samples(segment))) for segment in block.segments]
        return replace(block, segments=segments)

    def _completed(self, result: BlockResult) -> BlockResult:
        """Run the mapping processors that must not run in workers."""
        mapper = self._processors.after_parallel
        if not mapper:
            return result
        completed: list[Outcome] = []
        for segment, outcomes in result.segments():
            completed += mapper.outcomes(outcomes, self._spec.seed, segment.pass_index, segment.first)
        return BlockResult(result.block, completed)


class PostProcessor:
    """Runs the post-processors of a pipeline; `close` ends its workers.

    Args:
        params: of the pipeline.
        data: has the params that the processors get.
        seed: of the data.
        drops: counts samples that failed.
        post_proc: the processors.
    """

    def __init__(
        self,
        params: DataPipelineParams,
        data: SampleSpecs,
        seed: int,
        drops: DropCounts,
        post_proc: DataProcessorPipelineParams,
    ) -> None:
        self._params = params
        self._seed = seed
        self._drops = drops
        self._processors = post_proc.create(params, data.params)
        self._executor = BlockExecutor(self._processors, WorkerSpec(params, data.params, post_proc, seed))

    def process(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Process samples in order; invalid ones are left out."""
        failures = SampleFilter(self._params.allowed_failures(), self._drops)
        return self._processors.stream(self._mapped(samples, failures), self._seed, 0, failures.keeps)

    def close(self) -> None:
        """End the workers."""
        self._executor.close()

    def _mapped(self, samples: Iterable[Sample], failures: SampleFilter) -> Iterator[Sample]:
        def blocks() -> Iterator[Block]:
            iterator, size = iter(samples), self._params.batch_size
            for first in count(step=size):
                items = list(islice(iterator, size))
                if not items:
                    return
                yield Block([Segment(0, first, items)])

        for result in self._executor.execute(blocks()):
            yield from filter(failures.keeps, result.outcomes)


class Prefetcher(Iterator[T], Generic[T]):
    """Iterator that makes items in a thread while the reader works with earlier ones.

    The thread starts with the first item that is requested and has ended when `close` returns.

    Args:
        items: runs in the thread; its errors are raised to the reader, after the items before them.
        buffer_size: number of finished items that may wait for the reader.
    """

    def __init__(self, items: Iterator[T], buffer_size: int) -> None:
        self._items = items
        self._ahead = buffer_size + 2  # the one for the reader, and one that is being made
        self._futures: deque[Future[Any]] = deque()
        self._thread = ThreadPoolExecutor(1, "tfaip-prefetch")
        self._ended = False

    def __next__(self) -> T:
        while not self._ended and len(self._futures) < self._ahead:
            self._futures.append(self._thread.submit(self._make))
        item = self._futures.popleft().result() if self._futures else _END
        if item is _END:
            self._ended = True
            self._futures.clear()
            raise StopIteration
        made: T = item
        return made

    def close(self) -> None:
        """Wait until the thread has finished its current item, and discard the items that were not read."""
        self._ended = True
        self._futures.clear()
        self._thread.shutdown(cancel_futures=True)

    def _make(self) -> Any:
        try:
            return next(self._items, _END)
        except BaseException as error:  # of any kind: the reader gets it
            self._items = iter(())
            raise as_failure(error)  # noqa: B904 (it has its cause)
