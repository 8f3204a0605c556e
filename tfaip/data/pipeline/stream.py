"""The stream of processed samples: pass after pass, and a position in it from which it goes on exactly."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.blocks import FailedSample, Result
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.failures import DropCounts, Dropped, DropTally, FailurePolicy, Place
from tfaip.data.pipeline.order import RawOrder
from tfaip.data.pipeline.processor.pipeline import ProcessorPipeline
from tfaip.data.pipeline.source import BlockSource
from tfaip.errors import TfaipError
from tfaip.util.text import shorten


@dataclass(frozen=True, slots=True)
class Position:
    """Where the stream stands behind a sample.

    Args:
        pass_index: the pass over the data, from 0.
        consumed: raw samples of this pass that were read.
        emitted: processed samples of this pass that were given out.
        pending: those among them that still wait in a bucket for their batch, by `SampleStream.number`.
        failed: the samples that failed so far, in all passes, as long as their number counts (`on_error skip:N`).
        dropped: numbers of samples that were left out so far, in all passes: invalid, too long, failed. They tell
            nothing about the place.
    """

    pass_index: int = 0
    consumed: int = 0
    emitted: int = 0
    pending: tuple[int, ...] = ()
    failed: tuple[Place, ...] = ()
    dropped: Dropped = field(default=(0, 0, 0), compare=False)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form; without `failed` and `dropped` if nothing was."""
        values = {**asdict(self), "pending": list(self.pending), "dropped": list(self.dropped)}
        values["failed"] = [list(place) for place in self.failed]
        unneeded = [name for name in ("failed", "dropped") if not any(values[name])]
        return {name: value for name, value in values.items() if name not in unneeded}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Position:
        """Read what `to_dict` wrote.

        Raises:
            ValueError: if a key is missing or unknown, or a value is not a number from 0.
        """
        given = {"failed": [], "dropped": [0, 0, 0], **values}
        if given.keys() == _DEPTHS.keys():
            with contextlib.suppress(ValueError):  # raised below
                position = cls(**{name: _whole_numbers(given[name], depth) for name, depth in _DEPTHS.items()})
                if len(position.dropped) == 3:
                    return position
        raise ValueError(
            f"a data position needs {list(_DEPTHS)}, each a whole number from 0 (pending: a list, failed: a list of "
            f"lists, dropped: three), got {shorten(dict(values))}"
        )


_DEPTHS = {"pass_index": 0, "consumed": 0, "emitted": 0, "pending": 1, "failed": 2, "dropped": 1}
"""How deep the lists of numbers in the JSON form of a position are."""


def _whole_numbers(value: Any, depth: int) -> Any:
    """The number, or the lists of them as tuples."""
    if depth and isinstance(value, list):
        return tuple(_whole_numbers(item, depth - 1) for item in value)
    if depth or type(value) is not int or value < 0:
        raise ValueError(f"{shorten(value)} is no whole number from 0")
    return value


@dataclass(frozen=True)
class StreamRules:
    """What a stream does with processed samples.

    Args:
        mode: what the pipeline is for.
        block_size: samples that are processed together where no batch sizes tell it.
        accepts: whether a processed sample may be given out; counts those that may not.
        drops: counts what processors declared invalid.
        failures: told of samples that could not be read or processed.
    """

    mode: PipelineMode
    block_size: int
    accepts: Callable[[Sample], bool]
    drops: DropCounts
    failures: FailurePolicy


@dataclass(slots=True)
class _Walk:
    """A position that moves."""

    pass_index: int
    consumed: int
    emitted: int
    dropped: DropTally


class SampleStream:
    """Raw samples in their order, processed, without the invalid ones.

    Args:
        order: the raw samples.
        source: reads them and runs the mapping processors.
        processors: the others of them are run here.
        rules: what to do with the processed samples.
    """

    def __init__(self, order: RawOrder, source: BlockSource, processors: ProcessorPipeline, rules: StreamRules) -> None:
        self._order = order
        self._source = source
        self._processors = processors
        self._rules = rules
        self._left: tuple[Position, _Walk, Iterator[tuple[Sample, Position]]] | None = None
        """Where an iterator over generated samples was left, and the rest of its pass, which need not be repeated."""

    @property
    def order(self) -> RawOrder:
        """The raw samples."""
        return self._order

    @property
    def seed(self) -> int:
        """Of the data."""
        return self._order.seed

    def samples(self, start: Position, repeat: bool) -> Iterator[tuple[Sample, Position]]:
        """The samples behind `start`, each with the position behind it.

        Args:
            start: where to go on; free with mapping processors and random access, and with generating ones where
                the iterator before was left; else the pass is repeated up to here.
            repeat: pass after pass without end, or only to the end of the pass.

        Raises:
            TfaipError: if a whole pass has no valid sample.
        """
        if not self._processors.is_mapping:
            yield from self._generated_samples(start, repeat)
            return
        walk = self._walk_from(start)
        for result in self._results(walk, itertools.repeat(self._rules.block_size), repeat):
            for sample in self._accepted(result, walk):
                yield sample, self._position(walk)
        self._check_pass(walk, repeat)

    def batches(
        self, start: Position, sizes: Iterable[int], repeat: bool, stack: Callable[[list[Sample]], Batch]
    ) -> Iterator[tuple[Batch, Position]]:
        """Batches of the samples behind `start`, each with the position behind it.

        Args:
            start: as in `samples`.
            sizes: of the batches; without `repeat` the last one may come out shorter.
            repeat: as in `samples`.
            stack: makes a batch of samples.
        """
        if self._processors.is_mapping:
            return self._mapped_batches(start, sizes, repeat, stack)
        return self._generated_batches(start, sizes, repeat, stack)

    def _mapped_batches(
        self, start: Position, sizes: Iterable[int], repeat: bool, stack: Callable[[list[Sample]], Batch]
    ) -> Iterator[tuple[Batch, Position]]:
        planned, wanted = itertools.tee(sizes)
        size = next(wanted, None)
        if size is None:
            return
        walk = self._walk_from(start)
        group: list[Sample] = []
        for result in self._results(walk, planned, repeat, as_batches=True):
            if result.batch is not None and not group and result.batch.size == size:
                self._skip(result, walk)
                yield result.batch, self._position(walk)
                size = next(wanted, None)
            else:
                for sample in self._accepted(result, walk):
                    group.append(sample)
                    if len(group) == size:
                        yield stack(group), self._position(walk)
                        group, size = [], next(wanted, None)
                        if size is None:
                            break
            if size is None:
                return
        self._check_pass(walk, repeat)
        if group:
            yield stack(group), self._position(walk)

    def _generated_batches(
        self, start: Position, sizes: Iterable[int], repeat: bool, stack: Callable[[list[Sample]], Batch]
    ) -> Iterator[tuple[Batch, Position]]:
        samples = self._generated_samples(start, repeat)
        for size in sizes:
            group = list(itertools.islice(samples, size))
            if not group:
                return
            yield stack([sample for sample, _ in group]), group[-1][1]

    def _generated_samples(self, start: Position, repeat: bool) -> Iterator[tuple[Sample, Position]]:
        start = replace(start, pending=())
        self._rules.failures.go_on_from(start.failed)
        left, self._left = self._left, None
        walk, rest = left[1:] if left is not None and left[0] == start else self._pass(start)
        while True:
            position = start
            try:
                for sample, position in rest:
                    yield sample, position
            except GeneratorExit:
                self._left = position, walk, rest
                raise
            self._check_pass(walk, repeat)
            if not repeat:
                return
            failed, dropped = self._rules.failures.failed, walk.dropped.numbers()
            start = Position(start.pass_index + 1, failed=failed, dropped=dropped)
            walk, rest = self._pass(start)

    def _pass(self, start: Position) -> tuple[_Walk, Iterator[tuple[Sample, Position]]]:
        """The rest of a pass with generating processors, which has to run from its beginning, and where it is."""
        walk = _Walk(start.pass_index, 0, 0, DropTally(self._rules.drops, start.dropped))
        return walk, self._rest_of_pass(start, walk)

    def _rest_of_pass(self, start: Position, walk: _Walk) -> Iterator[tuple[Sample, Position]]:
        def mapped() -> Iterator[Sample]:
            for result in self._results(walk, itertools.repeat(self._rules.block_size), repeat=False):
                yield from self._valid(result, walk)

        seed, rules = self._order.seed, self._rules
        handle = rules.failures.handle
        for sample in self._processors.stream(
            mapped(), seed, walk.pass_index, self._count_invalid, lambda e, place: handle(FailedSample(e), place)
        ):
            if rules.accepts(sample):
                walk.emitted += 1
                if walk.emitted > start.emitted:
                    yield sample, self._position(walk)
                elif walk.emitted == start.emitted:
                    walk.dropped.set(start.dropped)  # those of the repeated part were counted before

    def _walk_from(self, start: Position) -> _Walk:
        self._rules.failures.go_on_from(start.failed)
        return _Walk(start.pass_index, start.consumed, start.emitted, DropTally(self._rules.drops, start.dropped))

    def _position(self, walk: _Walk) -> Position:
        failed, dropped = self._rules.failures.failed, walk.dropped.numbers()
        return Position(walk.pass_index, walk.consumed, walk.emitted, failed=failed, dropped=dropped)

    def _results(self, walk: _Walk, sizes: Iterable[int], repeat: bool, as_batches: bool = False) -> Iterator[Result]:
        blocks = self._order.blocks(walk.pass_index, walk.consumed, sizes, repeat)
        return self._source.results(blocks, self._order.seed, as_batches)

    def _accepted(self, result: Result, walk: _Walk) -> Iterator[Sample]:
        accepts = self._rules.accepts
        for sample in self._valid(result, walk):
            if accepts(sample):
                walk.emitted += 1
                yield sample

    def _valid(self, result: Result, walk: _Walk) -> Iterator[Sample]:
        for run, outcomes in result.runs():
            self._enter_pass(walk, run.pass_index)
            for walk.consumed, outcome in enumerate(outcomes, run.first + 1):
                if isinstance(outcome, FailedSample):
                    self._rules.failures.handle(outcome, (run.index(walk.consumed - run.first - 1),))
                elif outcome._invalid:
                    self._count_invalid()
                else:
                    yield outcome

    def _skip(self, result: Result, walk: _Walk) -> None:
        """Walk over a block whose samples are all given out."""
        for run in result.block.runs:
            self._enter_pass(walk, run.pass_index)
            walk.consumed = run.first + len(run.items)
            walk.emitted += len(run.items)

    def _enter_pass(self, walk: _Walk, pass_index: int) -> None:
        if pass_index != walk.pass_index:
            self._check_pass(walk, repeat=True)
            walk.pass_index, walk.consumed, walk.emitted = pass_index, 0, 0

    def _check_pass(self, walk: _Walk, repeat: bool) -> None:
        if walk.emitted == 0 and (repeat or self._rules.mode is not PipelineMode.PREDICTION):
            raise TfaipError(
                f"pass {walk.pass_index} over the {self._rules.mode.value} data has no valid sample; dropped so far: "
                f"{self._rules.drops}; check the lists or files of the generator and the processors, and "
                f"max_element_length"
            )

    def number(self, position: Position) -> int:
        """The number of the sample before `position`, by which `recall` finds it.

        The raw sample that it was made of, or its own number among the processed ones of the pass where a raw
        sample may give several.
        """
        return (position.consumed if self._processors.is_mapping else position.emitted) - 1

    def recall(self, start: Position) -> Iterator[tuple[int, Sample]]:
        """The samples that are pending at `start`, made again, each with its number."""
        wanted = set(start.pending)
        if not wanted:
            return
        if self._processors.is_mapping:
            for number, raw in self._order.picked(start.pass_index, start.pending):
                yield number, self._processors.mapper.map(raw, self._order.seed, start.pass_index, number)
            return
        self._rules.failures.go_on_from(start.failed)
        self._left = None  # the processors, which may have a state, begin the pass again
        for sample, position in self._pass(Position(start.pass_index))[1]:
            if self.number(position) in wanted:
                yield self.number(position), sample
            if position.emitted >= start.emitted:
                return

    def _count_invalid(self) -> None:
        self._rules.drops.invalid += 1
