"""The part of every batch that one of several processes trains."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import cycle, islice, tee

from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.blocks import Block, FailedSample, Result
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.failures import DropTally
from tfaip.data.pipeline.order import RawOrder
from tfaip.data.pipeline.source import BlockSource
from tfaip.data.pipeline.stream import Position, StreamRules
from tfaip.errors import TfaipError

Shard = tuple[int, int]
"""(rank, n): the rows of process `rank`, from 0, of n processes that train together."""

ALONE: Shard = (0, 1)


def rows_of(batch: Batch, shard: Shard) -> Batch:
    """The rows of a shard, consecutive ones; their numbers differ by one where n does not divide the batch."""
    if shard == ALONE:
        return batch
    rows = slice(*borders(batch.size, shard))
    inputs, targets = ({key: array[rows] for key, array in part.items()} for part in (batch.inputs, batch.targets))
    return Batch(inputs, targets, batch.meta[rows])


class ShardedStream:
    """Reads and processes no other samples than those of its rows.

    The batches of all processes together are those of one process, as long as no sample is dropped: whether one is, a
    process knows only of its own. The place of a dropped sample is taken by another one of the same rows, so that all
    processes stay at the same place of the data.

    Args:
        order: the raw samples.
        source: reads them and runs the processors, which must all be mapping ones.
        rules: what to do with the processed samples.
        shard: which rows.
    """

    def __init__(self, order: RawOrder, source: BlockSource, rules: StreamRules, shard: Shard) -> None:
        self._order = order
        self._source = source
        self._rules = rules
        self._shard = shard

    def batches(
        self, start: Position, sizes: Iterable[int], stack: Callable[[list[Sample]], Batch]
    ) -> Generator[tuple[Batch, Position], None, None]:
        """Own rows of the batches behind `start`, each with the position behind the whole batch.

        Args:
            start: where to go on.
            sizes: of the whole batches.
            stack: makes a batch of samples.

        Raises:
            TfaipError: all samples of the own rows of a batch were dropped.
        """
        self._rules.failures.go_on_from(start.failed)
        dropped = DropTally(self._rules.drops, start.dropped)
        whole, parts = tee(self._order.blocks(start.pass_index, start.consumed, sizes, repeat=True, spare=False))
        own = (_cut(block, *borders(block.size, self._shard)) for block in parts)
        for result in self._source.results(own, self._order.seed, as_batches=True):
            last = next(whole).runs[-1]
            consumed = last.first + len(last.items)
            batch = result.batch if result.batch is not None else stack(self._filled(result))
            failed = self._rules.failures.failed
            yield batch, Position(last.pass_index, consumed, consumed, failed=failed, dropped=dropped.numbers())

    def _filled(self, result: Result) -> list[Sample]:
        good = [
            sample
            for run, outcomes in result.runs()
            for offset, outcome in enumerate(outcomes)
            for sample in self._accepted(outcome, run.index(offset))
        ]
        if not good:
            raise TfaipError(
                f"all {result.block.size} samples that process {self._shard[0]} has in a batch were dropped (so far: "
                f"{self._rules.drops}): check the data, or make the batch larger"
            )
        return list(islice(cycle(good), result.block.size))

    def _accepted(self, outcome: Sample | FailedSample, index: int) -> Iterator[Sample]:
        if isinstance(outcome, FailedSample):
            self._rules.failures.handle(outcome, (index,))
        elif not outcome.is_valid():
            self._rules.drops.invalid += 1
        elif self._rules.accepts(outcome):
            yield outcome


def borders(size: int, shard: Shard) -> tuple[int, int]:
    """The first row of a shard in a batch of this size, and the first one behind it."""
    rank, number = shard
    return size * rank // number, size * (rank + 1) // number


def _cut(block: Block, begin: int, end: int) -> Block:
    runs = []
    for run in block.runs:
        first, last = max(begin, 0), min(end, len(run.items))
        if first < last:
            runs.append(run.part(first, last))
        begin, end = begin - len(run.items), end - len(run.items)
    return Block(runs)
