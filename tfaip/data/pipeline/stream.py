"""The stream of processed samples: pass after pass, resumable at any position.

The order of a pass is a function of (seed, pass), the random numbers of a processor are one of
(seed, pass, sample, processor). An epoch is a window on the stream: the next one starts where it
ended. So equal seeds give equal bytes, and a training can continue at any batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.blocks import BlockResult
from tfaip.data.pipeline.definitions import FailedSample, PipelineMode, Sample, SampleGroup
from tfaip.data.pipeline.executor import BlockExecutor
from tfaip.data.pipeline.failures import Dropped, FailurePolicy, SampleFilter
from tfaip.data.pipeline.position import Position
from tfaip.data.pipeline.processor.pipeline import ProcessorPipeline
from tfaip.data.pipeline.sampler import Sampler
from tfaip.errors import TfaipError


class Cursor:
    """A position that moves; what failed after its start will come again.

    A pipeline counts what it drops from 0 in every process, and again in passes that are repeated
    to get to a position. A cursor takes from it only what was counted since `set_dropped`.

    Args:
        start: first position.
        failures: counts the samples that fail from there on.
    """

    __slots__ = ("_counted", "_dropped", "_failures", "consumed", "emitted", "pass_index")

    def __init__(self, start: Position, failures: FailurePolicy) -> None:
        self.pass_index, self.consumed, self.emitted = start.pass_index, start.consumed, start.emitted
        self._failures = failures
        failures.resume(start.pass_index, start.failed)
        self.set_dropped(start.dropped)

    def set_dropped(self, dropped: Dropped) -> None:
        """Set the numbers of samples that were dropped before the current position."""
        self._dropped, self._counted = dropped, self._failures.drops.numbers()

    def position(self) -> Position:
        """Return the current position."""
        dropped = self._dropped
        now = self._failures.drops.numbers()
        if now != self._counted:  # seldom, and a position is made for every sample
            counts = zip(dropped, now, self._counted, strict=True)
            invalid, too_long, failed = (before + count - counted for before, count, counted in counts)
            dropped = invalid, too_long, failed
        return Position(self.pass_index, self.consumed, self.emitted, (), self._failures.failed, dropped)


class SampleStream:
    """Raw samples in their order, processed, without the invalid ones.

    Args:
        sampler: order of the raw samples.
        executor: reads them and runs the mapping processors.
        processors: those from the first generating one on run here.
        sample_filter: selects the processed samples that are given out.
        block_size: number of samples that are processed together if there are no batch sizes.
    """

    def __init__(
        self,
        sampler: Sampler,
        executor: BlockExecutor,
        processors: ProcessorPipeline,
        sample_filter: SampleFilter,
        block_size: int,
    ) -> None:
        self._sampler = sampler
        self._executor = executor
        self._processors = processors
        self._filter = sample_filter
        self._block_size = block_size
        self._suspended: tuple[Position, Cursor, Iterator[tuple[Sample, Position]]] | None = None
        """The rest of a pass of generated samples that an iterator left, so as not to repeat it."""

    def close(self) -> None:
        """Release the rest of the pass of generated samples that an iterator left."""
        self._suspended = None

    def samples(self, start: Position, repeat: bool) -> Iterator[tuple[Sample, Position]]:
        """Yield the samples after `start`, each with the position after it.

        Args:
            start: where to continue. That costs nothing with mapping processors and random access,
                and with generating processors where the previous iterator was left; otherwise the
                pass is repeated up to it.
            repeat: continue with the next pass, without end; False: stop at the end of the pass.

        Raises:
            TfaipError: if a whole pass has no valid sample.
        """
        if not self._processors.is_mapping:
            yield from self._generated_samples(start, repeat)
            return
        cursor = Cursor(start, self._filter.failures)
        for result in self._execute(cursor, itertools.repeat(self._block_size), repeat):
            for sample in self._accepted(result, cursor):
                yield sample, cursor.position()
        self._check_pass(cursor, repeat)

    def batches(
        self, start: Position, sizes: Iterable[int], repeat: bool, stack: Callable[[list[Sample]], Batch]
    ) -> Iterator[tuple[Batch, Position]]:
        """Yield batches of the samples after `start`, each with the position after it.

        Args:
            start: as in `samples`.
            sizes: of the batches; without `repeat` the last one may be smaller.
            repeat: as in `samples`.
            stack: returns the batch of some samples.
        """
        if self._processors.is_mapping:
            return self._mapped_batches(start, sizes, repeat, stack)
        return self._generated_batches(start, sizes, repeat, stack)

    def _mapped_batches(
        self, start: Position, sizes: Iterable[int], repeat: bool, stack: Callable[[list[Sample]], Batch]
    ) -> Iterator[tuple[Batch, Position]]:
        planned, wanted = itertools.tee(sizes)
        size = next(wanted, None)  # of the next batch; None after the last one
        if size is None:
            return
        waiting: list[Sample] = []
        cursor = Cursor(start, self._filter.failures)
        for result in self._execute(cursor, planned, repeat, as_batches=True):
            # A worker has stacked the block, and it begins where a batch does: it is the batch.
            if result.batch is not None and not waiting and result.batch.size == size:
                self._skip(result, cursor)
                yield result.batch, cursor.position()
                size = next(wanted, None)
                if size is None:
                    return
                continue
            # It is not stacked, or samples were dropped before, so that the next batch has samples of several blocks.
            for sample in self._accepted(result, cursor):
                waiting.append(sample)
                if len(waiting) == size:
                    yield stack(waiting), cursor.position()
                    waiting, size = [], next(wanted, None)
                    if size is None:
                        return
        self._check_pass(cursor, repeat)
        if waiting:
            yield stack(waiting), cursor.position()

    def _generated_batches(
        self, start: Position, sizes: Iterable[int], repeat: bool, stack: Callable[[list[Sample]], Batch]
    ) -> Iterator[tuple[Batch, Position]]:
        samples = self._generated_samples(start, repeat)
        for size in sizes:
            group = list(itertools.islice(samples, size))
            if not group:
                return
            yield stack([sample for sample, _ in group]), group[-1][1]

    def _generated_samples(self, start: Position, repeat: bool) -> Iterator[tuple[Sample, Position]]:
        start = replace(start, pending=())
        suspended, self._suspended = self._suspended, None
        # A generating processor may keep what it has read: its pass cannot begin in the middle.
        # Without the suspended iterator every epoch would run its pass from the beginning.
        if suspended is not None and suspended[0] == start:
            _, cursor, rest = suspended
            self._filter.failures.resume(start.pass_index, start.failed)
        else:
            cursor, rest = self._pass(start)
        while True:
            position = start
            try:
                for sample, position in rest:
                    yield sample, position
            except GeneratorExit:
                self._suspended = position, cursor, rest
                raise
            self._check_pass(cursor, repeat)
            if not repeat:
                return
            end = cursor.position()
            start = Position(start.pass_index + 1, dropped=end.dropped)
            cursor, rest = self._pass(start)

    def _pass(self, start: Position) -> tuple[Cursor, Iterator[tuple[Sample, Position]]]:
        """Return the rest of a pass of generated samples, which has to run from its beginning."""
        cursor = Cursor(replace(start, consumed=0, emitted=0, failed=0), self._filter.failures)
        return cursor, self._rest_of_pass(start, cursor)

    def _rest_of_pass(self, start: Position, cursor: Cursor) -> Iterator[tuple[Sample, Position]]:
        def mapped() -> Iterator[Sample]:
            for result in self._execute(cursor, itertools.repeat(self._block_size), repeat=False):
                yield from map(_require_single, self._valid(result, cursor))

        processed = self._processors.stream(
            mapped(), self._sampler.seed, cursor.pass_index, self._count_invalid, self._filter.failures.handle
        )
        for sample in processed:
            if self._filter.accepts(sample):
                cursor.emitted += 1
                if cursor.emitted > start.emitted:
                    yield sample, cursor.position()
                elif cursor.emitted == start.emitted:
                    cursor.set_dropped(start.dropped)  # those of the repeated part were counted before

    def _execute(
        self, cursor: Cursor, sizes: Iterable[int], repeat: bool, as_batches: bool = False
    ) -> Iterator[BlockResult]:
        blocks = self._sampler.blocks(cursor.pass_index, cursor.consumed, sizes, repeat)
        return self._executor.execute(blocks, as_batches)

    def _accepted(self, result: BlockResult, cursor: Cursor) -> Iterator[Sample]:
        accepts = self._filter.accepts
        for sample in self._valid(result, cursor):
            if accepts(sample):
                cursor.emitted += 1
                yield sample

    def _valid(self, result: BlockResult, cursor: Cursor) -> Iterator[Sample]:
        for segment, outcomes in result.segments():
            self._enter_pass(cursor, segment.pass_index)
            for number, outcome in enumerate(outcomes, segment.first):
                cursor.consumed = number + 1
                if isinstance(outcome, FailedSample) or outcome._invalid:
                    self._filter.drop(outcome)
                else:
                    yield outcome

    def _skip(self, result: BlockResult, cursor: Cursor) -> None:
        """Move past a block whose samples are all given out."""
        for segment in result.block.segments:
            self._enter_pass(cursor, segment.pass_index)
            cursor.consumed = segment.first + len(segment.items)
            cursor.emitted += len(segment.items)

    def _enter_pass(self, cursor: Cursor, pass_index: int) -> None:
        if pass_index != cursor.pass_index:
            self._check_pass(cursor, repeat=True)
            cursor.pass_index, cursor.consumed, cursor.emitted = pass_index, 0, 0
            self._filter.failures.enter_pass(pass_index)

    def _check_pass(self, cursor: Cursor, repeat: bool) -> None:
        # An endless stream without samples would never return. Nothing to predict is no error.
        mode = self._sampler.mode
        if cursor.emitted == 0 and (repeat or mode is not PipelineMode.PREDICTION):
            raise TfaipError(
                f"pass {cursor.pass_index} over the {mode.value} data has no valid sample; dropped "
                f"so far: {self._filter.drops}; check the lists or files of the generator and the "
                f"processors, and max_element_length"
            )

    def _count_invalid(self) -> None:
        self._filter.drops.invalid += 1

    def number(self, position: Position) -> int:
        """Return the number of the sample before `position`, by which `recall` finds it.

        It is that of the raw sample, or with generating processors, where a raw sample may give
        several, that among the processed samples of the pass.
        """
        return (position.consumed if self._processors.is_mapping else position.emitted) - 1

    def recall(self, start: Position) -> Iterator[tuple[int, Sample]]:
        """Make the samples that are pending at `start` again, each with its number."""
        wanted = set(start.pending)
        if not wanted:
            return
        if self._processors.is_mapping:
            # None of them fails or is dropped: each was accepted before it was put into a bucket.
            for number, raw in self._sampler.samples(start.pass_index, start.pending):
                yield number, self._processors.mapper.map(raw, self._sampler.seed, start.pass_index, number)
            return
        self._suspended = None  # the processors, which may have a state, begin the pass again
        _, samples = self._pass(Position(start.pass_index))
        for sample, position in samples:
            if self.number(position) in wanted:
                yield self.number(position), sample
            if position.emitted >= start.emitted:
                return


def _require_single(sample: Sample) -> Sample:
    if isinstance(sample, SampleGroup):
        raise TypeError(
            "the generator yields lists of samples as batches, which generating processors cannot process: yield "
            "single samples, or leave these processors out"
        )
    return sample
