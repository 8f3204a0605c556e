"""The raw samples of a pass in their order: a pure function of (seed, pass)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain, cycle, islice
from typing import Any, TypeAlias, TypeVar

import numpy as np

from tfaip.data.databaseparams import DataPipelineParams
from tfaip.data.pipeline.blocks import Block, Run
from tfaip.data.pipeline.datagenerator import DataGenerator, RandomAccess
from tfaip.data.pipeline.definitions import PipelineMode, Sample, require_iterable, require_sample

T = TypeVar("T")
Indices: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

AUTOMATIC_BUFFER_SIZE = 256
SPARE_SIZE = 16


class RawOrder:
    """Reads a generator pass by pass. Only training shuffles; the data is cut to `limit` before that.

    Args:
        generator: where samples come from.
        params: `limit` and `shuffle_buffer_size`.
        mode: what the pipeline is for.
        seed: of the data.
    """

    def __init__(
        self, generator: DataGenerator[Any], params: DataPipelineParams, mode: PipelineMode, seed: int
    ) -> None:
        self.generator = generator
        self.seed = seed
        self._limit = params.limit if params.limit >= 0 else None
        self._shuffle = mode is PipelineMode.TRAINING and params.shuffle_buffer_size != 0
        self._buffer_size = params.shuffle_buffer_size if params.shuffle_buffer_size > 0 else AUTOMATIC_BUFFER_SIZE
        self._kept: dict[int, _Cursor] = {}

    def indices(self, pass_index: int) -> Indices:
        """The order of a pass over data with random access."""
        size = len(self.generator) if self._limit is None else min(self._limit, len(self.generator))
        return _rng(self.seed, pass_index).permutation(size) if self._shuffle else np.arange(size)

    def samples(self, pass_index: int, skip: int = 0) -> Iterator[tuple[int, Sample]]:
        """The samples of a pass behind the first `skip`, each with its number in the pass."""
        if isinstance(self.generator, RandomAccess):
            order = self.indices(pass_index)
            return self._read(self.generator, order, range(skip, len(order)))
        return enumerate((sample for _, sample in self.iterated(pass_index, skip)), skip)

    def iterated(self, pass_index: int, skip: int) -> Iterator[tuple[int, Sample]]:
        """The same of data that are only iterated, each with its index in the generator."""
        samples: Iterable[tuple[int, Sample]] = enumerate(islice(self._generated(), self._limit))
        if self._shuffle:
            samples = buffer_shuffle(samples, self._buffer_size, _rng(self.seed, pass_index))
        return islice(samples, skip, None)

    def blocks(
        self, pass_index: int, skip: int, sizes: Iterable[int], repeat: bool, spare: bool = True
    ) -> Iterator[Block]:
        """The raw samples behind the first `skip` of a pass, in blocks, which may reach into the next passes.

        Args:
            pass_index: where to begin.
            skip: samples of this pass to leave out.
            sizes: of the blocks.
            repeat: pass after pass without end (or up to one that is empty), or only to the end of the pass.
            spare: whether spare blocks of `SPARE_SIZE` follow, without end, if the sizes come to one.
        """
        cursor = self._cursor(pass_index, skip)
        planned = ((size, False) for size in sizes)
        for size, is_spare in chain(planned, cycle([(SPARE_SIZE, True)]) if spare else ()):
            runs = [cursor.take(size)]
            missing = size - len(runs[0].items)
            while missing and repeat and not cursor.is_empty:
                cursor = self._cursor(cursor.pass_index + 1, 0)
                runs.append(cursor.take(missing))
                missing -= len(runs[-1].items)
            if missing < size or repeat:  # an endless stream shows which pass was empty
                yield Block(runs, is_spare)
            if missing:
                return

    def close(self) -> None:
        """Let go of data that are open; when they are needed again, they are read anew."""
        self._kept = {}

    def _cursor(self, pass_index: int, skip: int) -> _Cursor:
        """Reads on where data without random access were left, as far as that is the place; else from the beginning."""
        kept = self._kept.get(pass_index)
        cursor = kept if kept is not None and kept.go_back(skip) else _Cursor(self, pass_index, skip)
        if not isinstance(self.generator, RandomAccess):
            # A block that was read for nothing at the end of an epoch may reach into the next pass.
            previous = {p: c for p, c in self._kept.items() if p == pass_index - 1}
            self._kept = {**previous, pass_index: cursor}
        return cursor

    def picked(self, pass_index: int, numbers: Collection[int]) -> Iterator[tuple[int, Sample]]:
        """Single samples of a pass.

        Args:
            pass_index: the pass.
            numbers: of the samples in the pass, rising.
        """
        if isinstance(self.generator, RandomAccess):
            return self._read(self.generator, self.indices(pass_index), numbers)
        wanted = set(numbers)
        samples = islice(self.samples(pass_index), max(wanted, default=-1) + 1)
        return ((number, sample) for number, sample in samples if number in wanted)

    def _generated(self) -> Iterator[Sample]:
        count, name = 0, f"{type(self.generator).__name__}.generate"
        try:
            for sample in require_iterable(self.generator.generate(), name):
                yield require_sample(sample, name)
                count += 1
        except Exception as error:
            error.add_note(f"while {name} ran, behind {count} samples")
            raise

    def _read(self, generator: RandomAccess, order: Indices, numbers: Iterable[int]) -> Iterator[tuple[int, Sample]]:
        for number in numbers:
            index = int(order[number])
            try:
                sample = require_sample(generator[index], f"{type(generator).__name__}[{index}]")
            except Exception as error:
                error.add_note(f"while {type(generator).__name__} read sample {index}")
                raise
            yield number, sample


class _Cursor:
    """Reads a pass piece by piece."""

    def __init__(self, order: RawOrder, pass_index: int, skip: int) -> None:
        self.pass_index = pass_index
        self._next = skip
        self._last: list[tuple[int, Sample]] = []
        self._indices: Indices | None = None
        self._samples: Iterator[tuple[int, Sample]] = iter(())
        if isinstance(order.generator, RandomAccess):
            self._indices = order.indices(pass_index)
        else:
            self._samples = order.iterated(pass_index, skip)

    @property
    def is_empty(self) -> bool:
        """Whether the pass, read to its end, gave nothing at all."""
        return self._next == 0

    def go_back(self, place: int) -> bool:
        """Stand at `place` again, which must not be before the last piece; False: it cannot."""
        back = self._next - place
        if not 0 <= back <= len(self._last):
            return False
        if back:
            self._samples = chain(self._last[-back:], self._samples)
        self._next, self._last = place, []
        return True

    def take(self, count: int) -> Run:
        """The next samples; fewer than `count` at the end of the pass."""
        if self._indices is not None:
            run = Run(self.pass_index, self._next, self._indices[self._next : self._next + count].tolist())
        else:
            self._last = list(islice(self._samples, count))
            items, indices = [sample for _, sample in self._last], [index for index, _ in self._last]
            run = Run(self.pass_index, self._next, items, indices)
        self._next += len(run.items)
        return run


def buffer_shuffle(samples: Iterable[T], size: int, rng: np.random.Generator) -> Iterator[T]:
    """Shuffle within a window, for data that can only be iterated.

    Args:
        samples: what to shuffle; it may be endless.
        size: number of samples held at a time; each output is drawn from them with equal chances.
        rng: decides the draws.
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


def _rng(seed: int, pass_index: int) -> np.random.Generator:
    return np.random.default_rng([seed, pass_index])
