"""Work on blocks of raw samples, and the main loop of a process that does it. It imports no numeric backend.

The result of a block is a pure function of the seed and the places of its samples, so it does not
matter which process computes it. Generating processors, filters and positions come after it and do
not know the process either.
"""

from __future__ import annotations

import logging
import mmap
import os
import pickle
import queue
import runpy
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any, NoReturn

import numpy as np

from tfaip.data.pipeline.batching import Batch, Batcher
from tfaip.data.pipeline.datagenerator import DataGenerator, DataGeneratorParams
from tfaip.data.pipeline.definitions import FailedSample, Outcome, Sample
from tfaip.data.pipeline.params import DataPipelineParams
from tfaip.data.pipeline.processor.params import DataProcessorPipelineParams
from tfaip.data.pipeline.processor.pipeline import SampleMapper
from tfaip.data.pipeline.sampler import Block, Segment, read_sample
from tfaip.errors import SIGNAL_EXIT_CODES, TfaipError
from tfaip.params import ParamsBase
from tfaip.util.process import mark_data_worker

ALIVE = b""
"""Sent at intervals while a block takes long."""
ALIVE_INTERVAL_S = 1.0
PARENT_CHECK_S = 1.0
MAX_MESSAGES = 1000
"""Log messages of one block."""


@dataclass(slots=True)
class BlockResult:
    """A processed block.

    Args:
        block: what was processed.
        outcomes: one for each raw sample; None if they are all valid and in the batch.
        batch: the samples, stacked.
        shapes: of the samples in the batch, by key of inputs and targets, where they were padded.
    """

    block: Block
    outcomes: Sequence[Outcome] | None
    batch: Batch | None = None
    shapes: tuple[dict[str, list[Any]], dict[str, list[Any]]] = ({}, {})

    def segments(self) -> Iterator[tuple[Segment, Sequence[Outcome]]]:
        """Yield the segments of the block with their outcomes."""
        outcomes = self.outcomes
        if outcomes is None:
            outcomes = self._split()
        begin = 0
        for segment in self.block.segments:
            end = begin + len(segment.items)
            yield segment, outcomes[begin:end]
            begin = end

    def _split(self) -> list[Sample]:
        """Return the rows of the batch as samples, without the padding."""
        # Needed if a sample was dropped before: the block is not a batch of the stream then.
        batch = self.batch
        assert batch is not None  # noqa: S101 (there are outcomes or a batch)
        input_shapes, target_shapes = self.shapes
        samples = []
        for index, meta in enumerate(batch.meta):
            inputs = _row(batch.inputs, input_shapes, index)
            targets = _row(batch.targets, target_shapes, index)
            samples.append(Sample(inputs=inputs, targets=targets, meta=meta))
        return samples


def _row(arrays: dict[str, Any], shapes: dict[str, list[Any]], index: int) -> dict[str, Any]:
    row = {}
    for key, array in arrays.items():
        row[key] = array[index]
        if key in shapes:
            row[key] = row[key][tuple(map(slice, shapes[key][index]))]
    return row


class BlockProcessor:
    """Reads and processes blocks in the current process.

    Args:
        generator: reads the samples of a block if it has random access; otherwise the block
            contains them.
        mapper: the processors.
        seed: of the data.
        batcher: stacks blocks on demand; None: blocks are never stacked.
    """

    def __init__(
        self, generator: DataGenerator[Any] | None, mapper: SampleMapper, seed: int, batcher: Batcher | None = None
    ) -> None:
        self._generator = generator if generator is not None and generator.has_random_access() else None
        self.mapper = mapper
        self._seed = seed
        self._batcher = batcher
        self.report: Callable[[], None] | None = None
        """Function that is called once per second, between two samples."""
        self._reported = time.monotonic()
        self.arrays: Any = generator if batcher and not mapper and hasattr(generator, "get_batch") else None
        """Source from which whole batches are cut, without single samples."""

    def raw_samples(self, segment: Segment) -> Iterable[Outcome]:
        """Read the samples of a segment; one that cannot be read fails alone."""
        generator = self._generator
        if generator is None:
            return segment.items
        return (read_sample(generator, index) for index in segment.items.tolist())

    def process(self, block: Block, as_batch: bool = False) -> BlockResult:
        """Process a block; with `as_batch`, stack it if all of its samples are valid."""
        if not as_batch:
            return BlockResult(block, self._outcomes(block))
        if self.arrays is not None and self._batcher is not None:
            rows = block.segments[0].items
            if len(block.segments) > 1:
                rows = np.concatenate([segment.items for segment in block.segments])
            if len(rows):
                return BlockResult(block, None, self._batcher.from_stacked(self.arrays.get_batch(rows)))
        outcomes = self._outcomes(block)
        if self._batcher is not None and all(map(_is_valid, outcomes)):
            return _stacked(self._batcher, block, outcomes)  # type: ignore[arg-type]
        return BlockResult(block, outcomes)

    def _outcomes(self, block: Block) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for segment in block.segments:
            samples = self._reporting(segment) if self.report else self.raw_samples(segment)
            outcomes += self.mapper.outcomes(samples, self._seed, segment.pass_index, segment.first)
        return outcomes

    def _reporting(self, segment: Segment) -> Iterator[Outcome]:
        for sample in self.raw_samples(segment):
            now = time.monotonic()
            if self.report is not None and now - self._reported > ALIVE_INTERVAL_S:
                self.report()
                self._reported = now
            yield sample


def _is_valid(outcome: Outcome) -> bool:
    return isinstance(outcome, Sample) and outcome.is_valid()


def _stacked(batcher: Batcher, block: Block, samples: list[Sample]) -> BlockResult:
    try:
        batch = batcher.batch(samples)
        inputs = _padded_shapes(batch.inputs, [sample.inputs for sample in samples])
        targets = _padded_shapes(batch.targets, [sample.targets for sample in samples])
    except Exception:
        # It fails again in the training process, which reports it. (Ragged values have no shape.)
        return BlockResult(block, samples)
    return BlockResult(block, None, batch, (inputs, targets))


def _padded_shapes(arrays: dict[str, Any], parts: list[Any]) -> dict[str, list[Any]]:
    padded = {}
    for key, array in arrays.items():
        shapes = [np.shape(part[key]) for part in parts]
        if any(shape != array.shape[1:] for shape in shapes):
            padded[key] = shapes
    return padded


@dataclass(frozen=True)
class Start:
    """First message to a worker.

    Args:
        name: of the worker in errors.
        script: file to run as a module before anything else, see `main_script`.
        spec: a pickled `WorkerSpec`.
        log_level: messages below it are not sent back.
    """

    name: str
    script: str | None
    spec: bytes
    log_level: int


@dataclass(frozen=True, slots=True)
class Task:
    """A block to be processed, as it is sent.

    Args:
        number: of the task.
        slot: number of the slot that belongs to the task until its answer has been read.
        content: packed (block, True to stack it).
    """

    number: int
    slot: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """Message from a worker.

    Args:
        number: of the task; None: the worker has started.
        slot: as in the task.
        content: packed (outcomes, batch, shapes).
        seconds: duration of the work.
        failure: traceback if the worker could not start.
        messages: that were logged meanwhile, each with the name of its logger and its level.
    """

    number: int | None
    slot: int = 0
    content: bytes = b""
    seconds: float = 0.0
    failure: str | None = None
    messages: Sequence[tuple[str, int, str]] = ()


def main(parent: int, connection_descriptor: int, slot_descriptors: Sequence[int]) -> None:
    """Work until the connection is closed.

    Args:
        parent: process that started this one; it may have ended already.
        connection_descriptor: for messages in both directions.
        slot_descriptors: files of the shared memory; none: everything goes through the connection.
    """
    # The training process decides when workers end; a signal to the whole group is meant for it.
    for number in SIGNAL_EXIT_CODES:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNAL_EXIT_CODES)
    mark_data_worker()
    sys.breakpointhook = _refuse_breakpoint
    connection = Connection(connection_descriptor)
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    # A thread receives messages, so that the sender never waits, and so that a closed connection,
    # the only trace of a training that was killed, ends the worker at once.
    threading.Thread(target=_receive, args=(connection, messages, parent), daemon=True).start()
    start: Start = pickle.loads(messages.get())  # noqa: S301 (from our own process)
    logged = _Messages()
    logging.basicConfig(level=start.log_level, handlers=[logged])
    try:
        processor = _create(start, lambda: _send(connection, ALIVE))
    except BaseException:  # also `sys.exit()` in a module of the user
        failure = traceback.format_exc()
        _send(connection, pickle.dumps(Answer(None, failure=failure, messages=logged.take())))
        messages.get()  # until the connection is closed
        return
    _send(connection, pickle.dumps(Answer(None, messages=logged.take())))
    slots = [Slot(descriptor) for descriptor in slot_descriptors]
    while True:
        task: Task = pickle.loads(messages.get())  # noqa: S301
        slot = slots[task.slot] if slots else None
        answer = _work(task, slot, processor, start.name)
        _send(connection, pickle.dumps(replace(answer, messages=logged.take())))


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


def _receive(connection: Connection, messages: queue.SimpleQueue[bytes], parent: int) -> None:
    """Queue messages as they come; end the process when the sender is gone."""
    try:
        while True:
            while not connection.poll(PARENT_CHECK_S):
                # A forked child of the sender would keep the connection open.
                if os.getppid() != parent:
                    os._exit(0)
            messages.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(0)  # whatever the main thread is doing


def _create(start: Start, report: Callable[[], None]) -> BlockProcessor:
    if start.script is not None:
        main_module = sys.modules["__main__"]
        vars(main_module).update(runpy.run_path(start.script, run_name="__mp_main__"))
    processor: BlockProcessor = pickle.loads(start.spec).create()  # noqa: S301
    processor.report = report
    return processor


class _Messages(logging.Handler):
    """Log handler that keeps messages until they are sent to the training process."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter())  # the text alone, with a traceback if there is one
        self._kept: list[tuple[str, int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the text of a message, as long as there are not too many."""
        if len(self._kept) < MAX_MESSAGES:
            try:
                text = self.format(record)
            except Exception:  # arguments that do not fit the message, which must not change a sample
                self.handleError(record)
                return
            # The user's script has another name in this process.
            name = "__main__" if record.name == "__mp_main__" else record.name
            self._kept.append((name, record.levelno, text))

    def take(self) -> Sequence[tuple[str, int, str]]:
        """Return the messages since the last call."""
        taken, self._kept = self._kept, []
        return taken


def _work(task: Task, slot: Slot | None, processor: BlockProcessor, name: str) -> Answer:
    begin = time.perf_counter()
    (block, as_batch), _ = unpack(task.content, slot)
    result = processor.process(block, as_batch)
    if result.outcomes is not None:
        result.outcomes = [_with_trace(o, name) if isinstance(o, FailedSample) else o for o in result.outcomes]
    try:
        content = _packed(result, slot)
    except Exception:
        content = _packed(BlockResult(block, _sendable(result, name)), slot)
    return Answer(task.number, task.slot, content, time.perf_counter() - begin)


def _packed(result: BlockResult, slot: Slot | None) -> bytes:
    return pack((result.outcomes, result.batch, result.shapes), slot)


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


def _sendable(result: BlockResult, name: str) -> list[Outcome]:
    """Return the outcomes of a block with an error in place of those that cannot be pickled."""
    sendable: list[Outcome] = []
    for segment, outcomes in result.segments():
        for number, outcome in enumerate(outcomes, segment.first):
            try:
                pickle.dumps(outcome)
            except Exception as error:
                failure = TypeError(
                    f"sample {number} of its pass cannot be sent from a worker process once it is "
                    f"processed ({error}): change what the processors put into it, or set "
                    f"num_processes 0: {outcome!r}"
                )
                outcome = _with_trace(FailedSample(failure), name)
            sendable.append(outcome)
    return sendable


@dataclass(frozen=True)
class WorkerSpec:
    """Params of the work of a worker.

    Args:
        pipeline_params: of the pipeline, with its mode.
        data_params: passed to the processors.
        processors: the processors; those of them run that may run in workers.
        seed: of the data.
        generator_params: a generator with random access that the worker reads from; None: it is
            sent the raw samples.
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
        generator = None
        if self.generator_params is not None:
            generator = self.generator_params.create(self.pipeline_params.mode)
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


def create_file() -> int:
    """Return a descriptor of anonymous memory, freed however the processes end."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tfaip-data")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Slot:
    """One piece of shared memory, which grows when more is written.

    Args:
        descriptor: of its file, open in each of the processes; closed with the slot.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._memory = np.empty(0, np.uint8)

    def write(self, buffers: Sequence[memoryview]) -> Spans:
        """Copy buffers into the memory; return their places as (begin, size)."""
        spans: Spans = []
        end = 0
        for buffer in buffers:
            spans.append((end, buffer.nbytes))
            end += -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT
        # A quarter more than needed: the next block may be a little larger.
        if end > os.fstat(self._descriptor).st_size:
            os.ftruncate(self._descriptor, max(end + end // 4, SMALLEST_SIZE))
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
        os.close(self._descriptor)

    def _mapped(self, size: int) -> np.ndarray[Any, Any]:
        # A warm slot copies 13 GB/s in and out; the first use of its memory is ten times slower.
        if size > len(self._memory):
            # The old map is freed with the last array that refers to it.
            self._memory = np.frombuffer(mmap.mmap(self._descriptor, os.fstat(self._descriptor).st_size), np.uint8)
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
