"""Samplers: the raw samples of a pass in their order, a pure function of (seed, pass); positions, blocks, drops."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice, repeat as repeated
from operator import add, sub
from typing import Any, TypeAlias, TypeVar

import numpy as np

from tfaip.data.pipeline.batching import UNSHARDED, Batch, Batcher, Shard, is_whole, shard_bounds
from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.definitions import (
    FailedSample,
    Outcome,
    PipelineMode,
    Sample,
    SampleGroup,
    noted,
    require_sample,
)
from tfaip.data.pipeline.params import DataPipelineParams
from tfaip.util.logging import logger
from tfaip.util.text import shorten

T = TypeVar("T")
Indices: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

AUTOMATIC_BUFFER_SIZE = 256
_ZEROS = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Position:
    """Place in the stream of samples, as checkpoints store it.

    Args:
        pass_index: the pass over the data, from 0.
        consumed: raw samples of this pass that were read.
        emitted: processed samples of this pass that were given out.
        pending: those among them that still wait in a bucket for their batch, by their numbers in the pass.
        failed: number of samples of this pass that failed (`on_error skip:N`).
        dropped: numbers of samples that were left out so far, in all passes: invalid, too long,
            failed. They say nothing about the place and are not compared.
    """

    pass_index: int = 0
    consumed: int = 0
    emitted: int = 0
    pending: tuple[int, ...] = ()
    failed: int = 0
    dropped: tuple[int, int, int] = field(default=_ZEROS, compare=False)

    def next_pass(self) -> Position:
        """Return the beginning of the pass after this one."""
        return Position(self.pass_index + 1, dropped=self.dropped)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form."""
        return {**asdict(self), "pending": list(self.pending), "dropped": list(self.dropped)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Position:
        """Read the output of `to_dict`.

        Raises:
            ValueError: if they are none.
        """
        try:
            numbers = {name: int(values[name]) for name in ("pass_index", "consumed", "emitted", "failed")}
            pending, (invalid, too_long, failed) = (tuple(map(int, values[name])) for name in ("pending", "dropped"))
            return cls(**numbers, pending=pending, dropped=(invalid, too_long, failed))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"damaged position of the data: {shorten(dict(values))}") from error


class Cursor:
    """A position that moves; what failed after its start will come again.

    A pipeline counts what it drops from 0 in every process, and again in passes that are repeated
    to get to a position. A cursor takes from it only what was counted since `resume`.
    """

    def __init__(self, start: Position, counted: SampleFilter) -> None:
        self._filter = counted
        self.pass_index, self.consumed = start.pass_index, start.consumed
        self.emitted, self.pending = start.emitted, start.pending
        self.resume(start)

    def resume(self, position: Position) -> None:
        """Set the numbers of samples that failed and were dropped before the current position."""
        self._filter.failed = position.failed
        self._before = tuple(map(sub, position.dropped, self._filter.drops.numbers()))

    def enter_pass(self, pass_index: int) -> None:
        """Move to the beginning of a pass, unless it is there already."""
        if pass_index != self.pass_index:
            self.pass_index, self.consumed, self.emitted, self.pending = pass_index, 0, 0, ()
            self._filter.failed = 0

    def move(self, place: tuple[int, int]) -> None:
        """Move to a place, (pass, number of samples of it), after samples of which none was dropped."""
        self.enter_pass(place[0])
        self.emitted += place[1] - self.consumed
        self.consumed = place[1]

    def position(self) -> Position:
        """Return the current position."""
        invalid, too_long, failed = map(add, self._before, self._filter.drops.numbers())
        dropped = invalid, too_long, failed
        return Position(self.pass_index, self.consumed, self.emitted, self.pending, self._filter.failed, dropped)


@dataclass(slots=True, eq=False)
class Block:
    """Consecutive raw samples, which are processed together, and what they become: the unit of work.

    Args:
        pass_index: the pass of the first sample.
        first: number of the first sample in its pass.
        items: the samples as a list, or with random access their indices in the generator as an array.
        pass_size: number of samples of a pass; those after its end are of the next one.
        end: (pass, number of samples of it) up to the end of the block; with shards, of all of them.
        is_whole: several devices get all of it each.
        stacked: make a batch of the samples if all of them are valid.
        outcomes: the processed samples; None: it was not processed, or they are stacked in `batch`.
        batch: all processed samples.
        nbytes: size of what the worker sent back.
    """

    pass_index: int
    first: int
    items: Any
    pass_size: int = sys.maxsize
    end: tuple[int, int] = (0, 0)
    is_whole: bool = False
    stacked: bool = False
    outcomes: Sequence[Outcome] | None = None
    batch: Batch | None = None
    nbytes: int = 0

    def place(self, index: int) -> tuple[int, int]:
        """Return the pass of a sample of the block, and its number in it."""
        passes, number = divmod(self.first + index, self.pass_size)
        return self.pass_index + passes, number

    def places(self) -> Iterator[tuple[int, int]]:
        """Iterate over the places of all samples."""
        end = self.first + len(self.items)
        if end <= self.pass_size:  # the frequent case, five times as fast
            return zip(repeated(self.pass_index), range(self.first, end), strict=False)
        return map(self.place, range(len(self.items)))

    def part(self, shard: Shard) -> Block:
        """Return the samples of a shard."""
        size = len(self.items)
        begin, end = shard_bounds(size, shard)
        return Block(*self.place(begin), self.items[begin:end], self.pass_size, self.end, is_whole(size, shard))


class Sampler:
    """Order of the samples of each pass. Only training shuffles, after the cut to `limit`.

    A generator with `shuffle = False` keeps its own order there too.

    Args:
        generator: source of the samples.
        params: `mode`, `limit` and `shuffle_buffer_size`.
    """

    def __init__(self, generator: DataGenerator[Any], params: DataPipelineParams, seed: int) -> None:
        self.generator = generator
        self.seed = seed
        self._params = params
        wanted = generator.shuffle and params.shuffle_buffer_size != 0
        self._shuffle = params.mode is PipelineMode.TRAINING and wanted
        self._buffer_size = params.shuffle_buffer_size if params.shuffle_buffer_size > 0 else AUTOMATIC_BUFFER_SIZE

    def indices(self, pass_index: int) -> Indices:
        """Return the order of a pass over data with random access."""
        size = self._params.limited_size(len(self.generator))
        return self._rng(pass_index).permutation(size) if self._shuffle else np.arange(size)

    def iterate(self, pass_index: int, skip: int) -> Iterator[Sample]:
        """Iterate over a pass after its first `skip` samples."""
        samples: Iterable[Sample] = self._params.limited(generated_samples(self.generator))
        if self._shuffle:
            samples = buffer_shuffle(samples, self._buffer_size, self._rng(pass_index))
        return islice(samples, skip, None)

    def samples(self, pass_index: int) -> Iterator[Sample]:
        """Yield the samples of a pass."""
        if not self.generator.has_random_access():
            yield from self.iterate(pass_index, 0)
            return
        for index in self.indices(pass_index).tolist():
            yield self.read(index)

    def read(self, index: int) -> Sample:
        """Return the sample at an index of a generator with random access."""
        outcome = read_sample(self.generator, index)
        if isinstance(outcome, FailedSample):
            raise outcome.error
        return outcome

    def blocks(
        self, pass_index: int, place: int, sizes: Iterable[int], repeat: bool, shard: Shard = UNSHARDED
    ) -> Iterator[Block]:
        """Yield blocks of raw samples; with random access they may reach into the next passes.

        Args:
            pass_index: first pass.
            place: samples of this pass to leave out.
            sizes: of the blocks.
            repeat: continue with the next pass, with random access; False: stop after this pass.
            shard: only its part of each block.
        """
        if not self.generator.has_random_access():
            samples = self.iterate(pass_index, place)
            for size in sizes:
                items = list(islice(samples, size))
                if not items:
                    return
                place += len(items)
                yield Block(pass_index, place - len(items), items, end=(pass_index, place))
            return
        order = self.indices(pass_index)
        place = min(place, len(order))  # the data may have become smaller
        for size in sizes:
            block = Block(pass_index, place, order[place : place + size], len(order))
            place += len(block.items)
            # A block may be larger than several passes together, of small data.
            while len(block.items) < size and repeat and len(order):
                pass_index, order = pass_index + 1, self.indices(pass_index + 1)
                place = min(size - len(block.items), len(order))
                block.items = np.concatenate([block.items, order[:place]])
            if not len(block.items):
                return
            block.end = pass_index, place
            yield block if shard == UNSHARDED else block.part(shard)

    def _rng(self, pass_index: int) -> np.random.Generator:
        # A generator of its own for each pass, so that a training can continue in any pass.
        return np.random.default_rng([self.seed, pass_index])


def read_sample(generator: Any, index: int) -> Outcome:
    """Return the sample at an index of a generator with random access, or why it could not be read."""
    try:
        sample = generator[index]
        if sample.__class__ is not Sample:
            return require_sample(sample, f"{type(generator).__name__}[{index}]", generator.yields_batches())
        return sample
    except Exception as error:
        return FailedSample(noted(error, f"while {type(generator).__name__} read sample {index}"))


def generated_samples(generator: DataGenerator[Any]) -> Iterator[Sample]:
    """Iterate over the samples of a pass; a note of an error says how many there were before it."""
    count, name = 0, f"{type(generator).__name__}.generate"
    may_be_list = generator.yields_batches()
    try:
        for sample in generator.generate():
            yield require_sample(sample, name, may_be_list)
            count += 1
    except Exception as error:
        error.add_note(f"while {name} ran, after {count} samples")
        raise


def buffer_shuffle(samples: Iterable[T], size: int, rng: np.random.Generator) -> Iterator[T]:
    """Shuffle within a buffer, for data that can only be iterated.

    Args:
        samples: to shuffle; may be endless.
        size: number of samples in the buffer; each output is drawn from them with equal probability.
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


log = logger(__name__)


@dataclass(slots=True)
class DropCounts:
    """Numbers of samples that were left out.

    Args:
        invalid: declared invalid, or without the inputs or targets that the mode needs.
        too_long: longer than `max_element_length`.
        failed: could not be read or processed, see `on_error`.
    """

    invalid: int = 0
    too_long: int = 0
    failed: int = 0

    def numbers(self) -> tuple[int, int, int]:
        """Return the three numbers."""
        return self.invalid, self.too_long, self.failed

    @property
    def total(self) -> int:
        """Sum of the three numbers."""
        return sum(self.numbers())

    def __str__(self) -> str:
        return f"{self.invalid} invalid, {self.too_long} too long, {self.failed} failed"


class WorkerTraceback(Exception):  # noqa: N818 (the cause of an error, printed above it)
    """Traceback of an error that happened in a worker process."""

    def __init__(self, trace: str) -> None:
        super().__init__(f"\n{trace}")


class SampleFilter:
    """Selects the samples that can be used, and counts the others; some may fail within one pass over the data.

    Args:
        params: say how many may fail, and how long a sample may be.
        drops: counts every time that a sample is left out.
        batcher: knows what it needs of a sample; None: valid samples are not looked at.
        length: returns the length of a processed sample.
    """

    def __init__(
        self,
        params: DataPipelineParams,
        drops: DropCounts,
        batcher: Batcher | None = None,
        length: Callable[[Sample], int] | None = None,
    ) -> None:
        self.drops = drops
        self.failed = 0
        """Samples of the running pass that failed."""
        self._allowed = params.allowed_failures()
        self._logged = 0
        self._needs_inputs = batcher is not None and batcher.needs_inputs
        self._needs_targets = batcher is not None and batcher.needs_targets
        self._failure = None if self._allowed == 0 or batcher is None else batcher.failure
        self._longest = params.max_element_length
        self._length = length

    def keeps(self, outcome: Outcome) -> bool:
        """Return True if a sample is valid; otherwise count it, or raise its error if no more may fail."""
        if isinstance(outcome, FailedSample):
            self.handle(outcome)
        elif outcome._invalid:
            self.drops.invalid += 1
        else:
            return True
        return False

    def accepts(self, outcome: Outcome) -> bool:
        """Return True if a sample is valid and can be batched; otherwise count it. A group keeps those that can."""
        if not self.keeps(outcome):
            return False
        sample: Sample = outcome  # type: ignore[assignment]
        if isinstance(sample, SampleGroup):
            sample.samples = list(filter(self.accepts, sample.samples))
            return bool(sample.samples)
        lacks_inputs = sample.inputs is None and self._needs_inputs
        if lacks_inputs or (sample.targets is None and self._needs_targets):
            self.drops.invalid += 1
            return False
        if self._failure is not None and (failed := self._failure(sample)) is not None:
            self.handle(failed)
            return False
        if self._longest is not None and self._length is not None and self._length(sample) > self._longest:
            self.drops.too_long += 1
            return False
        return True

    def handle(self, failed: FailedSample) -> None:
        """Count a sample, or raise its error if no more may fail."""
        error = failed.error
        if self._allowed is None or self.failed < self._allowed:
            self.failed += 1
            self.drops.failed += 1
            # Most samples that fail do so in every pass.
            if self._logged < self.failed:
                self._logged = self.failed
                text = "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
                log.warning("left out a sample, number %d of its pass: %s", self.failed, text)
            return
        if self._allowed:
            error.add_note(f"on_error gives up after {self._allowed} samples that failed before in this pass")
        if failed.trace is None:
            raise error
        log.debug("traceback of the worker:\n%s", failed.trace)
        raise error from WorkerTraceback(failed.trace)
