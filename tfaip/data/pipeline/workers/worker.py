"""The main loop of a worker process. It imports no numeric backend."""

from __future__ import annotations

import logging
import os
import pickle
import queue
import runpy
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

from tfaip.data.pipeline.blocks import BlockMaker, FailedSample, Outcome, Result
from tfaip.data.pipeline.processor.pipeline import SampleMapper
from tfaip.data.pipeline.workers.memory import Slot, pack, unpack
from tfaip.errors import TfaipError

ALIVE = b""
"""Sent now and then while a block takes long."""
SIGN_OF_LIFE_S = 1.0
PARENT_CHECK_S = 2.0
MAX_MESSAGES = 1000
"""Of one block."""


@dataclass(frozen=True)
class Start:
    """First message to a worker.

    Args:
        name: how errors call it.
        script: file to run as a module before anything else, see `script_of`.
        recipe: a pickled `Recipe`.
        log_level: messages below it are not sent back.
    """

    name: str
    script: str | None
    recipe: bytes
    log_level: int


@dataclass(frozen=True, slots=True)
class Task:
    """A block to be made, as it is sent.

    Args:
        number: of the task.
        slot: number of the slot that belongs to the task until its answer has been read.
        content: packed (block, seed, whether to stack it).
    """

    number: int
    slot: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker sends back.

    Args:
        number: of the task; None: the worker has started.
        slot: as in the task.
        content: packed (outcomes, batch, shapes).
        seconds: that the work took.
        failure: why the worker could not start, with its traceback.
        messages: that were logged meanwhile, each with the name of its logger and its level.
    """

    number: int | None
    slot: int = 0
    content: bytes = b""
    seconds: float = 0.0
    failure: str | None = None
    messages: Sequence[tuple[str, int, str]] = ()


def main(connection_descriptor: int, slot_descriptors: Sequence[int]) -> None:
    """Work until the connection is closed.

    Args:
        connection_descriptor: where messages come from and go to.
        slot_descriptors: files of the shared memory; none: everything goes through the connection.
    """
    # The training process decides when workers end; a signal to the whole group is meant for it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    connection = Connection(connection_descriptor)
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, messages, os.getppid()), daemon=True).start()
    start: Start = pickle.loads(messages.get())  # noqa: S301 (from our own process)
    logged = _Messages()
    logging.basicConfig(level=start.log_level, handlers=[logged])
    try:
        maker = _create(start, lambda: connection.send_bytes(ALIVE))
    except Exception:
        failure = traceback.format_exc()
        connection.send_bytes(pickle.dumps(Answer(None, failure=failure, messages=logged.take())))
        messages.get()  # until the connection is closed
        return
    connection.send_bytes(pickle.dumps(Answer(None, messages=logged.take())))
    slots = [Slot(descriptor) for descriptor in slot_descriptors]
    while True:
        task: Task = pickle.loads(messages.get())  # noqa: S301
        answer = _work(task, slots[task.slot] if slots else None, maker, start.name)
        connection.send_bytes(pickle.dumps(replace(answer, messages=logged.take())))


def _receive(connection: Connection, messages: queue.SimpleQueue[bytes], parent: int) -> None:
    """Take messages as they come, so that the sender never waits; end the process when the sender is gone."""
    try:
        while True:
            while not connection.poll(PARENT_CHECK_S):
                # A forked child of the sender would keep the connection open.
                if os.getppid() != parent:
                    os._exit(0)
            messages.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(0)  # whatever the main thread is doing


def _create(start: Start, report: Callable[[], None]) -> BlockMaker:
    if start.script is not None:
        main_module = sys.modules["__main__"]
        vars(main_module).update(runpy.run_path(start.script, run_name="__mp_main__"))
    maker: BlockMaker = pickle.loads(start.recipe).create()  # noqa: S301
    maker.mapper = _ReportingMapper(maker.mapper, report)
    return maker


class _Messages(logging.Handler):
    """Hold what is logged until it is sent: the training process prints it and writes the log file."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter())  # the text alone, with a traceback if there is one
        self._held: list[tuple[str, int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Hold the text of a message, as long as there are not too many."""
        if len(self._held) < MAX_MESSAGES:
            # The user's script has another name here.
            name = "__main__" if record.name == "__mp_main__" else record.name
            self._held.append((name, record.levelno, self.format(record)))

    def take(self) -> Sequence[tuple[str, int, str]]:
        """Return the messages since the last call."""
        taken, self._held = self._held, []
        return taken


class _ReportingMapper(SampleMapper):
    """Shows between two samples that the worker is alive."""

    def __init__(self, mapper: SampleMapper, report: Callable[[], None]) -> None:
        super().__init__(mapper.steps)
        self._report = report
        self._reported = time.monotonic()

    def __bool__(self) -> bool:
        return True  # samples that are only read pass here too

    def map(self, sample: Any, seed: int, pass_index: int, index: int) -> Any:
        now = time.monotonic()
        if now - self._reported > SIGN_OF_LIFE_S:
            self._report()
            self._reported = now
        return super().map(sample, seed, pass_index, index)


def _work(task: Task, slot: Slot | None, maker: BlockMaker, name: str) -> Answer:
    begin = time.perf_counter()
    (block, seed, as_batch), _ = unpack(task.content, slot)
    result = maker.make(block, seed, as_batch)
    if result.outcomes is not None:
        result.outcomes = [_with_trace(o, name) if isinstance(o, FailedSample) else o for o in result.outcomes]
    try:
        content = _packed(result, slot)
    except Exception:
        sendable = [
            _sendable(outcome, number, name)
            for run, outcomes in result.runs()
            for number, outcome in enumerate(outcomes, run.first)
        ]
        content = _packed(Result(block, sendable), slot)
    return Answer(task.number, task.slot, content, time.perf_counter() - begin)


def _packed(result: Result, slot: Slot | None) -> bytes:
    return pack((result.outcomes, result.batch, result.shapes), slot)


def _with_trace(failed: FailedSample, name: str) -> FailedSample:
    """The failure in a form that can leave the process."""
    error = failed.error
    error.add_note(f"in {name}")
    trace = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301
    except Exception:
        plain = TfaipError(f"{type(error).__name__}: {error}")
        plain.__notes__ = list(error.__notes__)
        error = plain
    return FailedSample(error, trace)


def _sendable(outcome: Outcome, number: int, name: str) -> Outcome:
    try:
        pickle.dumps(outcome)
    except Exception as error:
        failure = TypeError(
            f"sample {number} of its pass cannot be sent from a worker process once it is processed ({error}): change "
            f"what the processors put into it, or set num_processes 0: {outcome!r}"
        )
        return _with_trace(FailedSample(failure), name)
    return outcome
