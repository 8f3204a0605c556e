"""One worker process as the training process sees it."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection

from tfaip.data.pipeline.failures import WorkerTraceback
from tfaip.data.pipeline.sampler import Block
from tfaip.data.pipeline.workers.sharedmemory import Slot, create_file
from tfaip.data.pipeline.workers.worker import Start
from tfaip.errors import SIGNAL_EXIT_CODES, TfaipError
from tfaip.util.logging import ROOT

# Not `multiprocessing.Process`: a spawned one runs the user's script again, with every backend that
# it imports, and each one that attaches to a named segment of shared memory may start a resource
# tracker of its own.
CODE = (
    "import sys; parent, connection, slots, *sys.path[:] = sys.argv[1:]; "
    "from tfaip.data.pipeline.workers.worker import main; "
    "main(int(parent), int(connection), [int(s) for s in slots.split()])"
)
# By default glibc returns freed memory to the system, and the next block pays for it page by page:
# 130 us for an image of 48x600, a quarter of the time of a worker with blocks of megabytes.
ENVIRONMENT = {"MALLOC_TRIM_THRESHOLD_": str(256 * 2**20), "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20)}
EXIT_TIME_S = 2.0


class WorkerDied(TfaipError):
    """Error of a worker process that ended, hangs, or could not start."""


class WorkerProcess:
    """A worker process, which waits for `start`; `end` must be called.

    Args:
        number: of the worker, from 1.
        num_slots: number of tasks that the worker may have at a time.
        use_shared_memory: send arrays through shared memory, not through the socket.
        timeout_s: the worker hangs if a message cannot be sent or received in this time.
    """

    def __init__(self, number: int, num_slots: int, use_shared_memory: bool, timeout_s: float) -> None:
        files = _create_files(num_slots) if use_shared_memory else []
        self.slots: list[Slot | None] = [Slot(file) for file in files] if files else [None] * num_slots
        self.free_slots = list(range(num_slots))
        self.tasks: dict[int, Block] = {}
        """Tasks that the worker has not answered yet, in order."""
        self.num_taken = 0
        """Number of tasks that it has received."""
        self.is_ready = False
        self.last_sign = time.monotonic()
        """Time of its last message, or of the task that ended its idle time."""
        # A socket, not a pipe: one connection for both directions, with a time limit for a message.
        ours, theirs = socket.socketpair()
        with theirs:
            numbers = [str(os.getpid()), str(theirs.fileno()), " ".join(map(str, files))]
            command = [sys.executable, "-c", CODE, *numbers, *map(str, sys.path)]
            with _signals_blocked():
                self._process = subprocess.Popen(  # noqa: S603 (our own code)
                    command,
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno(), *files],
                    env={**ENVIRONMENT, **os.environ},  # what the user has set wins
                )
        limit = struct.pack("ll", int(timeout_s) + 1, 0)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self.connection = Connection(ours.detach())
        self.name = f"data worker {number} (process {self._process.pid})"

    def start(self, script: str | None, spec: bytes) -> None:
        """Send the worker its spec.

        Args:
            script: see `main_script`.
            spec: a pickled `WorkerSpec`.
        """
        self.send(pickle.dumps(Start(self.name, script, spec, logging.getLogger(ROOT).getEffectiveLevel())))

    def send(self, message: bytes) -> None:
        """Send a message. If the worker has ended, `receive` raises after its last answers.

        Raises:
            WorkerDied: if the worker does not accept the message.
        """
        try:
            self.connection.send_bytes(message)
        except (BrokenPipeError, ConnectionResetError):
            return
        except OSError as error:
            raise self.death() from error

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
        for slot in self.slots:
            if slot is not None:
                slot.close()

    def _work(self) -> str:
        if not self.is_ready:  # its tasks wait
            return " while it started"
        block = next(iter(self.tasks.values()), None)
        if block is None:
            return ""
        places = []
        for segment in block.segments:
            if len(segment.items):
                last = segment.first + len(segment.items) - 1
                indices = ""
                if not isinstance(segment.items, list):
                    indices = f" (in the data: {', '.join(map(str, segment.items))})"
                places.append(f"samples {segment.first} to {last} of pass {segment.pass_index}{indices}")
        return f" while it processed {' and '.join(places)}"


def _create_files(number: int) -> list[int]:
    """Create files for shared memory: all of them, or none."""
    with contextlib.ExitStack() as undo:
        files: list[int] = []
        for _ in range(number):
            files.append(create_file())
            undo.callback(os.close, files[-1])
        undo.pop_all()
    return files


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block the signals that are meant for the training in processes that are started in this context."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNAL_EXIT_CODES)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
