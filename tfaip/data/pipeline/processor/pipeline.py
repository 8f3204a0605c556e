"""Runs processors: the leading mapping ones per sample, all from the first generating one on as a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.processor.dataprocessor import (
    DataProcessor,
    GeneratingDataProcessor,
    MappingDataProcessor,
)
from tfaip.data.pipeline.processor.randomness import RandomStream


class ProcessorPipeline:
    """Processors in the order in which they run.

    `map_sample` is a pure function of the sample and (seed, pass, index): it may run anywhere, in any order;
    `stream` needs the samples of a pass one after the other.

    Args:
        processors: with their numbers, which select their random streams.
    """

    def __init__(self, processors: Sequence[tuple[int, DataProcessor[Any]]]) -> None:
        self.processors = [processor for _, processor in processors]
        self._mapping: list[tuple[MappingDataProcessor[Any], RandomStream]] = []
        self._streaming: list[tuple[DataProcessor[Any], RandomStream]] = []
        for number, processor in processors:
            random = processor._random = RandomStream(number)
            if isinstance(processor, MappingDataProcessor) and not self._streaming:
                self._mapping.append((processor, random))
            elif isinstance(processor, (MappingDataProcessor, GeneratingDataProcessor)):
                self._streaming.append((processor, random))
            else:
                raise TypeError(f"{type(processor).__name__} is no MappingDataProcessor and no GeneratingDataProcessor")

    @property
    def is_mapping(self) -> bool:
        """Whether each sample gives at most one sample, independent of all others."""
        return not self._streaming

    def apply(self, samples: Iterable[Sample], seed: int = 0) -> Iterator[Sample]:
        """Run all processors over samples, outside of a data pipeline; invalid samples are dropped."""
        mapped = (self.map_sample(sample, seed, 0, index) for index, sample in enumerate(samples))
        return self.stream((sample for sample in mapped if sample.is_valid()), seed, 0)

    def map_sample(self, sample: Sample, seed: int, pass_index: int, index: int) -> Sample:
        """Run the leading mapping processors on the sample that is number `index` of its pass."""
        for processor, random in self._mapping:
            if not sample.is_valid():
                break
            random.move(seed, pass_index, index)
            sample = _apply(processor, sample, index)
        return sample

    def stream(
        self, samples: Iterator[Sample], seed: int, pass_index: int, dropped: Callable[[], None] | None = None
    ) -> Iterator[Sample]:
        """Run the other processors on the mapped samples of a pass.

        Args:
            samples: valid samples, in the order of the pass.
            seed: of the data.
            pass_index: number of the pass.
            dropped: called for each sample that a processor declared invalid.
        """
        for processor, random in self._streaming:
            if isinstance(processor, MappingDataProcessor):
                made = _map_stream(processor, random, samples, (seed, pass_index))
            else:
                random.move(seed, pass_index, 0)
                made = _generate(processor, samples)  # type: ignore[arg-type]
            samples = _valid(made, dropped)
        return samples


def _map_stream(
    processor: MappingDataProcessor[Any],
    random: RandomStream,
    samples: Iterator[Sample],
    place: tuple[int, int],
) -> Iterator[Sample]:
    for index, sample in enumerate(samples):
        random.move(*place, index)
        yield _apply(processor, sample, index)


def _valid(samples: Iterator[Sample], dropped: Callable[[], None] | None) -> Iterator[Sample]:
    for sample in samples:
        if sample.is_valid():
            yield sample
        elif dropped is not None:
            dropped()


def _apply(processor: MappingDataProcessor[Any], sample: Sample, index: int) -> Sample:
    try:
        processed = processor.apply(sample)
    except Exception as error:
        error.add_note(f"in {type(processor).__name__}.apply, sample {index} of its pass: {sample!r}")
        raise
    return _checked(processed, processor, "apply")


def _generate(processor: GeneratingDataProcessor[Any], samples: Iterator[Sample]) -> Iterator[Sample]:
    try:
        for sample in processor.generate(samples):
            yield _checked(sample, processor, "generate")
    except Exception as error:
        error.add_note(f"while {type(processor).__name__}.generate ran")
        raise


def _checked(sample: Any, processor: DataProcessor[Any], method: str) -> Sample:
    if isinstance(sample, Sample):
        return sample
    raise TypeError(
        f"{type(processor).__name__}.{method} gave {sample!r}, expected a Sample (sample.new_invalid() to drop one)"
    )
