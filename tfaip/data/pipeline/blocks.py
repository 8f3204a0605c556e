"""Work on blocks of raw samples.

The result of a block is a pure function of the seed and the places of its samples, so it does not
matter which process computes it. Generating processors, filters and positions come after it and do
not know the process either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfaip.data.pipeline.batching import Batch, Batcher
from tfaip.data.pipeline.datagenerator import BatchAccess, DataGenerator, RandomAccess
from tfaip.data.pipeline.definitions import Outcome, Sample
from tfaip.data.pipeline.processor.pipeline import SampleMapper
from tfaip.data.pipeline.sampler import Block, Segment, read_sample


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
        self._generator = generator if isinstance(generator, RandomAccess) else None
        self.mapper = mapper
        self._seed = seed
        self._batcher = batcher
        self.arrays = generator if batcher and not mapper and isinstance(generator, BatchAccess) else None
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
            outcomes += self.mapper.outcomes(self.raw_samples(segment), self._seed, segment.pass_index, segment.first)
        return outcomes


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
