"""Data in memory: processing that is equal in every pass happens once.

Preloaded data are a generator of samples in memory and the same processors, the first of which run
in no mode. No other part of a pipeline knows of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from tfaip.data.pipeline.datagenerator import DataGenerator, RawDataGenerator, RawDataGeneratorParams, size_of
from tfaip.data.pipeline.definitions import FailedSample, Outcome, PipelineMode, Sample, SampleGroup, require_sample
from tfaip.data.pipeline.failures import DropCounts, SampleFilter, raise_noted
from tfaip.data.pipeline.params import DataPipelineParams
from tfaip.data.pipeline.processor.dataprocessor import MappingDataProcessor
from tfaip.data.pipeline.processor.params import DataProcessorPipelineParams
from tfaip.data.pipeline.sampler import generated_samples, read_sample
from tfaip.params import option
from tfaip.params.fields import FieldAdvice
from tfaip.util.terminal import track


class PreloadedGeneratorParams(RawDataGeneratorParams, cls=":PreloadedGenerator"):
    """Samples in memory that replace a generator."""

    has_random_access: bool = option(True, "Whether the generator has.", mode="ignore")
    yields_batches: bool = option(False, "Whether the generator does.", mode="ignore")
    shuffle: bool = option(True, "Whether a training may shuffle the samples.", mode="ignore")

    def create(self, mode: PipelineMode) -> DataGenerator[Any]:
        return PreloadedGenerator(None, mode, self)


class PreloadedGenerator(RawDataGenerator):
    """Preloaded samples; it can do what the original generator can, which keeps the order."""

    def __init__(self, samples: None, mode: PipelineMode, params: PreloadedGeneratorParams) -> None:
        super().__init__(samples, mode, params)
        self.shuffle = params.shuffle

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Sample:
        return _fresh(self._samples[index])

    def generate(self) -> Iterable[Sample]:
        return map(_fresh, self._samples)

    def has_random_access(self) -> bool:
        return bool(self.params.has_random_access)

    def yields_batches(self) -> bool:
        return bool(self.params.yields_batches)


def preload(
    generator: DataGenerator[Any],
    params: DataPipelineParams,
    pre_proc: DataProcessorPipelineParams,
    data_params: Any,
    progress_bar: bool,
) -> tuple[PreloadedGeneratorParams | None, int]:
    """Run the first processors of a pipeline on all samples of its generator.

    These are the mapping processors up to the first one that does not support it or draws random
    numbers. A sample that they declare invalid stays, so that the others keep their numbers; one
    that failed, if `on_error` allows it, counts as invalid from then on. A processor whose `preload`
    gives several samples of one gives the others new numbers.

    Args:
        generator: source of the samples.
        params: of the pipeline, with its mode and limit.
        pre_proc: the processors before the model.
        data_params: of the data, for the processors.
        progress_bar: show a bar.

    Returns:
        the params of a generator of the processed samples (None: the data are arrays in memory
        already), and the number of processors that ran.

    Raises:
        FieldAdvice: if the number of samples is not known, and there is no limit.
    """
    # New ones, since they get other random streams.
    mapping = [processor for processor, _ in pre_proc.create(params, data_params).mapper.steps]
    processors = list(takewhile(lambda processor: processor.supports_preload(), mapping))
    for processor in processors:
        processor._random = _NoRandomness(processor)  # type: ignore[assignment]
    # One policy for all attempts: a sample that fails in each of them is logged once.
    failures = SampleFilter(params.allowed_failures(), DropCounts())
    while processors or not hasattr(generator, "get_batch"):
        samples: list[Sample] = []
        failures.failed = 0
        try:
            # Samples keep their numbers, which select the random numbers of the other processors.
            for index, sample in enumerate(_raw_samples(generator, params, progress_bar)):
                try:
                    samples += _preloaded(sample, index, processors)
                except Exception as error:
                    failures.handle(FailedSample(error))
                    samples.append(Sample().new_invalid())
        except _RandomnessUsed as reason:
            processors = processors[: processors.index(reason.args[0])]  # begin again without it and those after it
            continue
        abilities = generator.has_random_access(), generator.yields_batches(), generator.shuffle
        return PreloadedGeneratorParams(samples, *abilities), len(processors)
    return None, 0


class _RandomnessUsed(BaseException):
    """Signal that a processor draws random numbers, which must differ from pass to pass."""


class _NoRandomness:
    """Replacement of the random stream of a processor."""

    def __init__(self, processor: MappingDataProcessor[Any]) -> None:
        self._processor = processor

    def generator(self) -> np.random.Generator:
        raise _RandomnessUsed(self._processor)


def _raw_samples(generator: DataGenerator[Any], params: DataPipelineParams, progress_bar: bool) -> Iterable[Outcome]:
    try:
        size = params.limited_size(size_of(generator))
    except (TypeError, NotImplementedError) as error:
        if params.limit < 0:
            raise FieldAdvice(
                f"preload_data holds all {params.mode.value} data in memory, but {error}, so that they may be endless: "
                "expected a __len__, or a {limit} (at most so many samples are held), or no preload_data",
                "limit",
            ) from error
        size = params.limit
    if generator.has_random_access():
        samples: Iterable[Outcome] = (read_sample(generator, index) for index in range(size))
    else:
        samples = params.limited(generated_samples(generator))
    return track(samples, f"Preloading {params.mode.value} data", size, progress_bar, "sample")


def _preloaded(sample: Outcome, index: int, processors: Sequence[MappingDataProcessor[Any]]) -> list[Sample]:
    """Return what a sample becomes, with read-only arrays: one sample, unless a processor makes several."""
    if isinstance(sample, FailedSample):
        raise sample.error
    if isinstance(sample, SampleGroup):
        return [SampleGroup(one for part in sample.samples for one in _preloaded(part, index, processors))]
    samples = [sample]
    for processor in processors:
        made: list[Sample] = []
        for one in samples:
            try:
                made += _several(one, processor) if one.is_valid() else [one]
            except _RandomnessUsed:
                raise
            except BaseException as error:
                raise_noted(error, f"in {type(processor).__name__}.preload, sample {index} of the data: {one!r}")
        samples = made
    return [one.new_inputs(_read_only(one.inputs)).new_targets(_read_only(one.targets)) for one in samples]


def _several(sample: Sample, processor: MappingDataProcessor[Any]) -> list[Sample]:
    """Return what `preload` of a processor makes of a sample."""
    # An override may take a list of samples, and return the list of what they become.
    takes_list = "samples" in inspect.signature(processor.preload).parameters
    preload_of: Any = processor.preload
    made = preload_of([sample] if takes_list else sample)
    if isinstance(made, Sample | dict) or not isinstance(made, Iterable):
        made = [made]
    return [require_sample(one, f"{type(processor).__name__}.preload") for one in made]


def _read_only(part: Any) -> Any:
    """Return inputs or targets with read-only arrays: a write would change the next pass."""
    if not isinstance(part, dict):
        return part
    protected = dict(part)
    for key, value in part.items():
        if isinstance(value, np.ndarray):
            protected[key] = value.view()
            protected[key].flags.writeable = False
    return protected


def _fresh(sample: Sample) -> Sample:
    """Return a copy whose dicts may get other keys."""
    if isinstance(sample, SampleGroup):
        return SampleGroup(map(_fresh, sample.samples))
    fresh = sample.copy()
    if isinstance(sample.inputs, dict):
        fresh.inputs = dict(sample.inputs)
    if isinstance(sample.targets, dict):
        fresh.targets = dict(sample.targets)
    return fresh
