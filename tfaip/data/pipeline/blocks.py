"""Blocks of consecutive raw samples: the unit of work, a pure function of (seed, places of the samples)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfaip.data.pipeline.batching import Batch, Batcher
from tfaip.data.pipeline.datagenerator import DataGenerator, RandomAccess
from tfaip.data.pipeline.definitions import Sample, require_sample
from tfaip.data.pipeline.processor.pipeline import SampleMapper


@dataclass(slots=True)
class Run:
    """Consecutive raw samples of one pass.

    Args:
        pass_index: the pass.
        first: number of the first sample in the pass.
        items: the samples, or with random access their indices in the generator.
        indices: of the samples in the generator; None: they are the items.
    """

    pass_index: int
    first: int
    items: list[Any]
    indices: list[int] | None = None

    def index(self, offset: int) -> int:
        """The index in the generator of one of the samples."""
        return self.items[offset] if self.indices is None else self.indices[offset]

    def part(self, begin: int, end: int) -> Run:
        """The samples from `begin` to before `end`."""
        indices = None if self.indices is None else self.indices[begin:end]
        return Run(self.pass_index, self.first + begin, self.items[begin:end], indices)


@dataclass(slots=True)
class Block:
    """Raw samples to be processed together; the runs of several passes follow each other.

    Args:
        runs: where the samples are.
        is_spare: the block is needed only if samples of earlier blocks were dropped.
    """

    runs: list[Run]
    is_spare: bool = False

    @property
    def size(self) -> int:
        """Number of raw samples."""
        return sum(len(run.items) for run in self.runs)


@dataclass(slots=True)
class FailedSample:
    """What is left of a sample that could not be read or processed.

    Args:
        error: what happened; its notes name the sample and the processor.
        trace: the traceback in a worker process; None if it happened in this process.
    """

    error: Exception
    trace: str | None = None


Outcome = Sample | FailedSample


@dataclass(slots=True)
class Result:
    """A processed block.

    Args:
        block: what was processed.
        outcomes: one for each raw sample; None if they were all good and are in the batch.
        batch: the samples, stacked.
        shapes: of the samples in the batch, by key of inputs and targets, where they were padded.
    """

    block: Block
    outcomes: Sequence[Outcome] | None
    batch: Batch | None = None
    shapes: tuple[dict[str, list[Any]], dict[str, list[Any]]] = ({}, {})

    def runs(self) -> Iterator[tuple[Run, Sequence[Outcome]]]:
        """The runs of the block with their outcomes."""
        outcomes = self._split() if self.outcomes is None else self.outcomes
        begin = 0
        for run in self.block.runs:
            yield run, outcomes[begin : begin + len(run.items)]
            begin += len(run.items)

    def _split(self) -> list[Sample]:
        """The rows of the batch as samples, without the padding."""
        batch = self.batch
        assert batch is not None  # noqa: S101 (there are outcomes or a batch)
        parts = zip((batch.inputs, batch.targets), self.shapes, strict=True)
        inputs, targets = ([_row(arrays, shapes, i) for i in range(batch.size)] for arrays, shapes in parts)
        return [Sample(inputs=i, targets=t, meta=m) for i, t, m in zip(inputs, targets, batch.meta, strict=True)]


def _row(arrays: dict[str, Any], shapes: dict[str, list[Any]], index: int) -> dict[str, Any]:
    return {
        key: array[index][tuple(map(slice, shapes[key][index]))] if key in shapes else array[index]
        for key, array in arrays.items()
    }


def map_run(mapper: SampleMapper, run: Run, samples: Iterable[Outcome], seed: int) -> list[Outcome]:
    """Process the samples of a run; one that cannot be processed fails alone.

    Args:
        mapper: the processors.
        run: names the places of the samples.
        samples: the raw samples of the run, or what the processors before made of them.
        seed: of the data.
    """
    if not mapper:
        return list(samples)
    outcomes: list[Outcome] = []
    process, pass_index = mapper.map, run.pass_index
    for number, sample in enumerate(samples, run.first):
        if sample.__class__ is not FailedSample:
            try:
                sample = process(sample, seed, pass_index, number)  # type: ignore[arg-type]
            except Exception as error:
                sample = FailedSample(error)
        outcomes.append(sample)
    return outcomes


class BlockMaker:
    """Reads and processes blocks in this process.

    Args:
        generator: with random access it reads the samples of a block; else the block holds them.
        mapper: the processors.
        batcher: makes a batch of a block where that is asked for; None: it never is.
    """

    def __init__(
        self, generator: DataGenerator[Any] | None, mapper: SampleMapper, batcher: Batcher | None = None
    ) -> None:
        self._generator = generator if isinstance(generator, RandomAccess) else None
        self.mapper = mapper
        self._batcher = batcher

    def raw_samples(self, run: Run) -> Iterable[Outcome]:
        """Read the samples of a run; one that cannot be read fails alone."""
        generator = self._generator
        return run.items if generator is None else (read_sample(generator, index) for index in run.items)

    def make(self, block: Block, seed: int, as_batch: bool = False) -> Result:
        """The processed block, sample by sample, or as one batch if that is asked for and all samples are good."""
        outcomes: list[Outcome] = []
        for run in block.runs:
            outcomes += map_run(self.mapper, run, self.raw_samples(run), seed)
        if not as_batch or self._batcher is None or not all(isinstance(o, Sample) and o.is_valid() for o in outcomes):
            return Result(block, outcomes)
        return _stacked(self._batcher, block, outcomes)  # type: ignore[arg-type]


def read_sample(generator: RandomAccess, index: int) -> Outcome:
    """The sample at an index, or what is left of it."""
    try:
        sample = generator[index]
        if sample.__class__ is not Sample:
            require_sample(sample, f"{type(generator).__name__}[{index}]")
        return sample
    except Exception as error:
        error.add_note(f"while {type(generator).__name__} read sample {index}")
        return FailedSample(error)


def _stacked(batcher: Batcher, block: Block, samples: list[Sample]) -> Result:
    try:
        batch = batcher.batch(samples)
        inputs = _padded_shapes(batch.inputs, [sample.inputs for sample in samples])
        targets = _padded_shapes(batch.targets, [sample.targets for sample in samples])
    except Exception:
        return Result(block, samples)  # it fails again where it is reported; ragged values have no shape
    return Result(block, None, batch, (inputs, targets))


def _padded_shapes(arrays: dict[str, Any], parts: list[Any]) -> dict[str, list[Any]]:
    shapes = {key: [np.shape(part[key]) for part in parts] for key in arrays}
    return {key: shapes[key] for key, array in arrays.items() if any(shape != array.shape[1:] for shape in shapes[key])}
