"""Pool of worker processes that process blocks; the results come back in order.

There is no thread in the training process: the reader that requests a result sends new tasks and
receives answers. A bounded number of blocks is ahead of it, so that the memory does not depend on
the length of an epoch.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import connection

from tfaip.data.pipeline.failures import WorkerTraceback
from tfaip.data.pipeline.sampler import Block
from tfaip.data.pipeline.worker import (
    ALIVE,
    Answer,
    BlockResult,
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
HEALTH_CHECK_S = 1.0
# A start imports NumPy and the user's modules, which a busy machine or a network disk delays.
START_TIMEOUT_S = 60.0

log = logger(__name__)


@dataclass(slots=True)
class WorkerStats:
    """Work of a pool since it was started.

    Args:
        blocks: number of blocks that came back.
        busy_s: seconds of work of all workers together.
        wait_s: seconds in which the reader waited for a block.
        workers: number of processes.
        started: time of the start (`time.perf_counter`).
    """

    blocks: int = 0
    busy_s: float = 0.0
    wait_s: float = 0.0
    workers: int = 0
    started: float = field(default_factory=time.perf_counter)


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

    def execute(self, blocks: Iterable[Block]) -> Iterator[BlockResult]:
        """Process blocks; one iterator at a time.

        Args:
            blocks: may be endless; read ahead of the results.

        Raises:
            WorkerDied: if a worker ended or hangs.
        """
        blocks = iter(blocks)
        # The tasks of an iterator that was left early are finished too, and their results forgotten.
        waiting: deque[Task] = deque()
        has_ended = False
        while True:
            self._receive(wait_s=0)
            # Only now: a stream may wait for a result before it gives the next samples.
            while not has_ended and len(waiting) < self._blocks_ahead:
                worker = self._free_worker()
                block = None if worker is None else next(blocks, None)
                if worker is None or block is None:
                    has_ended = worker is not None
                    break
                waiting.append(self._send(worker, block))
            if waiting:
                yield self._result(waiting.popleft())
            elif has_ended:
                return
            else:
                self._wait(time.monotonic())

    def _start_worker(self, index: int) -> None:
        """Start a worker in this place, possibly after one that has ended."""
        self._num_started += 1
        worker = WorkerProcess(self._num_started, self._slots_per_worker, self._params.use_shared_memory)
        self._workers[index : index + 1] = [worker]
        level = logging.getLogger(ROOT).getEffectiveLevel()
        start: Start = worker.name, self._script, self._spec, level
        worker.send(pickle.dumps(start))

    def _free_worker(self) -> WorkerProcess | None:
        """Return the worker with the fewest tasks, if any can take one; replace old ones."""
        limit = self._tasks_per_worker
        for index, worker in enumerate(self._workers):
            if limit is not None and worker.num_taken >= limit and not worker.tasks:
                worker.end()
                self._start_worker(index)
        free = [
            worker
            for worker in self._workers
            if len(worker.tasks) < self._slots_per_worker and (limit is None or worker.num_taken < limit)
        ]
        return min(free, key=lambda worker: len(worker.tasks), default=None)

    def _send(self, worker: WorkerProcess, block: Block) -> Task:
        try:
            content = pack(self._prepare(block), worker.slot(worker.num_taken))
        except Exception as error:
            error.add_note("while raw samples were sent to a worker process; num_processes 0 works without")
            raise
        if not worker.tasks:
            worker.last_sign = time.monotonic()
        task = Task(block)
        worker.tasks.append(task)
        worker.num_taken += 1
        worker.send(content)
        return task

    def _result(self, task: Task) -> BlockResult:
        begin = time.perf_counter()
        since = time.monotonic()
        while task.result is None:
            self._wait(since)
        seconds = time.perf_counter() - begin
        if not self.stats.wait_s:
            log_duration(log, f"starting {len(self._workers)} data workers", seconds)
        self.stats.wait_s += seconds
        return task.result

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
        for record in answer.messages:
            to = logging.getLogger(record.name)
            if to.isEnabledFor(record.levelno):
                to.handle(record)
        if answer.failure is not None:
            raise worker.failed_start(answer.failure)
        if answer.content is None:
            worker.is_ready = True
            return
        (outcomes, batch), nbytes = unpack(answer.content, worker.slot(worker.num_taken - len(worker.tasks)))
        task = worker.tasks.popleft()
        task.result = BlockResult(task.block, outcomes, batch)
        self.stats.blocks += 1
        self.stats.busy_s += answer.seconds
        if self._params.prefetch == -1:
            count = len(self._workers)
            self._blocks_ahead = max(count + 1, min(BLOCKS_PER_WORKER * count, MAX_BYTES_AHEAD // max(nbytes, 1)))


# Not `multiprocessing.Process`: a spawned one runs the user's script again, with every backend that
# it imports, and each one that attaches to a named segment of shared memory may start a resource
# tracker of its own.
CODE = (
    "import sys; parent, connection, slots, *sys.path[:] = sys.argv[1:]; "
    "from tfaip.data.pipeline.worker import main; "
    "main(int(parent), int(connection), [int(s) for s in slots.split()])"
)
# By default glibc returns freed memory to the system, and the next block pays for it page by page:
# 130 us for an image of 48x600, a quarter of the time of a worker with blocks of megabytes.
ENVIRONMENT = {"MALLOC_TRIM_THRESHOLD_": str(256 * 2**20), "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20)}
EXIT_TIME_S = 2.0


class WorkerDied(TfaipError):
    """Error of a worker process that ended, hangs, or could not start."""


@dataclass(slots=True, eq=False)
class Task:
    """A block that was sent to a worker; its result is None until it has come back."""

    block: Block
    result: BlockResult | None = None


class WorkerProcess:
    """A worker process, which waits for its first message; `end` must be called.

    Args:
        number: of the worker, from 1.
        num_slots: number of tasks that the worker may have at a time.
        use_shared_memory: send arrays through shared memory, not through the connection.
    """

    def __init__(self, number: int, num_slots: int, use_shared_memory: bool) -> None:
        self._slots = [Slot() for _ in range(num_slots)] if use_shared_memory else []
        self.tasks: deque[Task] = deque()
        """Tasks that the worker has not answered yet."""
        self.num_taken = 0
        """Number of tasks that it has received."""
        self.is_ready = False
        self.last_sign = time.monotonic()
        """Time of its last message, or of the task that ended its idle time."""
        self.connection, theirs = multiprocessing.Pipe()
        with theirs:
            files = [theirs.fileno(), *(slot.descriptor for slot in self._slots)]
            numbers = [str(os.getpid()), str(files[0]), " ".join(map(str, files[1:]))]
            command = [sys.executable, "-c", CODE, *numbers, *map(str, sys.path)]
            # These signals stay blocked in the worker: one to the whole group is meant for the training process.
            unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNAL_EXIT_CODES)
            try:
                self._process = subprocess.Popen(  # noqa: S603 (our own code)
                    command,
                    stdin=subprocess.DEVNULL,
                    pass_fds=files,
                    env={**ENVIRONMENT, **os.environ},  # what the user has set wins
                )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        self.name = f"data worker {number} (process {self._process.pid})"

    def slot(self, task: int) -> Slot | None:
        """Return the memory of the task with this number, which an earlier one does not need any more."""
        return self._slots[task % len(self._slots)] if self._slots else None

    def send(self, message: bytes) -> None:
        """Send a message. If the worker has ended, `receive` raises after its last answers."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send_bytes(message)

    def receive(self) -> bytes:
        """Receive the next message.

        Raises:
            WorkerDied: if the worker has ended, or stopped within the message.
        """
        try:
            message = self.connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise self.death() from error
        self.last_sign = time.monotonic()
        return message

    @property
    def has_ended(self) -> bool:
        """True if the process is gone."""
        return self._process.poll() is not None

    def death(self) -> WorkerDied:
        """Return the error that says how the worker ended and what it was doing."""
        try:
            code = self._process.wait(EXIT_TIME_S)
        except subprocess.TimeoutExpired:
            return WorkerDied(f"{self.name} does not communicate any more{self._work()}")
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        memory = " (was there enough memory?)" if code == -signal.SIGKILL else ""
        return WorkerDied(f"{self.name} {how}{memory}{self._work()}")

    def hang(self, timeout_s: float) -> WorkerDied:
        """Return the error of a worker that was silent for this time."""
        return WorkerDied(
            f"{self.name} has not finished a sample for {timeout_s:g} s{self._work()}: if samples "
            f"may take so long, raise worker_timeout_s"
        )

    def failed_start(self, trace: str) -> WorkerDied:
        """Return the error that says why the worker could not build generator and processors."""
        error = WorkerDied(f"{self.name} could not start: {trace.strip().splitlines()[-1]}")
        error.__cause__ = WorkerTraceback(trace)
        return error

    def end(self) -> None:
        """Kill the process, whatever it is doing, and free its memory."""
        self._process.kill()
        self.connection.close()
        self._process.wait()
        for slot in self._slots:
            slot.close()

    def _work(self) -> str:
        if not self.is_ready:  # its tasks wait
            return " while it started"
        if not self.tasks:
            return ""
        places = []
        for segment in self.tasks[0].block.segments:
            if len(segment.items):
                last = segment.first + len(segment.items) - 1
                indices = ""
                if not isinstance(segment.items, list):
                    indices = f" (in the data: {', '.join(map(str, segment.items))})"
                places.append(f"samples {segment.first} to {last} of pass {segment.pass_index}{indices}")
        return f" while it processed {' and '.join(places)}"
