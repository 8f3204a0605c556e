"""Sharding: the rows of every batch that one of several processes trains."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from itertools import cycle, islice, tee

from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.blocks import Block, BlockResult
from tfaip.data.pipeline.definitions import FailedSample, Sample
from tfaip.data.pipeline.executor import BlockExecutor
from tfaip.data.pipeline.failures import SampleFilter
from tfaip.data.pipeline.position import Position
from tfaip.data.pipeline.sampler import Sampler
from tfaip.data.pipeline.stream import Cursor
from tfaip.errors import TfaipError

Shard = tuple[int, int, int]
"""(index, count, devices): the rows of process `index`, from 0, of `count` that have so many devices together."""

UNSHARDED: Shard = (0, 1, 1)


def is_whole(size: int, shard: Shard) -> bool:
    """Return True if a batch of this size cannot be split equally: every device gets all of it."""
    return size % shard[2] > 0


def shard_bounds(size: int, shard: Shard) -> tuple[int, int]:
    """Return the first row of a shard in a batch of this size, and the first one after it."""
    if is_whole(size, shard):
        return 0, size
    index, count, _ = shard
    return size * index // count, size * (index + 1) // count


def shard_batch(batch: Batch, shard: Shard) -> Batch:
    """Return the rows of a shard, consecutive ones; all rows of a batch that cannot be split equally."""
    if is_whole(batch.size, shard):
        return replace(batch, is_whole=True)
    if shard[1] == 1:
        return batch
    begin, end = shard_bounds(batch.size, shard)
    inputs = {key: array[begin:end] for key, array in batch.inputs.items()}
    targets = {key: array[begin:end] for key, array in batch.targets.items()}
    return Batch(inputs, targets, batch.meta[begin:end])


class ShardedStream:
    """Stream of which only the samples of one shard are read and processed.

    The batches of all processes together are those of one process, as long as no sample is dropped:
    a process knows that only of its own samples. A dropped sample is replaced by another one of the
    same rows, so that all processes stay at the same place of the data.

    Args:
        sampler: order of the raw samples.
        executor: reads them and runs the processors, which must all be mapping ones.
        sample_filter: selects the processed samples that are given out.
        shard: which rows.
    """

    def __init__(self, sampler: Sampler, executor: BlockExecutor, sample_filter: SampleFilter, shard: Shard) -> None:
        self._sampler = sampler
        self._executor = executor
        self._filter = sample_filter
        self._shard = shard

    def batches(
        self, start: Position, sizes: Iterable[int], stack: Callable[[list[Sample]], Batch]
    ) -> Generator[tuple[Batch, Position], None, None]:
        """Yield the rows of the shard, each with the position after the whole batch.


        Args:
            start: where to continue.
            sizes: of the whole batches.
            stack: returns the batch of some samples.

        Raises:
            TfaipError: if all samples of the own rows of a batch were dropped.
        """
        cursor = Cursor(start, self._filter.failures)
        whole, parts = tee(self._sampler.blocks(start.pass_index, start.consumed, sizes, repeat=True, spare=False))
        own = (_part(block, *shard_bounds(block.size, self._shard)) for block in parts)
        for result in self._executor.execute(own, as_batches=True):
            # Every process continues after the whole batch, not after its own rows.
            block = next(whole)
            last = block.segments[-1]
            batch = result.batch
            if batch is None:
                batch = stack(self._filled(result))
            batch.is_whole = is_whole(block.size, self._shard)
            cursor.pass_index = last.pass_index
            self._filter.failures.enter_pass(last.pass_index)
            cursor.consumed = cursor.emitted = last.first + len(last.items)
            yield batch, cursor.position()

    def _filled(self, result: BlockResult) -> list[Sample]:
        """Return as many samples as the block has; those that were dropped are replaced."""
        samples: list[Sample] = []
        for segment, outcomes in result.segments():
            self._filter.failures.enter_pass(segment.pass_index)
            for outcome in outcomes:
                if isinstance(outcome, FailedSample) or not outcome.is_valid():
                    self._filter.drop(outcome)
                elif self._filter.accepts(outcome):
                    samples.append(outcome)
        if not samples:
            raise TfaipError(
                f"all {result.block.size} samples that process {self._shard[0]} has in a batch were dropped (so far: "
                f"{self._filter.drops}): check the data, or make the batch larger"
            )
        # The other processes wait for an update with as many rows as planned.
        return list(islice(cycle(samples), result.block.size))


def _part(block: Block, begin: int, end: int) -> Block:
    """Return the samples from `begin` to before `end`."""
    segments = []
    for segment in block.segments:
        size = len(segment.items)
        first, last = max(begin, 0), min(end, size)
        if first < last:
            segments.append(segment.part(first, last))
        begin, end = begin - size, end - size
    return Block(segments)
