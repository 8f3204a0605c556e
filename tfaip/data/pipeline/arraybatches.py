"""Batches cut straight from arrays: the same bytes as through single samples, many times faster."""

from __future__ import annotations

from collections.abc import Generator, Iterable

import numpy as np

from tfaip.data.pipeline.batching import Batch, Batcher
from tfaip.data.pipeline.datagenerator import BatchAccess
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.data.pipeline.position import Position
from tfaip.data.pipeline.sampler import Indices, Sampler
from tfaip.data.pipeline.sharding import UNSHARDED, Shard, is_whole, shard_bounds
from tfaip.errors import TfaipError


def array_batches(
    generator: BatchAccess,
    sampler: Sampler,
    batcher: Batcher,
    start: Position,
    sizes: Iterable[int],
    repeat: bool,
    shard: Shard = UNSHARDED,
) -> Generator[tuple[Batch, Position], None, None]:
    """Yield batches of unprocessed samples after `start`, each with the position after it.

    Args:
        generator: gives many samples at once.
        sampler: order of the samples of this generator.
        batcher: checks and casts.
        start: where to continue.
        sizes: of the whole batches; without `repeat` the last one may be smaller.
        repeat: continue with the next pass, without end; False: stop at the end of the pass.
        shard: only the rows of one of several processes.

    Raises:
        TfaipError: if the data has no sample; nothing to predict is no error.
    """
    position = start
    indices = sampler.indices(start.pass_index)
    if len(indices) == 0 and (repeat or sampler.mode is not PipelineMode.PREDICTION):  # as in `SampleStream`
        raise TfaipError("the data has no sample")
    for size in sizes:
        picked: list[Indices] = []
        missing = size
        while missing:
            if position.consumed >= len(indices):  # above it if the data became smaller since a training was stopped
                if not repeat:
                    break
                position = Position(position.pass_index + 1, dropped=start.dropped)
                indices = sampler.indices(position.pass_index)
            part = indices[position.consumed : position.consumed + missing]
            picked.append(part)
            missing -= len(part)
            end = position.consumed + len(part)
            position = Position(position.pass_index, end, end, dropped=start.dropped)
        if not picked:
            return
        rows = picked[0] if len(picked) == 1 else np.concatenate(picked)  # most batches are of one pass
        begin, end = shard_bounds(len(rows), shard)
        batch = batcher.from_stacked(generator.get_batch(rows[begin:end]))
        batch.is_whole = is_whole(len(rows), shard)
        yield batch, position
