"""Data in memory: what is the same in every pass over the data is read and processed once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from tfaip.data.pipeline.blocks import FailedSample, Outcome, read_sample
from tfaip.data.pipeline.datagenerator import BatchAccess, DataGenerator, RandomAccess, RawDataGeneratorParams
from tfaip.data.pipeline.definitions import PipelineMode, Sample, require_iterable, require_sample
from tfaip.data.pipeline.failures import DropCounts, FailurePolicy
from tfaip.data.pipeline.processor.dataprocessor import DataProcessor, MappingDataProcessor
from tfaip.errors import UsageError
from tfaip.params import pai_dataclass, pai_meta
from tfaip.util.progress import track

if TYPE_CHECKING:
    from tfaip.data.pipeline.datapipeline import DataPipeline


@pai_dataclass
@dataclass
class PreloadedGeneratorParams(RawDataGeneratorParams):
    """Samples in memory that take the place of a generator."""

    has_random_access: bool = field(default=True, metadata=pai_meta(mode="ignore", help="Whether the generator has."))
    yields_batches: bool = field(default=False, metadata=pai_meta(mode="ignore", help="Whether the generator does."))

    @staticmethod
    def cls() -> type[DataGenerator[Any]]:
        return PreloadedGenerator

    def create(self, mode: PipelineMode) -> DataGenerator[Any]:
        """A generator that can do what the original one could, so that the order of the data stays the same."""
        return PreloadedGenerator(mode, self) if self.has_random_access else PreloadedIterable(mode, self)


class PreloadedIterable(DataGenerator[PreloadedGeneratorParams]):
    """Preloaded samples one after the other."""

    def __init__(self, mode: PipelineMode, params: PreloadedGeneratorParams) -> None:
        super().__init__(mode, params)
        self._samples: Sequence[Sample] = params.samples  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._samples)

    def generate(self) -> Iterable[Sample]:
        return (_fresh(sample) for sample in self._samples)

    def yields_batches(self) -> bool:
        return self.params.yields_batches

    def in_memory(self) -> bool:
        return True


class PreloadedGenerator(PreloadedIterable):
    """Preloaded samples with random access."""

    def __getitem__(self, index: int) -> Sample:
        return _fresh(self._samples[index])


def preload(pipeline: DataPipeline, show_progress: bool) -> tuple[PreloadedGeneratorParams | None, int]:
    """Run the first processors of a pipeline on all samples of its generator.

    These are the mapping processors up to the first one that does not support it or draws random numbers. A sample
    that they declare invalid stays, so that the others keep their numbers; one that fails, and may (`on_error`), counts
    as invalid from then on.

    Args:
        pipeline: mode, limit, generator and processors.
        show_progress: show a bar.

    Returns:
        the params of a generator of the processed samples (None: they already lie in memory), and the number of
        processors that ran.

    Raises:
        UsageError: the number of samples is not known, and there is no limit.
    """
    processors = _preloadable(pipeline)
    generator = pipeline.generator
    while True:
        if not processors and isinstance(generator, BatchAccess):
            return None, 0
        for processor in processors:
            processor._random = _NoRandomness()  # type: ignore[assignment]
        try:
            raw = enumerate(_raw_samples(pipeline, show_progress))
            failures = FailurePolicy(pipeline.params.allowed_failures(), DropCounts())
            samples = [_processed(sample, index, processors, failures) for index, sample in raw]
        except _RandomnessWanted as reason:
            processors = processors[: reason.processor]
            continue
        random_access = isinstance(generator, RandomAccess)
        params = PreloadedGeneratorParams(samples, random_access, generator.yields_batches())
        return params, len(processors)


class _RandomnessWanted(Exception):  # noqa: N818 (a turn of the program, not an error)
    """A processor draws random numbers, which must be others in every pass."""

    processor = 0


class _NoRandomness:
    """Takes the place of the random stream of a processor."""

    def generator(self) -> np.random.Generator:
        raise _RandomnessWanted


def _preloadable(pipeline: DataPipeline) -> list[MappingDataProcessor[Any]]:
    """New processors, since they will get other random streams."""
    processors: Iterable[DataProcessor[Any]] = pipeline.data.params.pre_proc.create(
        pipeline.params, pipeline.data.params
    ).processors
    mapping = takewhile(lambda p: isinstance(p, MappingDataProcessor) and p.supports_preload(), processors)
    return list(mapping)  # type: ignore[arg-type]


def _raw_samples(pipeline: DataPipeline, show_progress: bool) -> Iterable[Outcome]:
    limit = pipeline.params.limit if pipeline.params.limit > 0 else None
    generator = pipeline.generator
    try:
        size = len(range(len(generator))[:limit])
    except (TypeError, NotImplementedError) as error:
        if limit is None:
            raise _may_be_endless(pipeline.mode, error) from error
        size = limit
    if isinstance(generator, RandomAccess):
        indices = range(len(generator))[:limit]
        samples: Iterable[Outcome] = (read_sample(generator, index) for index in indices)
    else:
        samples = islice(_generated(generator), limit)
    return track(samples, f"Preloading {pipeline.mode.value} data", size, show_progress)


def _generated(generator: DataGenerator[Any]) -> Iterable[Sample]:
    name = f"{type(generator).__name__}.generate"
    return (require_sample(sample, name) for sample in require_iterable(generator.generate(), name))


def _may_be_endless(mode: PipelineMode, error: Exception) -> UsageError:
    flag = "--train.limit" if mode is PipelineMode.TRAINING else "--val.limit"
    return UsageError(
        f"preload_data holds all {mode.value} data in memory, but {error}, so that they may be endless: expected a "
        f"__len__, or a {flag} (at most so many samples are held), or no --trainer.preload_data"
    )


def _processed(
    sample: Outcome, index: int, processors: Sequence[MappingDataProcessor[Any]], failures: FailurePolicy
) -> Sample:
    """The sample behind the processors; an invalid one if that fails and may."""
    for number, processor in enumerate(processors):
        if isinstance(sample, FailedSample) or not sample.is_valid():
            break
        try:
            sample = require_sample(processor.preload(sample), f"{type(processor).__name__}.preload")
        except _RandomnessWanted as reason:
            reason.processor = number
            raise
        except Exception as error:
            error.add_note(f"in {type(processor).__name__}.preload, sample {index} of the data: {sample!r}")
            sample = FailedSample(error)
    if isinstance(sample, FailedSample):
        failures.handle(sample, (index,))
        return Sample().new_invalid()
    return sample.new_inputs(_read_only(sample.inputs)).new_targets(_read_only(sample.targets))


def _read_only(part: Any) -> Any:
    """Inputs or targets whose arrays cannot be changed: a processor that wrote into them would change the next pass."""
    if not isinstance(part, dict):
        return part
    protected = {key: value.view() if isinstance(value, np.ndarray) else value for key, value in part.items()}
    for value in protected.values():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return protected


def _fresh(sample: Sample) -> Sample:
    """A copy that may get other keys."""
    fresh = sample.copy()
    fresh.inputs = dict(sample.inputs) if isinstance(sample.inputs, dict) else sample.inputs
    fresh.targets = dict(sample.targets) if isinstance(sample.targets, dict) else sample.targets
    return fresh
