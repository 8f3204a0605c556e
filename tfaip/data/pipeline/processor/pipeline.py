"""Execution of processors: mapping ones per sample, from a generating one on as a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tfaip.data.pipeline.definitions import FailedSample, Sample, SampleGroup, require_iterable
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

OnFailure: TypeAlias = Callable[[FailedSample], None]


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
        self.pipeline = self.processors
        """The same list, under its name of tfaip 1.2."""
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
        return self.stream((sample for sample in mapped if sample.is_valid()), seed, 0)

    def apply_on_sample(self, sample: Sample) -> Sample:
        """Process one sample outside of a data pipeline; an invalid one is returned as such.

        Raises:
            TypeError: if a processor needs the stream of all samples.
        """
        if not self.is_mapping:
            raise TypeError("a GeneratingDataProcessor needs the stream of samples: use apply(samples)")
        return self.mapper.map(sample, 0, 0, 0)

    def create_processor_fn(self) -> Callable[[Sample], Sample]:
        """Return `apply_on_sample`."""
        return self.apply_on_sample

    def stream(
        self,
        samples: Iterator[Sample],
        seed: int,
        pass_index: int,
        on_invalid: Callable[[], None] | None = None,
        on_failure: OnFailure | None = None,
    ) -> Iterator[Sample]:
        """Run the processors from the first generating one on.

        Args:
            samples: valid samples of a pass, in order, after the mapping processors.
            seed: of the data.
            pass_index: number of the pass.
            on_invalid: called for each sample that a processor declared invalid.
            on_failure: called with the failure of a mapping processor; if it returns, the sample is left
                out. None: the exception is raised.
        """
        for processor, random in self._streaming:
            if isinstance(processor, MappingDataProcessor):
                mapper = SampleMapper([(processor, random)])
                processed = _map_stream(mapper, samples, seed, pass_index, on_failure)
            else:
                random.move(seed, pass_index, 0)
                processed = _generate(processor, samples)  # type: ignore[arg-type]
            samples = _valid(processed, on_invalid)
        return samples


def _map_stream(
    mapper: SampleMapper, samples: Iterator[Sample], seed: int, pass_index: int, on_failure: OnFailure | None
) -> Iterator[Sample]:
    for index, sample in enumerate(samples):
        try:
            processed = mapper.map(sample, seed, pass_index, index)
        except Exception as error:
            if on_failure is None:
                raise
            on_failure(FailedSample(error))
        else:
            yield processed


def _valid(samples: Iterator[Sample], on_invalid: Callable[[], None] | None) -> Iterator[Sample]:
    for sample in samples:
        if sample.is_valid():
            yield sample
        elif on_invalid is not None:
            on_invalid()


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
