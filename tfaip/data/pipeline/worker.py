"""Work on blocks of raw samples, and the main loop of a process that does it. It imports no numeric backend.

The result of a block is a pure function of the seed and the places of its samples, so it does not matter which process
computes it. Generating processors, filters and positions come after it and do not know the process either.
"""

import contextlib
import itertools
import logging
import mmap
import os
import pickle
import queue
import runpy
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NoReturn, TypeAlias

import numpy as np

from tfaip.data.pipeline.batching import Batcher
from tfaip.data.pipeline.datagenerator import DataGenerator, DataGeneratorParams
from tfaip.data.pipeline.definitions import FailedSample, Outcome, Sample
from tfaip.data.pipeline.params import DataPipelineParams
from tfaip.data.pipeline.processor.dataprocessor import SampleMapper
from tfaip.data.pipeline.processor.params import DataProcessorPipelineParams
from tfaip.data.pipeline.sampler import Block, read_sample
from tfaip.errors import TfaipError
from tfaip.params import ParamsBase
from tfaip.util.classes import mark_data_worker

ALIVE = b""
"""Sent at intervals while a block takes long."""
ALIVE_INTERVAL_S = 1.0


class BlockProcessor:
    """Reads and processes blocks in the current process.

    Args:
        generator: reads the samples of a block if it has random access; otherwise the block contains them.
        mapper: the processors.
        batcher: stacks blocks on demand; None: blocks are never stacked.
    """

    def __init__(
        self, generator: DataGenerator[Any] | None, mapper: SampleMapper, seed: int, batcher: Batcher | None = None
    ) -> None:
        self._generator = generator if generator is not None and generator.has_random_access() else None
        self.mapper = mapper
        self._seed = seed
        self._batcher = batcher
        self.on_sample: Callable[[], None] | None = None
        """Called before each sample is processed."""
        self.arrays: Any = generator if batcher and not mapper and hasattr(generator, "get_batch") else None
        """Source from which whole batches are cut, without single samples."""

    def raw_samples(self, block: Block) -> Iterator[Outcome]:
        """Read the samples of a block; one that cannot be read fails alone."""
        items = block.items if self._generator is None else block.items.tolist()
        for item in items:
            if self.on_sample is not None:
                self.on_sample()
            yield item if self._generator is None else read_sample(self._generator, item)

    def process(self, block: Block) -> Block:
        """Process a block; stack it if it says so and all of its samples are valid."""
        if block.stacked and self.arrays is not None and self._batcher is not None:
            block.batch = self._batcher.from_stacked(self.arrays.get_batch(block.items))
            return block
        outcomes = list(self.mapper.outcomes(self.raw_samples(block), self._seed, block.places()))
        is_batch = block.stacked and all(isinstance(one, Sample) and one.is_valid() for one in outcomes)
        if is_batch and self._batcher is not None:
            # What does not fit the specs fails again in the training process, which reports it.
            with contextlib.suppress(Exception):
                block.batch = self._batcher.batch(outcomes)  # type: ignore[arg-type]
                return block
        block.outcomes = outcomes
        return block


Start: TypeAlias = tuple[str, str | None, bytes, int]
"""First message to a worker: its name, the file to run before anything else (see `main_script`), a pickled
`WorkerSpec`, and the level below which log messages are not sent back."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Message from a worker that has started, or finished a task; they come in the order of the tasks.

    Args:
        content: packed (outcomes, batch); None: the worker has started.
        failure: what the worker could not do, and the traceback; it does no more work.
        messages: what was logged meanwhile: name of the logger, level and text.
    """

    content: bytes | None = None
    failure: tuple[str, str] | None = None
    messages: Sequence[tuple[str, int, str]] = ()


def main(connection_descriptor: int, slot_descriptors: Sequence[int]) -> None:
    """Work until the connection is closed.

    Args:
        connection_descriptor: for messages in both directions.
        slot_descriptors: files of the shared memory, used in turns; none: everything goes through the connection.
    """
    mark_data_worker()
    sys.breakpointhook = _refuse_breakpoint
    connection = Connection(connection_descriptor)
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    # A thread receives messages, so that the sender never waits, and so that a closed connection,
    # the only trace of a training that was killed, ends the worker at once.
    threading.Thread(target=_receive, args=(connection, messages), daemon=True).start()
    name, script, spec, log_level = pickle.loads(messages.get())  # noqa: S301 (from our own process)
    logged = _Messages()
    logging.basicConfig(level=log_level, handlers=[logged])
    try:
        if script is not None:
            vars(sys.modules["__main__"]).update(runpy.run_path(script, run_name="__mp_main__"))
        processor: BlockProcessor = pickle.loads(spec).create()  # noqa: S301
    except BaseException:  # also `sys.exit()` in a module of the user
        answer = Answer(failure=("could not start", traceback.format_exc()), messages=logged.take())
        _send(connection, pickle.dumps(answer))
        messages.get()  # until the connection is closed
        return
    _send(connection, pickle.dumps(Answer(messages=logged.take())))
    sent_at = time.monotonic()

    def signal_alive() -> None:
        nonlocal sent_at
        now = time.monotonic()
        if now - sent_at > ALIVE_INTERVAL_S:
            _send(connection, ALIVE)
            sent_at = now

    processor.on_sample = signal_alive
    slots = itertools.cycle([Slot(descriptor) for descriptor in slot_descriptors] or [None])
    for slot in slots:
        task = messages.get()
        block = processor.process(unpack(task, slot)[0])
        if block.outcomes is not None:
            block.outcomes = [_with_trace(o, name) if isinstance(o, FailedSample) else o for o in block.outcomes]
        content = failure = None
        try:
            content = pack((block.outcomes, block.batch), slot)
        except Exception:
            failure = "cannot send what processors put into samples (num_processes 0 need not)", traceback.format_exc()
        _send(connection, pickle.dumps(Answer(content, failure, logged.take())))


def _refuse_breakpoint(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError(
        "breakpoint() in a data worker, which has no console: give num_processes 0, such as --train.num_processes 0"
    )


def _send(connection: Connection, message: bytes) -> None:
    """Send a message; end the process, without a word, when the receiver is gone."""
    try:
        connection.send_bytes(message)
    except OSError:
        os._exit(0)


def _receive(connection: Connection, messages: queue.SimpleQueue[bytes]) -> None:
    """Queue messages as they come; end the process when the sender is gone."""
    try:
        while True:
            messages.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(0)  # whatever the main thread is doing


class _Messages(logging.Handler):
    """Log handler that keeps messages until they are sent to the training process."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter())  # the text alone, with a traceback if there is one
        self._kept: list[tuple[str, int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        # The user's script has another name in this process.
        name = "__main__" if record.name == "__mp_main__" else record.name
        try:
            self._kept.append((name, record.levelno, self.format(record)))
        except Exception:  # arguments that do not fit the text
            self.handleError(record)

    def take(self) -> Sequence[tuple[str, int, str]]:
        """Return the messages since the last call."""
        taken, self._kept = self._kept, []
        return taken


def _with_trace(failed: FailedSample, name: str) -> FailedSample:
    """Return the failure in a form that can be sent."""
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


@dataclass(frozen=True)
class WorkerSpec:
    """Params of the work of a worker.

    Args:
        pipeline_params: of the pipeline, with its mode.
        data_params: passed to the processors.
        processors: the processors; those of them run that may run in workers.
        generator_params: a generator with random access that the worker reads from; None: it is sent the raw samples.
        batcher: stacks blocks on demand; None: blocks are never stacked.
    """

    pipeline_params: DataPipelineParams
    data_params: ParamsBase
    processors: DataProcessorPipelineParams
    seed: int
    generator_params: DataGeneratorParams | None = None
    batcher: Batcher | None = None

    def create(self) -> BlockProcessor:
        """Build generator and processors."""
        source = self.generator_params
        generator = None if source is None else source.create(self.pipeline_params.mode)
        mapper = self.processors.create_parallel(self.pipeline_params, self.data_params)
        return BlockProcessor(generator, mapper, self.seed, self.batcher)


def main_script(pickled: bytes) -> str | None:
    """Return the file that a worker must run first to know the classes that are pickled.

    Returns:
        the path of the script that is running if it defines some of them, else None.

    Raises:
        ValueError: if there is no such file, or running it would start its work again.
    """
    if b"__main__" not in pickled:
        return None
    path = getattr(sys.modules["__main__"], "__file__", None)
    if path is None:
        raise ValueError("classes that were defined interactively exist only in this process: move them to a module")
    with open(path, encoding="utf-8") as file:
        if "__name__" not in file.read():
            raise ValueError(
                f"{path} defines classes and does its work without asking if __name__ == "
                f"'__main__': ask it, or move the classes to a module"
            )
    return str(path)


ALIGNMENT = 64  # bytes of a cache line
SMALLEST_SIZE = 2**20

Spans = list[tuple[int, int]]


class Slot:
    """One piece of shared memory, which grows when more is written.

    Args:
        descriptor: of its file, open in each of the processes; closed with the slot. None: a new file.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:  # anonymous memory, freed however the processes end
            with tempfile.TemporaryFile() as file:
                descriptor = os.memfd_create("tfaip-data") if hasattr(os, "memfd_create") else os.dup(file.fileno())
        self.descriptor = descriptor
        self._memory = np.empty(0, np.uint8)

    def write(self, buffers: Sequence[memoryview]) -> Spans:
        """Copy buffers into the memory; return their places as (begin, size)."""
        spans: Spans = []
        end = 0
        for buffer in buffers:
            spans.append((end, buffer.nbytes))
            end += -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT
        # A quarter more than needed: the next block may be a little larger.
        if end > os.fstat(self.descriptor).st_size:
            os.ftruncate(self.descriptor, max(end + end // 4, SMALLEST_SIZE))
        memory = self._mapped(end)
        for (begin, size), buffer in zip(spans, buffers, strict=True):
            memory[begin : begin + size] = np.frombuffer(buffer, np.uint8)
        return spans

    def read(self, spans: Spans) -> list[np.ndarray[Any, Any]]:
        """Return copies of these places."""
        memory = self._mapped(max((begin + size for begin, size in spans), default=0))
        return [memory[begin : begin + size].copy() for begin, size in spans]

    def close(self) -> None:
        """Free the memory."""
        self._memory = np.empty(0, np.uint8)
        os.close(self.descriptor)

    def _mapped(self, size: int) -> np.ndarray[Any, Any]:
        # A warm slot copies 13 GB/s in and out; the first use of its memory is ten times slower.
        if size > len(self._memory):
            # The old map is freed with the last array that refers to it.
            self._memory = np.frombuffer(mmap.mmap(self.descriptor, os.fstat(self.descriptor).st_size), np.uint8)
        return self._memory


def pack(value: Any, slot: Slot | None) -> bytes:
    """Return a message of any value that can be pickled.

    Args:
        value: its arrays are written into the slot if they are contiguous.
        slot: where to write; None: everything is in the message.
    """
    if slot is None:
        return pickle.dumps((pickle.dumps(value, protocol=5), None))
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.dumps((content, slot.write([buffer.raw() for buffer in buffers])))


def unpack(message: bytes, slot: Slot | None) -> tuple[Any, int]:
    """Return the value of a message of `pack`, and its size in bytes.

    The value is independent of the slot, which may be used again.
    """
    content, spans = pickle.loads(message)  # noqa: S301 (from our own processes)
    buffers: list[Any] = []
    if slot is not None and spans:
        buffers = slot.read(spans)
    value = pickle.loads(content, buffers=buffers)  # noqa: S301
    return value, len(content) + sum(buffer.nbytes for buffer in buffers)
