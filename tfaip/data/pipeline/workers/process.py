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

from tfaip.data.pipeline.blocks import Block
from tfaip.data.pipeline.failures import WorkerTraceback
from tfaip.data.pipeline.workers.memory import Slot, create_file
from tfaip.data.pipeline.workers.worker import Start
from tfaip.errors import TfaipError
from tfaip.util.logging import ROOT

# Not `multiprocessing.Process`: that runs the user's script again in every worker, with all that it imports.
CODE = (
    "import sys; connection, slots, sys.path[:] = sys.argv[1], sys.argv[2], sys.argv[3:]; "
    "from tfaip.data.pipeline.workers.worker import main; main(int(connection), [int(s) for s in slots.split()])"
)
# glibc returns freed memory to the system, and the next block pays for it page by page: 130 us for an image of 48x600.
ENVIRONMENT = {"MALLOC_TRIM_THRESHOLD_": str(256 * 2**20), "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20)}
EXIT_TIME_S = 2.0


class WorkerDied(TfaipError):
    """A worker process ended, hangs, or could not start."""


class WorkerProcess:
    """A worker process, which waits for `start`; `end` must be called.

    Args:
        number: of the worker, from 1.
        num_slots: tasks that the worker may have at a time.
        use_shared_memory: whether arrays travel through shared memory.
        timeout_s: a message that cannot be sent or received in this time means that the worker hangs.
    """

    def __init__(self, number: int, num_slots: int, use_shared_memory: bool, timeout_s: float) -> None:
        files = _create_files(num_slots) if use_shared_memory else []
        self.slots: list[Slot | None] = [Slot(file) for file in files] if files else [None] * num_slots
        self.free_slots = list(range(num_slots))
        self.tasks: dict[int, Block] = {}
        """What the worker has been asked for and has not answered, in order."""
        self.num_taken = 0
        """Tasks that it was given so far."""
        self.is_ready = False
        self.last_sign = time.monotonic()
        """When it was last heard of, or got something to do."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-c", CODE, str(theirs.fileno()), " ".join(map(str, files)), *map(str, sys.path)]
            with _signals_held_back():
                self._process = subprocess.Popen(  # noqa: S603 (our own code)
                    command,
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno(), *files],
                    env={**ENVIRONMENT, **os.environ},
                )
        limit = struct.pack("ll", int(timeout_s) + 1, 0)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self.connection = Connection(ours.detach())
        self.name = f"data worker {number} (process {self._process.pid})"

    def start(self, script: str | None, recipe: bytes) -> None:
        """Tell the worker what to do.

        Args:
            script: see `script_of`.
            recipe: a pickled `Recipe`.
        """
        self.send(pickle.dumps(Start(self.name, script, recipe, logging.getLogger(ROOT).getEffectiveLevel())))

    def send(self, message: bytes) -> None:
        """Send a message. If the worker has ended, `receive` will tell, behind the last answers.

        Raises:
            WorkerDied: the worker does not take the message.
        """
        try:
            self.connection.send_bytes(message)
        except (BrokenPipeError, ConnectionResetError):
            return
        except OSError as error:
            raise self.death() from error

    def receive(self) -> bytes:
        """Take the next message.

        Raises:
            WorkerDied: the worker has ended, or stopped within the message.
        """
        try:
            message = self.connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise self.death() from error
        self.last_sign = time.monotonic()
        return message

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def death(self) -> WorkerDied:
        """The error that tells how the worker ended and what it was doing."""
        try:
            code = self._process.wait(EXIT_TIME_S)
        except subprocess.TimeoutExpired:
            return WorkerDied(f"{self.name} does not communicate any more{self._work()}")
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        memory = " (was there enough memory?)" if code == -signal.SIGKILL else ""
        return WorkerDied(f"{self.name} {how}{memory}{self._work()}")

    def hang(self, timeout_s: float) -> WorkerDied:
        """The error that tells that nothing came of the worker for so long."""
        return WorkerDied(
            f"{self.name} has not finished a sample for {timeout_s:g} s{self._work()}: if samples may take so long, "
            f"raise worker_timeout_s"
        )

    def failed_start(self, trace: str) -> WorkerDied:
        """The error that tells why the worker could not build generator and processors."""
        error = WorkerDied(f"{self.name} could not start: {trace.strip().splitlines()[-1]}")
        error.__cause__ = WorkerTraceback(trace)
        return error

    def end(self) -> None:
        """End the process, whatever it is doing, and give its memory back."""
        self.connection.close()
        self._process.kill()
        self._process.wait()
        for slot in self.slots:
            if slot is not None:
                slot.close()

    def _work(self) -> str:
        block = next(iter(self.tasks.values()), None)
        if block is None:
            return "" if self.is_ready else " while it started"
        runs = [
            f"samples {r.first} to {r.first + len(r.items) - 1} of pass {r.pass_index}{_indices(r.items)}"
            for r in block.runs
            if r.items
        ]
        return f" while it processed {' and '.join(runs)}"


def _create_files(number: int) -> list[int]:
    """All of them, or none."""
    with contextlib.ExitStack() as undo:
        files: list[int] = []
        for _ in range(number):
            files.append(create_file())
            undo.callback(os.close, files[-1])
        undo.pop_all()
    return files


def _indices(items: list[object]) -> str:
    return f" (in the data: {', '.join(map(str, items))})" if all(isinstance(item, int) for item in items) else ""


@contextlib.contextmanager
def _signals_held_back() -> Iterator[None]:
    """A process that is started in this block is born deaf to Ctrl-C and SIGTERM, until it has decided what to do."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
