"""The input side of a pipeline: sampler, processors, batcher.

    sampler --blocks--> executor --outcomes--> filter --samples--> (generating processors) --> (buckets) --> batcher

A block is the raw samples of one batch. The order of a pass is a function of (seed, pass), the random numbers of a
processor are one of (seed, pass, sample, processor). An epoch is a window on the stream of passes: the next one starts
where it ended. So equal seeds give equal bytes, and a training can continue at any batch.

The sampler counts the raw samples in a `Cursor`.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from itertools import chain, cycle, islice, repeat as repeated, tee
from typing import Any, TypeAlias

from tfaip.data.pipeline.batching import UNSHARDED, Batch, Batcher, Shard, sample_length, shard_batch
from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.definitions import PipelineMode, Sample, SampleGroup, SampleSpecs
from tfaip.data.pipeline.sampler import Block, Cursor, DropCounts, Position, SampleFilter, Sampler
from tfaip.data.pipeline.worker import WorkerSpec
from tfaip.data.pipeline.workerpool import BlockExecutor
from tfaip.errors import TfaipError, UsageError

Batches: TypeAlias = Generator[tuple[Batch, Position], None, None]
Stream: TypeAlias = Iterator[tuple[Any, Cursor]]

# Blocks that replace samples that were dropped.
SPARE_SIZE = 16


class PipelineReader:
    """Reader of the samples of a generator; `close` ends its workers.

    Args:
        data: specs, padding and length.
        generator: source of the samples.
        spec: params and processors, and the params of the generator, from which workers build it; None: they are sent
            the samples.
        drops: counts the samples that are left out.
    """

    def __init__(self, data: SampleSpecs, generator: DataGenerator[Any], spec: WorkerSpec, drops: DropCounts) -> None:
        params = self._params = spec.pipeline_params
        self._data = data
        self._generator = generator
        self.samples_per_batch = 1 if generator.yields_batches() else params.batch_size
        self.processors = spec.processors.create(params, spec.data_params)
        self.sampler = Sampler(generator, params, spec.seed)
        batcher = Batcher(data.input_layer_specs(), data.target_layer_specs(), data.padding_values(), params.mode)
        self.stack: Callable[[list[Sample]], Batch] = batcher.batch
        """Function that makes a batch of at most `samples_per_batch` samples."""
        if generator.yields_batches():
            self.stack = batcher.from_ready_made
        measures = params.max_element_length is not None or bool(params.bucket_boundaries)
        self._length = sample_length(data) if measures else data.element_length_fn
        self.filter = SampleFilter(params, drops, batcher, self._length)
        # Every worker would load data in memory once more.
        has_access = spec.generator_params is not None and generator.has_random_access()
        self.workers_read = has_access and not generator.in_memory()
        """True if workers, if there are some, read the samples; otherwise they are sent them."""
        self._is_direct = self.processors.is_mapping and generator.has_random_access()
        """True if a stream can begin anywhere at no cost."""
        is_last = not (measures or self.processors.after_parallel or generator.yields_batches())
        self.workers_stack = self._is_direct and is_last
        """True if workers, if there are some, stack the batches: nothing else is left to do."""
        # Variable dimensions are padded to the longest sample of the whole batch.
        specs = {**data.input_layer_specs(), **data.target_layer_specs()}
        has_one_shape = not any(None in spec.shape for spec in specs.values())
        if not self.workers_read:
            spec = replace(spec, generator_params=None)
        if self.workers_stack:
            spec = replace(spec, batcher=batcher)
        self.executor = BlockExecutor(self.processors, spec, generator)
        is_cut = has_one_shape or self.executor.cuts_batches
        self._reads_shards = self._is_direct and is_cut and not generator.yields_batches()
        """True if a process that trains with others makes its rows alone, not whole batches."""
        self._has_dropped = False
        """True if a sample of the last stream of blocks was dropped."""
        self._left: tuple[Any, Cursor, Iterator[Any]] | None = None
        """The rest of a stream that an iterator left, so as not to repeat its pass."""

    def close(self) -> None:
        """End the workers and release data that are being iterated."""
        self._left = None
        self.executor.close()

    def samples(self, repeat: bool) -> Generator[Sample, None, None]:
        """Yield the valid processed samples; `repeat`: pass after pass, without end."""
        sizes = repeated(self.samples_per_batch)
        for sample, _ in self._stream(Position(), sizes, repeat, stacked=False):
            yield from sample.samples if isinstance(sample, SampleGroup) else [sample]

    def batches(
        self, start: Position, sizes: Iterable[int], repeat: bool, shard: Shard = UNSHARDED, in_order: bool = False
    ) -> Batches:
        """Yield batches, each with the position after it.

        Args:
            start: where to continue. That costs nothing with mapping processors and random access, and with
                generating processors where the previous iterator was left; otherwise the pass is repeated up to it.
            sizes: of the batches; with buckets only their number counts.
            repeat: pass after pass, without end; False: stop at the end of the pass.
            shard: only its rows; only these are read if possible.
            in_order: use no buckets, which change the order of the samples.

        Raises:
            TfaipError: if a whole pass has no valid sample.
        """
        params = self._params
        if params.bucket_boundaries and not in_order:
            if self._generator.yields_batches():
                name = type(self._generator).__name__
                raise UsageError(f"bucket_boundaries needs single samples, but {name} yields batches")
            groups = self._kept_stream(start, repeat, in_buckets=True)
            for _, (group, cursor) in zip(sizes, groups, strict=False):
                yield shard_batch(self.stack(group), shard), cursor.position()
            return
        planned, wanted = tee(sizes)
        size = next(wanted, None)  # of the next batch; None after the last one
        if size is None:
            return
        # The sizes of an epoch leave the remainder out; in a single pass it shows only at the end.
        smallest = self.samples_per_batch if params.batch_drop_remainder and not repeat else 1
        read, cut = (shard, UNSHARDED) if shard[1] > 1 and self._reads_shards else (UNSHARDED, shard)
        waiting: list[Sample] = []
        for item, cursor in self._stream(replace(start, pending=()), planned, repeat, True, read):
            if isinstance(item, Batch):
                batch = item
            else:
                waiting.append(item)
                if len(waiting) < size:
                    continue
                batch, waiting = self.stack(waiting), []
            if batch.size < smallest:
                return
            yield shard_batch(batch, cut), cursor.position()
            size = next(wanted, None)
            if size is None:
                return
        if len(waiting) >= smallest:
            yield self.stack(waiting), cursor.position()

    def _filled(self, block: Block, cursor: Cursor, shard: Shard) -> Batch:
        """Return the batch of the rows of a shard; a dropped sample is replaced by another one of these rows.

        So all processes stay at the same place of the data: each knows only of its own samples what was dropped. The
        others wait for an update with as many rows as planned.
        """
        samples: list[Sample] = []
        for outcome, (pass_index, _) in zip(block.outcomes or (), block.places(), strict=True):
            cursor.enter_pass(pass_index)
            if self.filter.accepts(outcome):
                samples.append(outcome)  # type: ignore[arg-type]
        size = len(block.items)
        if not samples:
            raise TfaipError(f"all {size} samples of a batch in process {shard[0]} were dropped: {self.filter.drops}")
        return self.stack(list(islice(cycle(samples), size)))

    def _marked(self, block: Block) -> Block:
        block.stacked = not self._has_dropped
        return block

    def _stream(
        self, start: Position, sizes: Iterable[int], repeat: bool, stacked: bool, shard: Shard = UNSHARDED
    ) -> Stream:
        """Yield the samples after `start`, and `stacked` the blocks that are the next batch, with the cursor there."""
        if not self._is_direct:
            yield from self._kept_stream(start, repeat)
            return
        cursor = Cursor(start, self.filter)
        # After a dropped sample the batches have samples of several blocks, which would be stacked for nothing.
        stacked = stacked and not self._has_dropped
        self._has_dropped = False
        is_end = False
        while not is_end:
            is_end = True
            blocks = self.sampler.blocks(cursor.pass_index, cursor.consumed, sizes, repeat, shard)
            for block in self.executor.execute(map(self._marked, blocks) if stacked else blocks):
                is_end = False
                if self._has_dropped and block.batch is not None:  # it was stacked ahead
                    self.executor.in_samples(block)
                batch = block.batch
                if batch is None and shard != UNSHARDED:
                    batch = self._filled(block, cursor, shard)
                if batch is not None:
                    cursor.move(block.end)
                    batch.is_whole = block.is_whole
                    yield batch, cursor
                    continue
                for outcome, (pass_index, number) in zip(block.outcomes or (), block.places(), strict=True):
                    if pass_index != cursor.pass_index:
                        self._check_pass(cursor, repeat=True)
                        cursor.enter_pass(pass_index)
                    cursor.consumed = number + 1
                    if self.filter.accepts(outcome):
                        cursor.emitted += 1
                        yield outcome, cursor
                    else:
                        self._has_dropped = True
            sizes = [SPARE_SIZE]  # samples were dropped, or it is the end of the pass
        self._check_pass(cursor, repeat)

    def _kept_stream(self, start: Position, repeat: bool, in_buckets: bool = False) -> Stream:
        """Yield the samples after `start`, or the groups of buckets, with the cursor there.

        A stream that was left at `start` is continued. Otherwise a pass that cannot begin in the middle is repeated:
        generating processors may keep what they have read.
        """
        stream: Iterator[Any]
        kind = repeat, in_buckets
        left, self._left = self._left, None
        if left is not None and left[0] == (start, kind):
            _, cursor, stream = left
            cursor.resume(start)
        else:
            can_begin = self._is_direct if in_buckets else self.processors.is_mapping
            skips = start.emitted > 0 and not can_begin
            begin = Position(start.pass_index, dropped=start.dropped) if skips else start
            cursor = Cursor(begin, self.filter)
            passes = self._passes(cursor, repeat)
            stream = self._groups(cursor, passes, begin) if in_buckets else chain.from_iterable(passes)
            if skips:
                wanted = start.pass_index, start.emitted, -len(start.pending)  # what grows along a stream
                for _ in stream:
                    if (cursor.pass_index, cursor.emitted, -len(cursor.pending)) >= wanted:
                        break
                cursor.resume(start)
        try:
            for item in stream:
                yield item, cursor
        except GeneratorExit:
            self._left = (cursor.position(), kind), cursor, stream
            raise

    def _passes(self, cursor: Cursor, repeat: bool) -> Iterator[Iterator[Sample]]:
        """Yield the rest of the pass of the cursor, then whole passes."""
        while True:
            yield self._pass(cursor)
            self._check_pass(cursor, repeat)
            if not repeat:
                return
            cursor.enter_pass(cursor.pass_index + 1)

    def _pass(self, cursor: Cursor) -> Iterator[Sample]:
        def mapped() -> Iterator[Sample]:
            sizes = repeated(self.samples_per_batch)
            blocks = self.sampler.blocks(cursor.pass_index, cursor.consumed, sizes, repeat=False)
            for block in self.executor.execute(blocks):
                for outcome in block.outcomes or ():
                    cursor.consumed += 1
                    if isinstance(outcome, SampleGroup) and not self.processors.is_mapping:
                        raise TypeError("generating processors cannot process lists of samples, as the generator has")
                    if self.filter.keeps(outcome):
                        yield outcome  # type: ignore[misc]

        for sample in self.processors.stream(mapped(), self.sampler.seed, cursor.pass_index, self.filter.keeps):
            if self.filter.accepts(sample):
                cursor.emitted += 1
                yield sample

    def _check_pass(self, cursor: Cursor, repeat: bool) -> None:
        # An endless stream without samples would never return. Nothing to predict is no error.
        if cursor.emitted == 0 and (repeat or self._params.mode is not PipelineMode.PREDICTION):
            raise TfaipError(
                f"pass {cursor.pass_index} over the {self._params.mode.value} data has no valid sample; "
                f"dropped so far: {self.filter.drops}; check the data, the processors, and max_element_length"
            )

    def _groups(self, cursor: Cursor, passes: Iterable[Iterable[Sample]], start: Position) -> Iterator[list[Sample]]:
        """Yield the samples of passes in groups of similar length, and note in the cursor which of them wait.

        Bucket i has the lengths from `boundaries[i - 1]` to below `boundaries[i]`; one that is full is a batch. At the
        end of a pass the buckets are emptied, the shortest samples first, so that every sample comes once in each pass,
        and all that wait are of one pass: a position names them by their numbers, and they are made again.

        Args:
            cursor: moves with the samples.
            passes: the samples after the first position of the cursor.
            start: this position.

        Raises:
            TfaipError: if no bucket was filled in a whole pass, and remainders are dropped.
        """
        params = self._params
        boundaries, drops_rest = params.bucket_boundaries, params.batch_drop_remainder
        sizes = params.bucket_batch_sizes or [params.batch_size] * (len(boundaries) + 1)
        buckets: list[list[tuple[int, Sample]]] = [[] for _ in sizes]

        def bucket_of(sample: Sample) -> int:
            return bisect_right(boundaries, self._length(sample))

        def taken(bucket: int) -> list[Sample]:
            waiting, size = buckets[bucket], sizes[bucket]
            group, waiting[:size] = waiting[:size], []
            cursor.pending = tuple(sorted(number for rest in buckets for number, _ in rest))
            return [sample for _, sample in group]

        order = self.sampler.indices(start.pass_index) if start.pending else ()
        for number in start.pending:  # none of them fails or is dropped: each was accepted before it waited
            raw = self.sampler.read(int(order[number]))
            sample = self.processors.mapper.map(raw, self.sampler.seed, start.pass_index, number)
            buckets[bucket_of(sample)].append((number, sample))
        has_groups = True
        for samples in passes:
            if not has_groups:
                raise TfaipError(
                    f"pass {cursor.pass_index - 1} over the data filled no bucket, and batch_drop_remainder drops the "
                    f"rest: use smaller batches ({sizes}), fewer buckets, or keep the remainder"
                )
            has_groups = cursor.emitted > 0 or not drops_rest
            for sample in samples:
                bucket = bucket_of(sample)
                buckets[bucket].append((cursor.consumed - 1, sample))
                if len(buckets[bucket]) >= sizes[bucket]:
                    has_groups = True
                    yield taken(bucket)
            for bucket, waiting in enumerate(buckets):
                if drops_rest:
                    waiting.clear()
                while waiting:
                    yield taken(bucket)
