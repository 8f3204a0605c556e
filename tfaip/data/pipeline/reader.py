"""The input side of a pipeline: sampler, processors, batcher.

    sampler --blocks--> executor --outcomes--> filter --samples--> (generating processors) --> (buckets) --> batcher

A block is the raw samples of one batch. The order of a pass is a function of (seed, pass), the random numbers of a
processor are one of (seed, pass, sample, processor). An epoch is a window on the stream of passes: the next one starts
where it ended. So equal seeds give equal bytes, and a training can continue at any batch.

The sampler counts the raw samples; a `Cursor` adds what has become of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from itertools import cycle, islice, repeat as repeated, tee
from operator import add, sub
from typing import Any, TypeAlias

from tfaip.data.pipeline.batching import UNSHARDED, Batch, Batcher, Shard, shard_batch
from tfaip.data.pipeline.bucketing import LengthBuckets, sample_length
from tfaip.data.pipeline.datagenerator import DataGenerator, DataGeneratorParams, size_of
from tfaip.data.pipeline.definitions import Outcome, PipelineMode, Sample, SampleGroup, SampleSpecs
from tfaip.data.pipeline.executor import BlockExecutor
from tfaip.data.pipeline.failures import DropCounts, SampleFilter
from tfaip.data.pipeline.params import DataPipelineParams
from tfaip.data.pipeline.processor.params import DataProcessorPipelineParams
from tfaip.data.pipeline.sampler import Position, Sampler
from tfaip.data.pipeline.worker import BlockResult, WorkerSpec
from tfaip.errors import TfaipError, UsageError

Batches: TypeAlias = Generator[tuple[Batch, Position], None, None]

# Blocks that replace samples that were dropped.
SPARE_SIZE = 16


class Cursor:
    """A position that moves; what failed after its start will come again.

    A pipeline counts what it drops from 0 in every process, and again in passes that are repeated
    to get to a position. A cursor takes from it only what was counted since `set_dropped`.
    """

    __slots__ = ("_before", "_filter", "consumed", "emitted", "pass_index")

    def __init__(self, start: Position, counted: SampleFilter) -> None:
        self.pass_index, self.consumed, self.emitted = start.pass_index, start.consumed, start.emitted
        self._filter = counted
        counted.resume(start.pass_index, start.failed)
        self.set_dropped(start.dropped)

    def set_dropped(self, dropped: tuple[int, int, int]) -> None:
        """Set the numbers of samples that were dropped before the current position."""
        self._before = tuple(map(sub, dropped, self._filter.drops.numbers()))

    def position(self) -> Position:
        """Return the current position."""
        invalid, too_long, failed = map(add, self._before, self._filter.drops.numbers())
        dropped = invalid, too_long, failed
        return Position(self.pass_index, self.consumed, self.emitted, (), self._filter.failed, dropped)


class PipelineReader:
    """Reader of the samples of a generator; `close` ends its workers.

    Args:
        params: of the pipeline.
        data: specs, padding, length and processors.
        generator: source of the samples.
        generator_params: its params, from which workers build it; None: they are sent the samples.
        seed: of the data.
        drops: counts the samples that are left out.
        pre_proc: the processors.
    """

    def __init__(
        self,
        params: DataPipelineParams,
        data: SampleSpecs,
        generator: DataGenerator[Any],
        generator_params: DataGeneratorParams | None,
        seed: int,
        drops: DropCounts,
        pre_proc: DataProcessorPipelineParams,
    ) -> None:
        self._params = params
        self._data = data
        self._generator = generator
        self.samples_per_batch = samples_per_batch(generator, params)
        self.pre_proc = pre_proc
        self.processors = pre_proc.create(params, data.params)
        self.sampler = Sampler(generator, params, seed)
        batcher = Batcher(data.input_layer_specs(), data.target_layer_specs(), data.padding_values(), params.mode)
        self._batcher = batcher
        self.stack: Callable[[list[Sample]], Batch] = batcher.batch
        """Function that makes a batch of at most `samples_per_batch` samples."""
        if generator.yields_batches():
            self.stack = batcher.from_ready_made
        measures = params.max_element_length is not None or bool(params.bucket_boundaries)
        self._length = sample_length(data) if measures else data.element_length_fn
        allowed = params.allowed_failures()
        self.filter = SampleFilter(allowed, drops, batcher, params.max_element_length, self._length)
        # Every worker would load data in memory once more.
        has_access = generator_params is not None and generator.has_random_access()
        self.workers_read = has_access and not generator.in_memory()
        """True if workers, if there are some, read the samples; otherwise they are sent them."""
        has_processors_here = self.processors.after_parallel or not self.processors.is_mapping
        self.workers_stack = not (measures or has_processors_here or generator.yields_batches())
        """True if workers, if there are some, stack the batches: nothing else is left to do."""
        spec = WorkerSpec(
            params,
            data.params,
            pre_proc,
            seed,
            generator_params if self.workers_read else None,
            batcher if self.workers_stack else None,
        )
        self.executor = BlockExecutor(self.processors, spec, generator)
        self._suspended: tuple[Position, Cursor, Iterator[Sample]] | None = None
        """The rest of a pass of generated samples that an iterator left, so as not to repeat it."""

    def close(self) -> None:
        """End the workers and release data that are being iterated."""
        self._suspended = None
        self.sampler.close()
        self.executor.close()

    def samples(self, repeat: bool) -> Generator[Sample, None, None]:
        """Yield the valid processed samples; `repeat`: pass after pass, without end."""
        for sample, _ in self._stream(Position(), repeated(self.samples_per_batch), repeat):
            yield from sample.samples if isinstance(sample, SampleGroup) else [sample]

    def num_samples(self, repeat: bool) -> int:
        """Return the number of samples that `samples` yields if none is dropped.

        Raises:
            TypeError: if it is not known.
        """
        if repeat:
            raise TypeError("the samples have no end: auto_repeat=False reads them once")
        if not self.processors.is_mapping or self._generator.yields_batches():
            raise TypeError("the number of samples is not known before they are made")
        return self._params.limited_size(size_of(self._generator))

    def batches(self, start: Position, sizes: Iterable[int], repeat: bool, in_order: bool = False) -> Batches:
        """Yield batches, each with the position after it.

        Args:
            start: where to continue. That costs nothing with mapping processors and random access, and with
                generating processors where the previous iterator was left; otherwise the pass is repeated up to it.
            sizes: of the batches; with buckets only their number counts.
            repeat: pass after pass, without end; False: stop at the end of the pass.
            in_order: use no buckets, which change the order of the samples.

        Raises:
            TfaipError: if a whole pass has no valid sample.
        """
        if self._params.bucket_boundaries and not in_order:
            yield from self._bucket_batches(start, sizes, repeat)
            return
        planned, wanted = tee(sizes)
        waiting: list[Sample] = []
        size = next(wanted, None)  # of the next batch; None after the last one
        if size is None:
            return
        # The sizes of an epoch leave the remainder out; in a single pass it shows only at the end.
        smallest = self.samples_per_batch if self._params.batch_drop_remainder else 1

        def is_next(batch: Batch) -> bool:
            return not waiting and batch.size == size

        for item, cursor in self._stream(start, planned, repeat, is_next):
            if isinstance(item, Batch):
                batch = item
            else:
                waiting.append(item)
                if len(waiting) < size:
                    continue
                batch, waiting = self.stack(waiting), []
            if batch.size < smallest:
                return
            yield batch, cursor.position()
            size = next(wanted, None)
            if size is None:
                return
        if len(waiting) >= smallest:
            yield self.stack(waiting), cursor.position()

    def sharded_batches(self, start: Position, sizes: Iterable[int], shard: Shard) -> Batches:
        """Yield the rows of a shard of an endless stream; only these are read if possible."""
        # Variable dimensions are padded to the longest sample of the whole batch.
        specs = {**self._data.input_layer_specs(), **self._data.target_layer_specs()}
        has_one_shape = self.executor.cuts_batches or not any(None in spec.shape for spec in specs.values())
        depends_on_batch = self._params.bucket_boundaries or self._generator.yields_batches()
        if shard[1] > 1 and has_one_shape and self.processors.is_mapping and not depends_on_batch:
            return self._own_batches(start, sizes, shard)
        batches = self.batches(start, sizes, True)
        return batches if shard == UNSHARDED else ((shard_batch(batch, shard), position) for batch, position in batches)

    def _own_batches(self, start: Position, sizes: Iterable[int], shard: Shard) -> Batches:
        """Yield the rows of a shard, of which only the samples are read and processed.

        The batches of all processes together are those of one process, as long as no sample is dropped:
        a process knows that only of its own samples. A dropped sample is replaced by another one of the
        same rows, so that all processes stay at the same place of the data.
        """
        cursor = Cursor(start, self.filter)
        blocks = self.sampler.blocks(start.pass_index, start.consumed, sizes, True, shard)
        for result in self.executor.execute(blocks, as_batches=True):
            block, batch = result.block, result.batch
            if batch is None:
                samples: list[Sample] = []
                for segment, outcomes in result.segments():
                    self.filter.enter_pass(segment.pass_index)
                    samples += filter(self.filter.accepts, outcomes)  # type: ignore[arg-type]
                if not samples:
                    raise TfaipError(
                        f"all {block.size} samples that process {shard[0]} has in a batch were dropped (so far: "
                        f"{self.filter.drops}): check the data, or make the batch larger"
                    )
                # The other processes wait for an update with as many rows as planned.
                batch = self.stack(list(islice(cycle(samples), block.size)))
            batch.is_whole = block.is_whole
            # Every process continues after the whole batch, not after its own rows.
            cursor.pass_index, cursor.consumed = block.end
            cursor.emitted = cursor.consumed
            self.filter.enter_pass(cursor.pass_index)
            yield batch, cursor.position()

    def _bucket_batches(self, start: Position, sizes: Iterable[int], repeat: bool) -> Batches:
        params = self._params
        if self._generator.yields_batches():
            raise UsageError(
                f"bucket_boundaries is {params.bucket_boundaries}, but "
                f"{type(self._generator).__name__} yields batches: buckets need single samples"
            )
        stream = self._stream(start, repeated(self.samples_per_batch), repeat)
        samples = ((self._number(cursor), sample, cursor.position()) for sample, cursor in stream)
        groups = LengthBuckets(params, self._length).groups(samples, start, self._recalled(start))
        for _, (group, position) in zip(sizes, groups, strict=False):
            yield self._batcher.batch(group), position

    def _stream(
        self,
        start: Position,
        sizes: Iterable[int],
        repeat: bool,
        is_next: Callable[[Batch], bool] | None = None,
    ) -> Iterator[tuple[Any, Cursor]]:
        """Yield the samples after `start`, and stacked blocks where they are the next batch, with the cursor there."""
        if not self.processors.is_mapping:
            yield from self._generated_samples(start, repeat)
            return
        cursor = Cursor(start, self.filter)
        for result in self._results(cursor, sizes, repeat, is_next is not None):
            if result.batch is not None and is_next is not None and is_next(result.batch):
                for segment in result.block.segments:
                    self._enter_pass(cursor, segment.pass_index)
                    cursor.consumed = segment.first + len(segment.items)
                    cursor.emitted += len(segment.items)
                yield result.batch, cursor
                continue
            # It is not stacked, or samples were dropped before, so that the next batch has samples of several blocks.
            for sample in self._passed(result, cursor, self.filter.accepts):
                cursor.emitted += 1
                yield sample, cursor
        self._check_pass(cursor, repeat)

    def _generated_samples(self, start: Position, repeat: bool) -> Iterator[tuple[Sample, Cursor]]:
        start = replace(start, pending=())
        suspended, self._suspended = self._suspended, None
        # A generating processor may keep what it has read: its pass cannot begin in the middle.
        # Without the suspended iterator every epoch would run its pass from the beginning.
        if suspended is not None and suspended[0] == start:
            _, cursor, rest = suspended
            self.filter.resume(start.pass_index, start.failed)
        else:
            cursor, rest = self._pass(start)
        while True:
            try:
                for sample in rest:
                    yield sample, cursor
            except GeneratorExit:
                self._suspended = cursor.position(), cursor, rest
                raise
            self._check_pass(cursor, repeat)
            if not repeat:
                return
            start = Position(start.pass_index + 1, dropped=cursor.position().dropped)
            cursor, rest = self._pass(start)

    def _pass(self, start: Position) -> tuple[Cursor, Iterator[Sample]]:
        """Return the rest of a pass of generated samples, which has to run from its beginning."""
        cursor = Cursor(replace(start, consumed=0, emitted=0, failed=0), self.filter)
        return cursor, self._rest_of_pass(start, cursor)

    def _rest_of_pass(self, start: Position, cursor: Cursor) -> Iterator[Sample]:
        def mapped() -> Iterator[Sample]:
            for result in self._results(cursor, repeated(self.samples_per_batch), repeat=False):
                for sample in self._passed(result, cursor, self.filter.keeps):
                    if isinstance(sample, SampleGroup):
                        raise TypeError(
                            "the generator yields lists of samples as batches, which generating processors cannot "
                            "process: yield single samples, or leave these processors out"
                        )
                    yield sample

        for sample in self.processors.stream(mapped(), self.sampler.seed, cursor.pass_index, self.filter.keeps):
            if self.filter.accepts(sample):
                cursor.emitted += 1
                if cursor.emitted > start.emitted:
                    yield sample
                elif cursor.emitted == start.emitted:
                    cursor.set_dropped(start.dropped)  # those of the repeated part were counted before

    def _results(
        self, cursor: Cursor, sizes: Iterable[int], repeat: bool, as_batches: bool = False
    ) -> Iterator[BlockResult]:
        """Yield processed blocks of these sizes, then small ones: they are needed if samples were dropped."""
        while True:
            result = None
            blocks = self.sampler.blocks(cursor.pass_index, cursor.consumed, sizes, repeat)
            for result in self.executor.execute(blocks, as_batches):
                yield result
            if result is None or result.block.size == 0:
                return
            sizes = [SPARE_SIZE]

    def _passed(self, result: BlockResult, cursor: Cursor, passes: Callable[[Outcome], bool]) -> Iterator[Sample]:
        for segment, outcomes in result.segments():
            self._enter_pass(cursor, segment.pass_index)
            for number, outcome in enumerate(outcomes, segment.first):
                cursor.consumed = number + 1
                if passes(outcome):
                    yield outcome  # type: ignore[misc]

    def _enter_pass(self, cursor: Cursor, pass_index: int) -> None:
        if pass_index != cursor.pass_index:
            self._check_pass(cursor, repeat=True)
            cursor.pass_index, cursor.consumed, cursor.emitted = pass_index, 0, 0
            self.filter.enter_pass(pass_index)

    def _check_pass(self, cursor: Cursor, repeat: bool) -> None:
        # An endless stream without samples would never return. Nothing to predict is no error.
        mode = self._params.mode
        if cursor.emitted == 0 and (repeat or mode is not PipelineMode.PREDICTION):
            raise TfaipError(
                f"pass {cursor.pass_index} over the {mode.value} data has no valid sample; dropped "
                f"so far: {self.filter.drops}; check the lists or files of the generator and the "
                f"processors, and max_element_length"
            )

    def _number(self, cursor: Cursor) -> int:
        """Return the number of the last sample, by which `_recalled` finds it.

        It is that of the raw sample, or with generating processors, where a raw sample may give
        several, that among the processed samples of the pass.
        """
        return (cursor.consumed if self.processors.is_mapping else cursor.emitted) - 1

    def _recalled(self, start: Position) -> Iterator[tuple[int, Sample]]:
        """Make the samples that are pending at `start` again, each with its number."""
        wanted = set(start.pending)
        if not wanted:
            return
        if self.processors.is_mapping:
            # None of them fails or is dropped: each was accepted before it was put into a bucket.
            for number, raw in self.sampler.samples(start.pass_index, start.pending):
                yield number, self.processors.mapper.map(raw, self.sampler.seed, start.pass_index, number)
            return
        self._suspended = None  # the processors, which may have a state, begin the pass again
        _, samples = self._pass(Position(start.pass_index))
        yield from (
            (number, sample) for number, sample in enumerate(islice(samples, start.emitted)) if number in wanted
        )


def samples_per_batch(generator: DataGenerator[Any], params: DataPipelineParams) -> int:
    """Return the samples of the generator per batch, 1 if it yields batches."""
    return 1 if generator.yields_batches() else params.batch_size
