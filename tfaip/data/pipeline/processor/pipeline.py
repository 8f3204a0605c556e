"""Execution of processors: mapping ones per sample, from a generating one on as a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tfaip.data.pipeline.definitions import FailedSample, Outcome, Sample, SampleGroup, require_iterable
from tfaip.data.pipeline.failures import raise_noted
from tfaip.data.pipeline.processor.dataprocessor import (
    DataProcessor,
    GeneratingDataProcessor,
    MappingDataProcessor,
    RandomStream,
)
from tfaip.util.oldnames import old_names

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)


class SampleMapper:
    """Mapping processors on single samples: a pure function of the sample and (seed, pass, index).

    It may run in any process, in any order.

    Args:
        steps: the processors with their random streams.
    """

    def __init__(self, steps: Sequence[tuple[MappingDataProcessor[Any], RandomStream]]) -> None:
        self.steps = steps
        self._calls = [(processor, processor._mapping(), random.move) for processor, random in steps]

    def __len__(self) -> int:
        return len(self.steps)

    def map(self, sample: Sample, seed: int, pass_index: int, index: int) -> Sample:
        """Process the sample with number `index` of its pass, until it is invalid; of a group each sample."""
        if sample.__class__ is SampleGroup:
            return self._map_group(sample, (seed, pass_index, index))
        for processor, apply, move in self._calls:
            if sample._invalid:
                break
            move(seed, pass_index, index)
            try:
                processed = apply(sample)
                if processed.__class__ is not Sample:
                    _checked(processed, processor, "apply")
            except BaseException as error:
                note = f"in {type(processor).__name__}.apply, sample {index} of its pass: {sample!r}"
                raise_noted(error, note)
            sample = processed
        return sample

    def outcomes(self, samples: Iterable[Outcome], seed: int, pass_index: int, first: int) -> Iterator[Outcome]:
        """Process samples, from number `first` of a pass on; one that cannot be processed fails alone."""
        if not self:
            yield from samples
            return
        process = self.map
        for index, sample in enumerate(samples, first):
            if sample.__class__ is not FailedSample:
                try:
                    sample = process(sample, seed, pass_index, index)  # type: ignore[arg-type]
                except Exception as error:
                    sample = FailedSample(error)
            yield sample

    def _map_group(self, group: SampleGroup, place: tuple[int, int, int]) -> SampleGroup:
        """Process all samples of a group; they share the random numbers of its place, one after the other."""
        samples = group.samples
        for processor, apply, move in self._calls:
            move(*place)
            processed = []
            for number, sample in enumerate(samples):
                try:
                    done = sample if sample._invalid else _checked(apply(sample), processor, "apply")
                except BaseException as error:
                    where = f"sample {number} of batch {place[2]} of its pass"
                    raise_noted(error, f"in {type(processor).__name__}.apply, {where}: {sample!r}")
                processed.append(done)
            samples = processed
        return SampleGroup(samples)


class ProcessorPipeline:
    """Processors in the order in which they run.

    Args:
        processors: with their numbers, which select their random streams.
        num_parallel: how many of the first ones may run in worker processes; only the mapping ones
            before the first generating one do.
    """

    def __init__(self, processors: Sequence[tuple[int, DataProcessor[Any]]], num_parallel: int = 0) -> None:
        self.processors = [processor for _, processor in processors]
        mapping: list[tuple[MappingDataProcessor[Any], RandomStream]] = []
        self._streaming: list[tuple[DataProcessor[Any], RandomStream]] = []
        for number, processor in processors:
            random = processor._random = RandomStream(number)
            if isinstance(processor, MappingDataProcessor) and not self._streaming:
                mapping.append((processor, random))
            elif isinstance(processor, (MappingDataProcessor, GeneratingDataProcessor)):
                self._streaming.append((processor, random))
            else:
                raise TypeError(f"{type(processor).__name__} is no MappingDataProcessor and no GeneratingDataProcessor")
        self.mapper = SampleMapper(mapping)
        """All mapping processors before the first generating one."""
        self.parallel = SampleMapper(mapping[:num_parallel])
        """Those of them that may run in workers."""
        self.after_parallel = SampleMapper(mapping[num_parallel:])
        """The others of them."""

    @property
    def is_mapping(self) -> bool:
        """True if each sample gives at most one sample, independent of all others."""
        return not self._streaming

    def apply(self, samples: Iterable[Sample], seed: int = 0) -> Iterator[Sample]:
        """Run all processors outside of a data pipeline; invalid samples are dropped."""
        mapped = (self.mapper.map(sample, seed, 0, index) for index, sample in enumerate(samples))
        return self.stream(filter(is_valid, mapped), seed, 0, is_valid)

    def apply_on_sample(self, sample: Sample) -> Sample:
        """Process one sample outside of a data pipeline; an invalid one is returned as such.

        Raises:
            TypeError: if a processor needs the stream of all samples.
        """
        if not self.is_mapping:
            raise TypeError("a GeneratingDataProcessor needs the stream of samples: use apply(samples)")
        return self.mapper.map(sample, 0, 0, 0)

    def __call__(self, sample: Sample) -> Sample:
        """Process one sample, see `apply_on_sample`."""
        return self.apply_on_sample(sample)

    def __iter__(self) -> Iterator[DataProcessor[Any]]:
        return iter(self.processors)

    @property
    def pipeline(self) -> list[ProcessorPipeline]:
        """What tfaip 1.2 split the processors into, each with `create_processor_fn`: one for all of them."""
        return [self]

    def create_processor_fn(self) -> ProcessorPipeline:
        """Return the pipeline itself, a function of a sample."""
        return self

    def stream(
        self, samples: Iterator[Sample], seed: int, pass_index: int, keeps: Callable[[Outcome], bool]
    ) -> Iterator[Sample]:
        """Run the processors from the first generating one on.

        Args:
            samples: valid samples of a pass, in order, after the mapping processors.
            seed: of the data.
            pass_index: number of the pass.
            keeps: returns True for a valid sample, and raises the error of a failed one or leaves it out.
        """
        processed: Iterable[Any]
        for processor, random in self._streaming:
            if isinstance(processor, MappingDataProcessor):
                processed = SampleMapper([(processor, random)]).outcomes(samples, seed, pass_index, 0)
            else:
                random.move(seed, pass_index, 0)
                processed = _generate(processor, samples)  # type: ignore[arg-type]
            samples = filter(keeps, processed)  # type: ignore[arg-type]
        return samples


def is_valid(outcome: Outcome) -> bool:
    """Return True for a valid sample; raise the error of a failed one."""
    if isinstance(outcome, FailedSample):
        raise outcome.error
    return outcome.is_valid()


def _generate(processor: GeneratingDataProcessor[Any], samples: Iterator[Sample]) -> Iterator[Sample]:
    try:
        for sample in require_iterable(processor.generate(samples), f"{type(processor).__name__}.generate"):
            yield _checked(sample, processor, "generate")
    except BaseException as error:
        raise_noted(error, f"while {type(processor).__name__}.generate ran")


def _checked(sample: Any, processor: DataProcessor[Any], method: str) -> Sample:
    if isinstance(sample, Sample):
        return sample
    raise TypeError(
        f"{type(processor).__name__}.{method} gave {sample!r}, expected a Sample (sample.new_invalid() to drop one)"
    )
