"""Worker processes that make blocks; the results come back in order."""

from __future__ import annotations

import logging
import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import connection

from tfaip.data.pipeline.blocks import Block, Result
from tfaip.data.pipeline.workers.memory import pack, unpack
from tfaip.data.pipeline.workers.process import WorkerProcess
from tfaip.data.pipeline.workers.recipe import Recipe, script_of
from tfaip.data.pipeline.workers.worker import ALIVE, Answer, Task

BLOCKS_PER_WORKER = 4
MAX_BYTES_AHEAD = 128 * 2**20
HEALTH_CHECK_S = 1.0
START_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class WorkerSettings:
    """How many workers, and how they work.

    Args:
        count: number of processes, from 1.
        blocks_ahead: blocks that are in work or ready before they are asked for; None: as many as are of use and need
            no more than `MAX_BYTES_AHEAD`.
        timeout_s: a worker that finishes no sample for so long while it is waited for hangs.
        use_shared_memory: whether arrays travel through shared memory.
        tasks_per_worker: blocks after which a worker is replaced; None: never.
    """

    count: int
    blocks_ahead: int | None
    timeout_s: float
    use_shared_memory: bool
    tasks_per_worker: int | None


@dataclass(slots=True)
class WorkerStats:
    """What a pool has done since it exists.

    Args:
        blocks: that came back.
        nbytes: of the arrays in them.
        busy_s: seconds of work of all workers together.
        wait_s: seconds in which the reader waited for a block.
        workers: number of processes.
        started: when the pool started (`time.perf_counter`).
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
    """Starts workers; `close` ends them.

    Args:
        recipe: what they do.
        settings: how many they are.
        prepared: turns a block into one that can be sent.

    Raises:
        Exception: the recipe cannot be sent to another process.
    """

    def __init__(self, recipe: Recipe, settings: WorkerSettings, prepared: Callable[[Block], Block]) -> None:
        self._recipe = pickle.dumps(recipe)
        self._script = script_of(self._recipe)
        self._settings = settings
        self._prepared = prepared
        # As few as possible until the size of a block is known.
        self._blocks_ahead = settings.blocks_ahead or settings.count + 1
        self._slots_per_worker = max(BLOCKS_PER_WORKER, -(-self._blocks_ahead // settings.count))
        self._num_started = 0
        self._num_tasks = 0
        self._done: dict[int, Result | None] = {}
        """The tasks whose results will be wanted; None: not there yet."""
        self._workers: list[WorkerProcess] = []
        self.stats = WorkerStats(workers=settings.count)
        try:
            for index in range(settings.count):
                self._start_worker(index)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all workers at once."""
        while self._workers:
            self._workers.pop().end()

    def is_ready(self) -> bool:
        """Whether the first worker has started; does not wait.

        Raises:
            WorkerDied: a worker could not start.
        """
        self._receive(wait_s=0)
        return any(worker.is_ready for worker in self._workers)

    def results(self, blocks: Iterable[Block], seed: int, as_batches: bool) -> Iterator[Result]:
        """Make blocks; one iterator at a time.

        Args:
            blocks: may be endless; read ahead of the results, spare ones only when nothing else is left.
            seed: of the data.
            as_batches: stack the samples of each block.

        Raises:
            WorkerDied: a worker ended or hangs.
        """
        waiting = _Lookahead(blocks)
        asked: deque[int] = deque()
        try:
            while asked or not waiting.is_empty:
                self._receive(wait_s=0)
                while len(asked) < self._blocks_ahead and waiting.has_block_behind(len(asked)):
                    if (worker := self._free_worker()) is None:
                        break
                    asked.append(self._send(worker, waiting.take(), seed, as_batches))
                if asked:
                    yield self._wait_for(asked[0])
                    asked.popleft()
                elif not waiting.is_empty:
                    self._wait_for_free_worker()
        finally:
            for number in asked:
                self._done.pop(number, None)

    def _start_worker(self, index: int) -> None:
        """Start a worker in this place, in which there may be one that has ended."""
        self._num_started += 1
        settings = self._settings
        worker = WorkerProcess(
            self._num_started, self._slots_per_worker, settings.use_shared_memory, settings.timeout_s
        )
        self._workers[index : index + 1] = [worker]
        worker.start(self._script, self._recipe)

    def _free_worker(self) -> WorkerProcess | None:
        """The worker with the fewest tasks, if any can take one; worn out ones are replaced."""
        limit = self._settings.tasks_per_worker
        for index, worker in enumerate(self._workers):
            if limit is not None and worker.num_taken >= limit and not worker.tasks:
                worker.end()
                self._start_worker(index)
        free = [w for w in self._workers if w.free_slots and (limit is None or w.num_taken < limit)]
        return min(free, key=lambda worker: len(worker.tasks), default=None)

    def _wait_for_free_worker(self) -> None:
        """Wait for answers that nobody wants any more."""
        since = time.monotonic()
        while self._free_worker() is None:
            self._wait(since)

    def _send(self, worker: WorkerProcess, block: Block, seed: int, as_batch: bool) -> int:
        number, self._num_tasks = self._num_tasks, self._num_tasks + 1
        slot = worker.free_slots[-1]
        try:
            content = pack((self._prepared(block), seed, as_batch), worker.slots[slot])
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

    def _wait_for(self, number: int) -> Result:
        begin = time.perf_counter()
        since = time.monotonic()
        while (result := self._done[number]) is None:
            self._wait(since)
        del self._done[number]
        self.stats.wait_s += time.perf_counter() - begin
        return result

    def _wait(self, since: float) -> None:
        """Wait a little for messages; raises WorkerDied if a worker has ended or was silent too long after `since`."""
        timeout_s = self._settings.timeout_s
        has_heard = self._receive(min(HEALTH_CHECK_S, timeout_s))
        for worker in self._busy():
            if not has_heard and worker.has_ended:
                raise worker.death()
            limit_s = timeout_s if worker.is_ready else max(timeout_s, START_TIMEOUT_S)
            if time.monotonic() - max(worker.last_sign, since) > limit_s:
                raise worker.hang(limit_s)

    def _busy(self) -> list[WorkerProcess]:
        return [worker for worker in self._workers if worker.tasks or not worker.is_ready]

    def _receive(self, wait_s: float) -> bool:
        """Take the messages that are there; returns whether there were any."""
        busy = {worker.connection: worker for worker in self._busy()}
        ready = connection.wait(busy, wait_s)
        for end in ready:
            worker = busy[end]  # type: ignore[index]
            message = worker.receive()
            if message != ALIVE:
                self._take(worker, pickle.loads(message))  # noqa: S301 (from our own process)
        return bool(ready)

    def _take(self, worker: WorkerProcess, answer: Answer) -> None:
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
        if self._settings.blocks_ahead is None:
            count = self._settings.count
            self._blocks_ahead = max(count + 1, min(BLOCKS_PER_WORKER * count, MAX_BYTES_AHEAD // max(nbytes, 1)))
        if answer.number in self._done:
            self._done[answer.number] = Result(block, outcomes, batch, shapes)


class _Lookahead:
    """Blocks that are taken one by one, spare ones only when no other result is awaited."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self._blocks = iter(blocks)
        self._next: Block | None = None
        self._at_end = False

    @property
    def is_empty(self) -> bool:
        if self._next is None and not self._at_end:
            self._next = next(self._blocks, None)
            self._at_end = self._next is None
        return self._at_end

    def has_block_behind(self, num_asked: int) -> bool:
        """Whether there is a block that may be taken when so many are awaited."""
        if self.is_empty:
            return False
        assert self._next is not None  # noqa: S101 (it is not empty)
        return num_asked == 0 or not self._next.is_spare

    def take(self) -> Block:
        block, self._next = self._next, None
        assert block is not None  # noqa: S101 (asked before)
        return block
