"""Blocks of consecutive raw samples: the unit of work.

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
from tfaip.data.pipeline.datagenerator import DataGenerator, RandomAccess
from tfaip.data.pipeline.definitions import FailedSample, Outcome, Sample, require_iterable, require_sample
from tfaip.data.pipeline.failures import as_failure
from tfaip.data.pipeline.processor.pipeline import SampleMapper


@dataclass(slots=True)
class Segment:
    """Consecutive raw samples of one pass.

    Args:
        pass_index: the pass.
        first: number of the first sample in the pass.
        items: the samples, or with random access their indices in the generator.
    """

    pass_index: int
    first: int
    items: list[Any]

    def part(self, begin: int, end: int) -> Segment:
        """Return the samples from `begin` to before `end`."""
        return Segment(self.pass_index, self.first + begin, self.items[begin:end])


@dataclass(slots=True)
class Block:
    """Raw samples that are processed together.

    Args:
        segments: where the samples are; those of several passes follow each other.
        is_spare: the block is needed only if samples of earlier blocks were dropped.
    """

    segments: list[Segment]
    is_spare: bool = False

    @property
    def size(self) -> int:
        """Number of raw samples."""
        return sum(len(segment.items) for segment in self.segments)


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


def map_segment(mapper: SampleMapper, segment: Segment, samples: Iterable[Outcome], seed: int) -> list[Outcome]:
    """Process the samples of a segment; one that cannot be processed fails alone.

    Args:
        mapper: the processors.
        segment: places of the samples.
        samples: the raw samples of the segment, or the outcomes of earlier processors.
        seed: of the data.
    """
    if not mapper:
        return list(samples)
    outcomes: list[Outcome] = []
    process, pass_index = mapper.map, segment.pass_index
    for number, sample in enumerate(samples, segment.first):
        if sample.__class__ is not FailedSample:
            try:
                sample = process(sample, seed, pass_index, number)  # type: ignore[arg-type]
            except Exception as error:
                sample = FailedSample(error)
        outcomes.append(sample)
    return outcomes


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

    def raw_samples(self, segment: Segment) -> Iterable[Outcome]:
        """Read the samples of a segment; one that cannot be read fails alone."""
        generator = self._generator
        if generator is None:
            return segment.items
        return (read_sample(generator, index) for index in segment.items)

    def process(self, block: Block, as_batch: bool = False) -> BlockResult:
        """Process a block; with `as_batch`, stack it if all of its samples are valid."""
        outcomes: list[Outcome] = []
        for segment in block.segments:
            outcomes += map_segment(self.mapper, segment, self.raw_samples(segment), self._seed)
        if as_batch and self._batcher is not None and all(map(_is_valid, outcomes)):
            return _stacked(self._batcher, block, outcomes)  # type: ignore[arg-type]
        return BlockResult(block, outcomes)


def _is_valid(outcome: Outcome) -> bool:
    return isinstance(outcome, Sample) and outcome.is_valid()


def read_sample(generator: Any, index: int) -> Outcome:
    """Return the sample at an index of a generator with random access, or why it could not be read."""
    try:
        sample = generator[index]
        if sample.__class__ is not Sample:
            return require_sample(sample, f"{type(generator).__name__}[{index}]", generator.yields_batches())
        return sample
    except BaseException as error:
        failure = as_failure(error)
        failure.add_note(f"while {type(generator).__name__} read sample {index}")
        if not isinstance(failure, Exception):
            raise
        return FailedSample(failure)


def generated_samples(generator: DataGenerator[Any]) -> Iterator[Sample]:
    """Iterate over the samples of a pass; a note of an error says how many there were before it."""
    count, name = 0, f"{type(generator).__name__}.generate"
    may_be_list = generator.yields_batches()
    try:
        for sample in require_iterable(generator.generate(), name):
            yield require_sample(sample, name, may_be_list)
            count += 1
    except Exception as error:
        error.add_note(f"while {name} ran, after {count} samples")
        raise


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
