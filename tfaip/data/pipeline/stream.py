"""The stream of processed samples: pass after pass, and a position in it from which it goes on exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.order import RawOrder
from tfaip.data.pipeline.processor.pipeline import ProcessorPipeline
from tfaip.errors import TfaipError


@dataclass(frozen=True, slots=True)
class Position:
    """Where the stream stands behind a sample.

    Args:
        pass_index: the pass over the data, from 0.
        consumed: raw samples of this pass that were read.
        emitted: processed samples of this pass that were given out.
        pending: those among them that still wait in a bucket for their batch, by `SampleStream.number`.
    """

    pass_index: int = 0
    consumed: int = 0
    emitted: int = 0
    pending: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form."""
        return {**asdict(self), "pending": list(self.pending)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Position:
        """Read what `to_dict` wrote.

        Raises:
            ValueError: if a key is missing or unknown, or a value is not a number from 0.
        """
        names = [field.name for field in fields(cls)]
        pending = values.get("pending")
        if sorted(values) == sorted(names) and isinstance(pending, list):
            numbers = [*(values[name] for name in names if name != "pending"), *pending]
            if all(type(number) is int and number >= 0 for number in numbers):
                return cls(**{**values, "pending": tuple(pending)})
        raise ValueError(
            f"a data position needs {names}, each a whole number from 0 (pending: a list), got {dict(values)}"
        )


@dataclass(slots=True)
class DropCounts:
    """Samples that did not make it into the stream.

    Args:
        invalid: declared invalid, or without the inputs or targets that the mode needs.
        too_long: longer than `max_element_length`.
    """

    invalid: int = 0
    too_long: int = 0


class SampleStream:
    """Raw samples in their order, processed, without the invalid ones.

    Args:
        order: the raw samples.
        processors: run on them.
        mode: what the pipeline is for.
        accepts: whether a processed sample may be given out; counts those that may not.
        drops: counts what processors declared invalid.
    """

    def __init__(
        self,
        order: RawOrder,
        processors: ProcessorPipeline,
        mode: PipelineMode,
        accepts: Callable[[Sample], bool],
        drops: DropCounts,
    ) -> None:
        self._order = order
        self._processors = processors
        self._mode = mode
        self._accepts = accepts
        self._drops = drops

    def samples(self, start: Position, repeat: bool) -> Iterator[tuple[Sample, Position]]:
        """The samples behind `start`, each with the position behind it.

        Args:
            start: where to go on; free with mapping processors and random access, else the pass is
                repeated up to here.
            repeat: pass after pass without end, or only to the end of the pass.

        Raises:
            TfaipError: if a whole pass has no valid sample.
        """
        while True:
            emitted = start.emitted
            for sample, position in self._pass(start):
                emitted = position.emitted
                yield sample, position
            if emitted == 0 and (repeat or self._mode is not PipelineMode.PREDICTION):
                raise TfaipError(
                    f"pass {start.pass_index} over the {self._mode.value} data has no valid sample: so far "
                    f"{self._drops.invalid} were invalid and {self._drops.too_long} longer than "
                    f"max_element_length; check the lists or files of the generator and the processors"
                )
            if not repeat:
                return
            start = Position(start.pass_index + 1)

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
        for sample, position in self._pass(Position(start.pass_index)):
            if self.number(position) in wanted:
                yield self.number(position), sample
            if position.emitted >= start.emitted:
                return

    def _pass(self, start: Position) -> Iterator[tuple[Sample, Position]]:
        """The rest of a pass; one with generating processors has to run from its beginning."""
        begin = start if self._processors.is_mapping else replace(start, consumed=0, emitted=0)
        consumed, emitted = begin.consumed, begin.emitted

        def mapped() -> Iterator[Sample]:
            nonlocal consumed
            for number, raw in self._order.samples(begin.pass_index, begin.consumed):
                consumed = number + 1
                sample = self._processors.mapper.map(raw, self._order.seed, begin.pass_index, number)
                if sample.is_valid():
                    yield sample
                else:
                    self._count_invalid()

        stream = self._processors.stream(mapped(), self._order.seed, begin.pass_index, self._count_invalid)
        for sample in stream:
            if self._accepts(sample):
                emitted += 1
                if emitted > start.emitted:
                    yield sample, Position(begin.pass_index, consumed, emitted)

    def _count_invalid(self) -> None:
        self._drops.invalid += 1
