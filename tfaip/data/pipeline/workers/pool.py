"""Pool of worker processes that process blocks; the results come back in order.

There is no thread in the training process: the reader that requests a result sends new tasks and
receives answers. A bounded number of blocks is ahead of it, so that the memory does not depend on
the length of an epoch.
"""

from __future__ import annotations

import logging
import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import connection

from tfaip.data.pipeline.blocks import BlockResult
from tfaip.data.pipeline.sampler import Block
from tfaip.data.pipeline.workers.process import WorkerProcess
from tfaip.data.pipeline.workers.sharedmemory import pack, unpack
from tfaip.data.pipeline.workers.worker import ALIVE, Answer, Task, WorkerSpec, main_script
from tfaip.util.logging import log_duration, logger

BLOCKS_PER_WORKER = 4
MAX_BYTES_AHEAD = 128 * 2**20
HEALTH_CHECK_S = 1.0
# A start imports NumPy and the user's modules, which a busy machine or a network disk delays.
START_TIMEOUT_S = 60.0

log = logger(__name__)


@dataclass(slots=True)
class WorkerStats:
    """Work of a pool since it was started.

    Args:
        blocks: number of blocks that came back.
        nbytes: of the arrays in them.
        busy_s: seconds of work of all workers together.
        wait_s: seconds in which the reader waited for a block.
        workers: number of processes.
        started: time of the start (`time.perf_counter`).
    """

    blocks: int = 0
    nbytes: int = 0
    busy_s: float = 0.0
    wait_s: float = 0.0
    workers: int = 0
    started: float = field(default_factory=time.perf_counter)

    def add(self, nbytes: int, seconds: float) -> None:
        """Count a block."""
        self.blocks += 1
        self.nbytes += nbytes
        self.busy_s += seconds


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
        self._num_started = 0
        self._num_tasks = 0
        self._done: dict[int, BlockResult | None] = {}
        """Results of the tasks that the reader will request; None: not received yet."""
        self._workers: list[WorkerProcess] = []
        self.stats = WorkerStats(workers=count)
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
        """Return True if a worker has started; does not wait.

        Raises:
            WorkerDied: if a worker could not start.
        """
        self._receive(wait_s=0)
        return any(worker.is_ready for worker in self._workers)

    def execute(self, blocks: Iterable[Block], as_batches: bool) -> Iterator[BlockResult]:
        """Process blocks; one iterator at a time.

        Args:
            blocks: may be endless; read ahead of the results.
            as_batches: stack the samples of each block.

        Raises:
            WorkerDied: if a worker ended or hangs.
        """
        waiting = iter(blocks)
        block: Block | None = None
        requested: deque[int] = deque()
        try:
            while True:
                self._receive(wait_s=0)
                # Only now: a stream may wait for a result before it gives the next samples.
                while len(requested) < self._blocks_ahead:
                    block = block or next(waiting, None)
                    worker = self._free_worker()
                    if block is None or worker is None:
                        break
                    requested.append(self._send(worker, block, as_batches))
                    block = None
                if requested:
                    yield self._wait_for(requested[0])
                    requested.popleft()
                elif block is None:
                    return
                else:
                    self._wait_for_free_worker()
        finally:
            # An iterator that was left early: the workers finish its tasks, nothing waits for them.
            for number in requested:
                self._done.pop(number, None)

    def _start_worker(self, index: int) -> None:
        """Start a worker in this place, possibly after one that has ended."""
        self._num_started += 1
        params = self._params
        worker = WorkerProcess(
            self._num_started, self._slots_per_worker, params.use_shared_memory, params.worker_timeout_s
        )
        self._workers[index : index + 1] = [worker]
        worker.start(self._script, self._spec)

    def _free_worker(self) -> WorkerProcess | None:
        """Return the worker with the fewest tasks, if any can take one; replace old ones."""
        limit = self._tasks_per_worker
        for index, worker in enumerate(self._workers):
            if limit is not None and worker.num_taken >= limit and not worker.tasks:
                worker.end()
                self._start_worker(index)
        free = [w for w in self._workers if w.free_slots and (limit is None or w.num_taken < limit)]
        return min(free, key=lambda worker: len(worker.tasks), default=None)

    def _wait_for_free_worker(self) -> None:
        """Wait for answers of an iterator that was left early."""
        since = time.monotonic()
        while self._free_worker() is None:
            self._wait(since)

    def _send(self, worker: WorkerProcess, block: Block, as_batch: bool) -> int:
        number, self._num_tasks = self._num_tasks, self._num_tasks + 1
        slot = worker.free_slots[-1]
        try:
            content = pack((self._prepare(block), as_batch), worker.slots[slot])
        except Exception as error:
            error.add_note("while raw samples were sent to a worker process; num_processes 0 works without")
            raise
        if not worker.tasks:
            worker.last_sign = time.monotonic()
        worker.free_slots.pop()
        worker.tasks[number] = block
        worker.num_taken += 1
        self._done[number] = None
        worker.send(pickle.dumps(Task(number, slot, content)))
        return number

    def _wait_for(self, number: int) -> BlockResult:
        begin = time.perf_counter()
        since = time.monotonic()
        while (result := self._done[number]) is None:
            self._wait(since)
        del self._done[number]
        seconds = time.perf_counter() - begin
        if number == 0:
            log_duration(log, f"starting {len(self._workers)} data workers", seconds)
        self.stats.wait_s += seconds
        return result

    def _wait(self, since: float) -> None:
        """Wait a moment for messages; raise if a worker has ended, or has been silent for too long since `since`."""
        timeout_s = self._params.worker_timeout_s
        # The connection of a worker that died is closed; one that hangs says nothing. Between
        # the samples of a long block a worker reports, at most once a second.
        has_received = self._receive(min(HEALTH_CHECK_S, timeout_s))
        for worker in self._busy():
            if not has_received and worker.has_ended:
                raise worker.death()
            limit_s = timeout_s if worker.is_ready else max(timeout_s, START_TIMEOUT_S)
            if time.monotonic() - max(worker.last_sign, since) > limit_s:
                raise worker.hang(limit_s)

    def _busy(self) -> list[WorkerProcess]:
        return [worker for worker in self._workers if worker.tasks or not worker.is_ready]

    def _receive(self, wait_s: float) -> bool:
        """Process the messages that have arrived; return True if there were any."""
        busy = {worker.connection: worker for worker in self._busy()}
        ready = connection.wait(busy, wait_s)
        for end in ready:
            worker = busy[end]  # type: ignore[index]
            message = worker.receive()
            if message != ALIVE:
                self._process(worker, pickle.loads(message))  # noqa: S301 (from our own process)
        return bool(ready)

    def _process(self, worker: WorkerProcess, answer: Answer) -> None:
        for name, level, text in answer.messages:
            # Formatted already: a percent sign in it is one.
            logging.getLogger(name).log(level, "%s", text)
        if answer.failure is not None:
            raise worker.failed_start(answer.failure)
        if answer.number is None:
            worker.is_ready = True
            return
        block = worker.tasks.pop(answer.number)
        (outcomes, batch, shapes), nbytes = unpack(answer.content, worker.slots[answer.slot])
        worker.free_slots.append(answer.slot)
        self.stats.add(nbytes, answer.seconds)
        if self._params.prefetch == -1:
            count = len(self._workers)
            self._blocks_ahead = max(count + 1, min(BLOCKS_PER_WORKER * count, MAX_BYTES_AHEAD // max(nbytes, 1)))
        if answer.number in self._done:
            self._done[answer.number] = BlockResult(block, outcomes, batch, shapes)
