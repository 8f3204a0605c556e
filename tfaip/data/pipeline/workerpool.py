"""Pool of worker processes that process blocks; the results come back in order.

There is no thread in the training process: the reader that requests a result sends new tasks and receives answers. A
bounded number of blocks is ahead of it, so that the memory does not depend on the length of an epoch.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import count, islice
from typing import Any, TypeVar

from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.params import available_cores
from tfaip.data.pipeline.processor.dataprocessor import ProcessorPipeline
from tfaip.data.pipeline.sampler import Block, DropCounts, SampleFilter, WorkerTraceback
from tfaip.data.pipeline.worker import (
    ALIVE,
    Answer,
    BlockProcessor,
    Slot,
    Start,
    WorkerSpec,
    main_script,
    pack,
    unpack,
)
from tfaip.errors import SIGNAL_EXIT_CODES, TfaipError
from tfaip.util.logging import ROOT, log_duration, logger

BLOCKS_PER_WORKER = 4
MAX_BYTES_AHEAD = 128 * 2**20
# A start imports NumPy and the user's modules, which a busy machine or a network disk delays.
START_TIMEOUT_S = 60.0

log = logger(__name__)


class WorkerPool:
    """Worker processes, started at once; `close` ends them.

    Args:
        spec: their work, and the params of the pipeline.
        count: number of processes, from 1.
        prepare: returns a block in a form that can be sent.

    Raises:
        Exception: if the spec cannot be sent to another process.
    """

    def __init__(self, spec: WorkerSpec, count: int, prepare: Callable[[Block], Block]) -> None:
        self._spec = pickle.dumps(spec)
        self._script = main_script(self._spec)
        self._params = spec.pipeline_params
        self._tasks_per_worker = spec.processors.tasks_per_worker()
        self._prepare = prepare
        self._blocks_ahead = self._params.prefetch
        if self._blocks_ahead == -1:  # as few as possible until the size of a block is known
            self._blocks_ahead = count + 1
        self._slots_per_worker = max(BLOCKS_PER_WORKER, -(-self._blocks_ahead // count))
        self._num_started = self._turn = 0
        self._has_result = False
        self._workers: list[WorkerProcess] = []
        try:
            for index in range(count):
                self._start_worker(index)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all workers at once."""
        while self._workers:
            self._workers.pop().end()

    def is_ready(self) -> bool:
        """Return True if all workers have started; does not wait.

        Raises:
            WorkerDied: if a worker could not start.
        """
        for worker in self._workers:
            if not worker.is_ready and worker.connection.poll():
                worker.receive(0)
        return all(worker.is_ready for worker in self._workers)

    def execute(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Process blocks; one iterator at a time.

        Args:
            blocks: may be endless; read ahead of the results.

        Raises:
            WorkerDied: if a worker ended or hangs.
        """
        blocks = iter(blocks)
        # The tasks of an iterator that was left early are finished too, and their results forgotten.
        waiting: deque[tuple[WorkerProcess, Block]] = deque()
        has_ended = False
        while True:
            while not has_ended and len(waiting) < self._blocks_ahead:
                block = next(blocks, None)
                if block is None:
                    has_ended = True
                else:
                    waiting.append(self._send(block))
            if not waiting:
                return
            # Only now: a stream may wait for a result before it gives the next samples.
            yield self._result(*waiting.popleft())

    def _start_worker(self, index: int) -> WorkerProcess:
        """Start a worker in this place, possibly after one that has ended."""
        self._num_started += 1
        params = self._params
        num_slots = self._slots_per_worker if params.use_shared_memory else 0
        worker = WorkerProcess(self._num_started, num_slots, params.worker_timeout_s)
        self._workers[index : index + 1] = [worker]
        level = logging.getLogger(ROOT).getEffectiveLevel()
        start: Start = worker.name, self._script, self._spec, level
        worker.send(pickle.dumps(start))
        return worker

    def _send(self, block: Block) -> tuple[WorkerProcess, Block]:
        """Send a block to the workers in turns, and wait for room if they have tasks of an iterator that was left."""
        index, self._turn = self._turn, (self._turn + 1) % len(self._workers)
        worker = self._workers[index]
        is_used_up = self._tasks_per_worker is not None and worker.num_taken >= self._tasks_per_worker
        while len(worker.tasks) >= (1 if is_used_up else self._slots_per_worker):
            worker.receive(self._params.worker_timeout_s)
        if is_used_up:
            worker.end()
            worker = self._start_worker(index)
        try:
            content = pack(self._prepare(block), worker.slot(worker.num_taken))
        except Exception as error:
            error.add_note("while raw samples were sent to a worker process; num_processes 0 works without")
            raise
        worker.tasks.append(block)
        worker.num_taken += 1
        worker.send(content)
        return worker, block

    def _result(self, worker: WorkerProcess, block: Block) -> Block:
        begin = time.perf_counter()
        while block.outcomes is None and block.batch is None:
            worker.receive(self._params.worker_timeout_s)
        if not self._has_result:
            self._has_result = True
            log_duration(log, f"starting {len(self._workers)} data workers", time.perf_counter() - begin)
        if self._params.prefetch == -1:
            count = len(self._workers)
            self._blocks_ahead = max(count + 1, min(BLOCKS_PER_WORKER * count, MAX_BYTES_AHEAD // max(block.nbytes, 1)))
        return block


# Not `multiprocessing.Process`: a spawned one runs the user's script again, with every backend that it imports, and
# each one that attaches to a named segment of shared memory may start a resource tracker of its own.
CODE = (
    "import sys; connection, slots, *sys.path[:] = sys.argv[1:]; "
    "from tfaip.data.pipeline.worker import main; "
    "main(int(connection), [int(s) for s in slots.split()])"
)
# By default glibc returns freed memory to the system, and the next block pays for it page by page:
# 130 us for an image of 48x600, a quarter of the time of a worker with blocks of megabytes.
ENVIRONMENT = {"MALLOC_TRIM_THRESHOLD_": str(256 * 2**20), "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20)}
EXIT_TIME_S = 2.0


def _started(files: Sequence[int]) -> subprocess.Popen[bytes]:
    """Start a process that has a connection and pieces of shared memory."""
    numbers = [str(files[0]), " ".join(map(str, files[1:]))]
    command = [sys.executable, "-c", CODE, *numbers, *map(str, sys.path)]
    # These signals stay blocked in the worker: one to the whole group is meant for the training process.
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNAL_EXIT_CODES)
    environment = {**ENVIRONMENT, **os.environ}  # what the user has set wins
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=files, env=environment)  # noqa: S603
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)


class WorkerDied(TfaipError):
    """Error of a worker process that ended, hangs, or could not start."""


class WorkerProcess:
    """A worker process, which waits for its first message; `end` must be called.

    Args:
        number: of the worker, from 1.
        num_slots: number of pieces of shared memory; 0: everything goes through the connection.
        timeout_s: the worker hangs if it does not take a message in this time.
    """

    def __init__(self, number: int, num_slots: int, timeout_s: float) -> None:
        self.tasks: deque[Block] = deque()
        """Blocks that the worker has not answered yet."""
        self.num_taken = 0
        """Number of tasks that it has received."""
        self.is_ready = False
        self._slots = [Slot() for _ in range(num_slots)]
        self.connection, theirs = multiprocessing.Pipe()
        with theirs, socket.socket(fileno=os.dup(self.connection.fileno())) as ours:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(timeout_s) + 1, 0))
            self._process = _started([theirs.fileno(), *(slot.descriptor for slot in self._slots)])
        self.name = f"data worker {number} (process {self._process.pid})"

    def slot(self, task: int) -> Slot | None:
        """Return the memory of the task with this number, which an earlier one does not need any more."""
        return self._slots[task % len(self._slots)] if self._slots else None

    def send(self, message: bytes) -> None:
        """Send a message. If the worker has ended, `receive` raises after its last answers.

        Raises:
            WorkerDied: if the worker does not take it in time.
        """
        try:
            self.connection.send_bytes(message)
        except BlockingIOError as error:
            raise self._death() from error
        except (BrokenPipeError, ConnectionResetError):
            pass

    def receive(self, timeout_s: float) -> None:
        """Process the next message: a sign of life, the start, or the result of the first task.

        Raises:
            WorkerDied: if the worker has ended, failed, or is silent for this time.
        """
        # Between the samples of a long block a worker reports, at most once a second.
        limit_s = timeout_s if self.is_ready else max(timeout_s, START_TIMEOUT_S)
        try:
            if not self.connection.poll(limit_s):
                text = f"has not finished a sample for {limit_s:g} s{self._work()}"
                raise WorkerDied(f"{self.name} {text}: if samples may take so long, raise worker_timeout_s")
            message = self.connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise self._death() from error
        if message == ALIVE:
            return
        answer: Answer = pickle.loads(message)  # noqa: S301 (from our own process)
        for logger_name, level, text in answer.messages:
            logging.getLogger(logger_name).log(level, "%s", text)
        if answer.failure is not None:
            what, trace = answer.failure
            where = self._work() if self.is_ready else ""
            raise WorkerDied(f"{self.name} {what}{where}: {trace.strip().splitlines()[-1]}") from WorkerTraceback(trace)
        self.is_ready = True
        if answer.content is not None:
            slot = self.slot(self.num_taken - len(self.tasks))
            block = self.tasks.popleft()
            (block.outcomes, block.batch), block.nbytes = unpack(answer.content, slot)

    def _death(self) -> WorkerDied:
        """Return the error that says how the worker ended and what it was doing."""
        try:
            code = self._process.wait(EXIT_TIME_S)
        except subprocess.TimeoutExpired:
            return WorkerDied(f"{self.name} does not communicate any more{self._work()}")
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        memory = " (was there enough memory?)" if code == -signal.SIGKILL else ""
        return WorkerDied(f"{self.name} {how}{memory}{self._work()}")

    def end(self) -> None:
        """Kill the process, whatever it is doing, and free its memory."""
        self._process.kill()
        self.connection.close()
        self._process.wait()
        while self._slots:  # a worker that cannot be replaced is ended again with the pool
            self._slots.pop().close()

    def _work(self) -> str:
        if not self.is_ready:  # its tasks wait
            return " while it started"
        if not self.tasks:
            return ""
        block = self.tasks[0]
        places = list(block.places())
        (_, first), (last_pass, last) = places[0], places[-1]
        indices = "" if isinstance(block.items, list) else f" (in the data: {', '.join(map(str, block.items))})"
        return f" while it processed samples {first} to {last} of pass {last_pass}{indices}"


AUTOMATIC_START_S = 1.0
WORTHWHILE_S = 100e-6
"""A sample with less work than this is not worth the transport to another process and back."""

T = TypeVar("T")

_END: Any = object()


class BlockExecutor:
    """Executor of blocks; `close` ends the workers.

    The default number of workers starts late: until then, and while they start, blocks are processed
    in this process. A second of work decides, since the bytes are the same: small data never pay for
    a process, and the first batch never waits for one.

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
        number, self._is_automatic = params.num_processes, params.has_default_workers()
        # A 4 that the user typed cannot be told from the default.
        if self._is_automatic:  # only the default number is limited to the cores
            cores = available_cores()
            number = min(number, cores) if cores > 1 else 0
        has_work = (spec.generator_params is not None or processors.parallel) and not self.cuts_batches
        self._num_workers = spec.processors.worker_limit(number) if number and has_work else 0
        self.pool: WorkerPool | None = None
        self._seconds = 0.0
        self._samples = 0

    def close(self) -> None:
        """End the workers; the next block starts new ones if they are due."""
        if self.pool is not None:
            self.pool.close()
            self.pool = None

    def in_samples(self, block: Block) -> Block:
        """Process a block in this process, and do not stack it."""
        block.stacked, block.batch = False, None
        return self._local.process(block)

    def execute(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Process blocks, in order.

        Args:
            blocks: may be endless; workers read ahead.

        Raises:
            WorkerDied: if a worker ended or hangs.
        """
        if self._num_workers == 0:
            yield from map(self._local.process, blocks)
            return
        blocks = iter(blocks)
        is_first = True
        try:
            # In this process until workers are ready, if they ever are.
            while not self._workers_are_ready():
                block = next(blocks, None)
                if block is None:
                    return
                begin = time.perf_counter()
                self._local.process(block)
                if not is_first:  # the first one may have loaded the data
                    self._seconds += time.perf_counter() - begin
                    self._samples += len(block.items)
                is_first = False
                yield block
            if self.pool is not None:
                yield from map(self._completed, self.pool.execute(blocks))
        except WorkerDied:
            self.close()
            raise

    def _workers_are_ready(self) -> bool:
        if self._num_workers == 0:
            return False
        due_s = max(AUTOMATIC_START_S, self._samples * WORTHWHILE_S) if self._is_automatic else 0.0
        if self.pool is None and self._seconds >= due_s:
            try:
                self.pool = WorkerPool(self._spec, self._num_workers, self._prepare)
                log.debug("%d data workers started", self._num_workers)
            except Exception as error:
                self._num_workers = 0
                log.warning(
                    "samples are processed in the training process, since no workers could be started: %s: %s",
                    type(error).__name__,
                    error,
                )
        return self.pool is not None and (not self._is_automatic or self.pool.is_ready())

    def _prepare(self, block: Block) -> Block:
        """Return a block that contains its samples, unless workers read them."""
        if self._spec.generator_params is not None:
            return block
        return replace(block, items=list(self._local.raw_samples(block)))

    def _completed(self, block: Block) -> Block:
        """Run the mapping processors that must not run in workers."""
        mapper = self._processors.after_parallel
        if block.outcomes is not None and mapper:
            block.outcomes = list(mapper.outcomes(block.outcomes, self._spec.seed, block.places()))
        return block


class PostProcessor:
    """Runs the post-processors of a pipeline; `close` ends its workers.

    Args:
        spec: names the processors.
        drops: counts samples that failed.
    """

    def __init__(self, spec: WorkerSpec, drops: DropCounts) -> None:
        self._spec = spec
        self._drops = drops
        self._processors = spec.processors.create(spec.pipeline_params, spec.data_params)
        self._executor = BlockExecutor(self._processors, spec)

    def process(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Process samples in order; invalid ones are left out."""
        params, iterator = self._spec.pipeline_params, iter(samples)
        failures = SampleFilter(params, self._drops)

        def blocks() -> Iterator[Block]:
            for first in count(step=params.batch_size):
                items = list(islice(iterator, params.batch_size))
                if not items:
                    return
                yield Block(0, first, items)

        def mapped() -> Iterator[Sample]:
            for block in self._executor.execute(blocks()):
                yield from filter(failures.keeps, block.outcomes or ())

        return self._processors.stream(mapped(), self._spec.seed, 0, failures.keeps)

    def close(self) -> None:
        """End the workers."""
        self._executor.close()


def prefetched(items: Iterator[T], buffer_size: int) -> Generator[T, None, None]:
    """Yield items that a thread makes while the reader works with earlier ones.

    The thread starts with the first item that is requested and has ended when the generator is closed. Its errors are
    raised to the reader, after the items before them.

    Args:
        items: runs in the thread.
        buffer_size: number of finished items that may wait for the reader.
    """

    futures: deque[Future[Any]] = deque()
    thread = ThreadPoolExecutor(1, "tfaip-prefetch")
    try:
        while True:
            while len(futures) < buffer_size + 2:  # the one for the reader, and one that is being made
                futures.append(thread.submit(next, items, _END))
            item = futures.popleft().result()
            if item is _END:
                return
            yield item
    finally:
        thread.shutdown(cancel_futures=True)
