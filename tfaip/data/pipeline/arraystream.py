"""Batches cut straight from arrays: the same bytes as the way through single samples, many times faster."""

from __future__ import annotations

from collections.abc import Generator, Iterable

import numpy as np

from tfaip.data.pipeline.batching import Batch, Batcher
from tfaip.data.pipeline.datagenerator import BatchAccess
from tfaip.data.pipeline.order import Indices, RawOrder
from tfaip.data.pipeline.sharding import ALONE, Shard, borders
from tfaip.data.pipeline.stream import Position
from tfaip.errors import TfaipError


def array_batches(
    generator: BatchAccess,
    order: RawOrder,
    batcher: Batcher,
    start: Position,
    sizes: Iterable[int],
    repeat: bool,
    shard: Shard = ALONE,
) -> Generator[tuple[Batch, Position], None, None]:
    """Batches of unprocessed samples behind `start`, each with the position behind it.

    Args:
        generator: gives many samples at once.
        order: of the same generator.
        batcher: checks and casts.
        start: where to go on.
        sizes: of the batches; without `repeat` the last one may come out shorter.
        repeat: pass after pass without end, or only to the end of the pass.
        shard: only the rows of one of several processes; the sizes are those of the whole batches.
    """
    position = start
    indices = order.indices(start.pass_index)
    if len(indices) == 0:
        raise TfaipError("the data has no sample")
    for size in sizes:
        picked: list[Indices] = []
        missing = size
        while missing:
            if position.consumed >= len(indices):  # the data may have become smaller since the training was stopped
                if not repeat:
                    break
                position = Position(position.pass_index + 1, dropped=start.dropped)
                indices = order.indices(position.pass_index)
            part = indices[position.consumed : position.consumed + missing]
            picked.append(part)
            missing -= len(part)
            end = position.consumed + len(part)
            position = Position(position.pass_index, end, end, dropped=start.dropped)
        if not picked:
            return
        rows = picked[0] if len(picked) == 1 else np.concatenate(picked)
        own = slice(*borders(len(rows), shard))
        yield batcher.from_stacked(generator.get_batch(rows[own])), position
