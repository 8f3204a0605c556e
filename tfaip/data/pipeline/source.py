"""Where processed blocks come from: this process, or worker processes. The bytes are the same."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator

from tfaip.data.databaseparams import DataPipelineParams
from tfaip.data.pipeline.blocks import Block, BlockMaker, Result, Run, map_run
from tfaip.data.pipeline.processor.pipeline import ProcessorPipeline
from tfaip.data.pipeline.workers.pool import WorkerPool, WorkerSettings, WorkerStats
from tfaip.data.pipeline.workers.process import WorkerDied
from tfaip.data.pipeline.workers.recipe import Recipe
from tfaip.util.logging import logger

AUTOMATIC_START_S = 1.0
WORTHWHILE_S = 100e-6
"""Less work on a sample than this is not worth the way to another process and back."""

log = logger(__name__)


class BlockSource:
    """Gives processed blocks; `close` ends the workers.

    Workers may start late, see `DataPipelineParams.worker_start_s`: until then, and while they start, blocks are made
    in this process.

    Args:
        here: makes blocks in this process.
        processors: those that `here` runs.
        recipe: how workers make them, up to `processors.parallel`.
    """

    def __init__(self, here: BlockMaker, processors: ProcessorPipeline, recipe: Recipe) -> None:
        self._here = here
        self._processors = processors
        self._recipe = recipe
        workers_read = recipe.generator_params is not None
        self._settings = _worker_settings(recipe) if workers_read or processors.parallel else None
        self._start_s = _start_s(recipe.pipeline_params)
        self._pool: WorkerPool | None = None
        self._seconds = 0.0
        self._samples = 0

    @property
    def stats(self) -> WorkerStats | None:
        """What the workers have done; None: there are none."""
        return None if self._pool is None else self._pool.stats

    def close(self) -> None:
        """End the workers; the next block starts new ones if they are due."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def results(self, blocks: Iterable[Block], seed: int, as_batches: bool) -> Iterator[Result]:
        """Process blocks, in order.

        Args:
            blocks: may be endless; workers read ahead.
            seed: of the data.
            as_batches: workers shall stack each block.

        Raises:
            WorkerDied: a worker ended or hangs.
        """
        blocks = iter(blocks)
        try:
            yield from self._results_here(blocks, seed)
            if self._pool is not None:
                for result in self._pool.results(blocks, seed, as_batches):
                    yield self._completed(result, seed)
        except WorkerDied:
            self.close()
            raise

    def _results_here(self, blocks: Iterator[Block], seed: int) -> Iterator[Result]:
        """Results up to the moment when workers are there, if they ever are."""
        is_first = True
        while not self._workers_are_ready():
            block = next(blocks, None)
            if block is None:
                return
            begin = time.perf_counter()
            result = self._here.make(block, seed)
            if not is_first:  # which may have loaded the data
                self._seconds += time.perf_counter() - begin
                self._samples += block.size
            is_first = False
            yield result

    def _workers_are_ready(self) -> bool:
        if self._settings is None:
            return False
        if self._pool is None and self._workers_are_due():
            self._start(self._settings)
        return self._pool is not None and (self._start_s == 0 or self._pool.is_ready())

    def _workers_are_due(self) -> bool:
        if self._start_s is not None:
            return self._seconds >= self._start_s
        return self._seconds >= max(AUTOMATIC_START_S, self._samples * WORTHWHILE_S)

    def _start(self, settings: WorkerSettings) -> None:
        try:
            self._pool = WorkerPool(self._recipe, settings, self._prepared)
        except WorkerDied:
            raise
        except Exception as error:
            self._settings = None
            log.warning(
                "samples are processed in the training process, since no workers could be started: %s: %s",
                type(error).__name__,
                error,
            )
        else:
            log.debug("%d data workers started", settings.count)

    def _prepared(self, block: Block) -> Block:
        """A block that brings its samples along, unless workers read them."""
        if self._recipe.generator_params is not None:
            return block
        runs = [Run(run.pass_index, run.first, list(self._here.raw_samples(run))) for run in block.runs]
        return Block(runs)

    def _completed(self, result: Result, seed: int) -> Result:
        """Run the mapping processors that may not run in workers."""
        mapper = self._processors.behind_parallel
        if not mapper:
            return result
        outcomes = [o for run, part in result.runs() for o in map_run(mapper, run, part, seed)]
        return Result(result.block, outcomes)


def _start_s(params: DataPipelineParams) -> float | None:
    """After how much work in this process workers start; None: when it is worthwhile."""
    if params.worker_start_s >= 0:
        return params.worker_start_s
    return None if params.has_default_workers() else 0.0


def _worker_settings(recipe: Recipe) -> WorkerSettings | None:
    """How many workers there may be; None: none.

    As many as the params say; only the default number is cut to what the machine has.
    """
    params = recipe.pipeline_params
    count = params.num_processes
    if params.has_default_workers():  # a given 4 looks like it; the docs say how to get four in any case
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        count = min(count, cores) if cores > 1 else 0
    if count == 0:
        return None
    return WorkerSettings(
        count=recipe.processors.worker_limit(count),
        blocks_ahead=params.prefetch if params.prefetch > 0 else None,
        timeout_s=params.worker_timeout_s,
        use_shared_memory=params.use_shared_memory,
        tasks_per_worker=recipe.processors.tasks_per_worker(),
    )
