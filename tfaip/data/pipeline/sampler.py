"""Samplers: the raw samples of a pass in their order, a pure function of (seed, pass)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain, cycle, islice
from typing import Any, TypeAlias, TypeVar

import numpy as np

from tfaip.data.pipeline.blocks import Block, Segment, generated_samples, read_sample
from tfaip.data.pipeline.datagenerator import DataGenerator, RandomAccess, size_of
from tfaip.data.pipeline.definitions import FailedSample, PipelineMode, Sample
from tfaip.data.pipeline.params import DataPipelineParams

T = TypeVar("T")
Indices: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

AUTOMATIC_BUFFER_SIZE = 256
# Spare blocks replace samples that were dropped: small ones, since they may not be needed.
SPARE_SIZE = 16


class Sampler:
    """Order of the samples of each pass. Only training shuffles, after the cut to `limit`.

    A generator with `shuffle = False` keeps its own order there too.

    Args:
        generator: source of the samples.
        params: `mode`, `limit` and `shuffle_buffer_size`.
        seed: of the data.
    """

    def __init__(self, generator: DataGenerator[Any], params: DataPipelineParams, seed: int) -> None:
        self.generator = generator
        self.mode = params.mode
        self.seed = seed
        self._params = params
        wanted = generator.shuffle and params.shuffle_buffer_size != 0
        self._shuffle = params.mode is PipelineMode.TRAINING and wanted
        self._buffer_size = params.shuffle_buffer_size if params.shuffle_buffer_size > 0 else AUTOMATIC_BUFFER_SIZE
        self._kept: dict[int, _PassReader] = {}

    def indices(self, pass_index: int) -> Indices:
        """Return the order of a pass over data with random access."""
        size = self._params.limited_size(size_of(self.generator))
        if self._shuffle:
            return self._rng(pass_index).permutation(size)
        return np.arange(size)

    def iterate(self, pass_index: int, skip: int) -> Iterator[tuple[int, Sample]]:
        """Iterate over a pass after its first `skip` samples, each with its index."""
        samples: Iterable[tuple[int, Sample]] = enumerate(self._params.limited(generated_samples(self.generator)))
        if self._shuffle:
            samples = buffer_shuffle(samples, self._buffer_size, self._rng(pass_index))
        return islice(samples, skip, None)

    def samples(self, pass_index: int, numbers: Collection[int] | None = None) -> Iterator[tuple[int, Sample]]:
        """Yield samples of a pass, each with its number in the pass.

        Args:
            pass_index: the pass.
            numbers: of the samples, ascending; None: all.
        """
        if isinstance(self.generator, RandomAccess):
            order = self.indices(pass_index)
            for number in range(len(order)) if numbers is None else numbers:
                outcome = read_sample(self.generator, int(order[number]))
                if isinstance(outcome, FailedSample):
                    raise outcome.error
                yield number, outcome
            return
        wanted = None if numbers is None else set(numbers)
        end = None if wanted is None else max(wanted, default=-1) + 1
        for number, (_, sample) in enumerate(islice(self.iterate(pass_index, 0), end)):
            if wanted is None or number in wanted:
                yield number, sample

    def blocks(
        self, pass_index: int, skip: int, sizes: Iterable[int], repeat: bool, spare: bool = True
    ) -> Iterator[Block]:
        """Yield blocks of raw samples, which may reach into the next passes.

        Args:
            pass_index: first pass.
            skip: samples of this pass to leave out.
            sizes: of the blocks.
            repeat: continue with the next pass, without end or up to an empty one; False: stop
                after this pass.
            spare: append spare blocks of `SPARE_SIZE`, without end, if the sizes are exhausted.
        """
        planned: Iterable[tuple[int, bool]] = ((size, False) for size in sizes)
        if spare:
            planned = chain(planned, cycle([(SPARE_SIZE, True)]))
        reader = self._reader(pass_index, skip)
        for size, is_spare in planned:
            # A block may be larger than several passes together, of small data.
            segments = [reader.take(size)]
            missing = size - len(segments[0].items)
            while missing and repeat and not reader.is_empty:
                reader = self._reader(reader.pass_index + 1, 0)
                segments.append(reader.take(missing))
                missing -= len(segments[-1].items)
            if missing < size or repeat:  # of an endless stream an empty block shows which pass was empty
                yield Block(segments, is_spare)
            if missing:
                return

    def close(self) -> None:
        """Release data that are being iterated; they are read from the beginning next time."""
        self._kept = {}

    def _reader(self, pass_index: int, skip: int) -> _PassReader:
        """Return a reader at this place, of iterated data the one that was left there."""
        if isinstance(self.generator, RandomAccess):
            return _PassReader(self, pass_index, skip)
        reader = self._kept.get(pass_index)
        if reader is None or not reader.rewind(skip):
            reader = _PassReader(self, pass_index, skip)
        # A block that was read for nothing at the end of an epoch may reach into the next pass.
        previous = self._kept.get(pass_index - 1)
        self._kept = {pass_index: reader}
        if previous is not None:
            self._kept[pass_index - 1] = previous
        return reader

    def _rng(self, pass_index: int) -> np.random.Generator:
        # A generator of its own for each pass, so that a training can continue in any pass.
        return np.random.default_rng([self.seed, pass_index])


class _PassReader:
    """Reads a pass piece by piece."""

    def __init__(self, sampler: Sampler, pass_index: int, skip: int) -> None:
        self.pass_index = pass_index
        self._next = skip
        self._last: list[tuple[int, Sample]] = []
        self._indices: Indices | None = None
        self._samples: Iterator[tuple[int, Sample]] = iter(())
        if isinstance(sampler.generator, RandomAccess):
            self._indices = sampler.indices(pass_index)
        else:
            self._samples = sampler.iterate(pass_index, skip)

    @property
    def is_empty(self) -> bool:
        """True if the pass was read to its end and had no sample."""
        return self._next == 0

    def rewind(self, place: int) -> bool:
        """Return to `place`; return False unless it is within the last piece or at its end."""
        back = self._next - place
        if not 0 <= back <= len(self._last):
            return False
        if back:
            self._samples = chain(self._last[-back:], self._samples)
        self._next, self._last = place, []
        return True

    def take(self, count: int) -> Segment:
        """Read the next samples; fewer than `count` at the end of the pass."""
        first = self._next
        if self._indices is not None:
            segment = Segment(self.pass_index, first, self._indices[first : first + count].tolist())
        else:
            self._last = list(islice(self._samples, count))
            segment = Segment(self.pass_index, first, [sample for _, sample in self._last])
        self._next += len(segment.items)
        return segment


def buffer_shuffle(samples: Iterable[T], size: int, rng: np.random.Generator) -> Iterator[T]:
    """Shuffle within a buffer, for data that can only be iterated.

    Args:
        samples: to shuffle; may be endless.
        size: number of samples in the buffer; each output is drawn from them with equal
            probability.
        rng: source of the draws.
    """
    buffer: list[T] = []
    for sample in samples:
        if len(buffer) < size:
            buffer.append(sample)
            continue
        chosen = rng.integers(size)
        yield buffer[chosen]
        buffer[chosen] = sample
    for chosen in rng.permutation(len(buffer)):
        yield buffer[chosen]
