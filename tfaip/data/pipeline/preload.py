"""Data in memory: processing that is equal in every pass happens once.

Preloaded data are a generator of samples in memory and the same processors, the first of which run
in no mode. No other part of a pipeline knows of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice, takewhile
from typing import Any

import numpy as np

from tfaip.data.pipeline.blocks import FailedSample, Outcome, read_sample
from tfaip.data.pipeline.datagenerator import BatchAccess, DataGenerator, RandomAccess, RawDataGeneratorParams
from tfaip.data.pipeline.definitions import PipelineMode, Sample, require_iterable, require_sample
from tfaip.data.pipeline.failures import DropCounts, FailurePolicy
from tfaip.data.pipeline.params import DataPipelineParams
from tfaip.data.pipeline.processor.dataprocessor import DataProcessor, MappingDataProcessor
from tfaip.params import option
from tfaip.params.limits import FieldAdvice
from tfaip.util.terminal import track


class PreloadedGeneratorParams(RawDataGeneratorParams, cls=":PreloadedGenerator"):
    """Samples in memory that replace a generator."""

    has_random_access: bool = option(True, "Whether the generator has.", mode="ignore")
    yields_batches: bool = option(False, "Whether the generator does.", mode="ignore")

    def create(self, mode: PipelineMode) -> DataGenerator[Any]:
        """Build a generator that can do what the original one can, which keeps the order."""
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


def preload(
    generator: DataGenerator[Any], params: DataPipelineParams, data_params: Any, show_progress: bool
) -> tuple[PreloadedGeneratorParams | None, int]:
    """Run the first processors of a pipeline on all samples of its generator.

    These are the mapping processors up to the first one that does not support it or draws random
    numbers. A sample that they declare invalid stays, so that the others keep their numbers; one
    that failed, if `on_error` allows it, counts as invalid from then on.

    Args:
        generator: source of the samples.
        params: of the pipeline, with its mode and limit.
        data_params: of the data, with the processors.
        show_progress: show a bar.

    Returns:
        the params of a generator of the processed samples (None: the data are arrays in memory
        already), and the number of processors that ran.

    Raises:
        FieldAdvice: if the number of samples is not known, and there is no limit.
    """
    processors = _preloadable(params, data_params)
    # One policy for all attempts: a sample that fails in each of them is logged once, and counts once.
    failures = FailurePolicy(params.allowed_failures(), DropCounts())
    while True:
        if not processors and isinstance(generator, BatchAccess):
            return None, 0
        for processor in processors:
            processor._random = _NoRandomness()  # type: ignore[assignment]
        samples: list[Sample] = []
        try:
            # Samples keep their numbers, which select the random numbers of the other processors.
            for index, sample in enumerate(_raw_samples(generator, params, show_progress)):
                samples.append(_processed(sample, index, processors, failures))
        except _RandomnessUsed as reason:
            processors = processors[: reason.processor]  # begin again without it and those after it
            continue
        has_random_access = isinstance(generator, RandomAccess)
        return PreloadedGeneratorParams(samples, has_random_access, generator.yields_batches()), len(processors)


class _RandomnessUsed(Exception):  # noqa: N818 (control flow, not an error)
    """Signal that a processor draws random numbers, which must differ from pass to pass."""

    processor = 0


class _NoRandomness:
    """Replacement of the random stream of a processor."""

    def generator(self) -> np.random.Generator:
        raise _RandomnessUsed


def _preloadable(params: DataPipelineParams, data_params: Any) -> list[MappingDataProcessor[Any]]:
    """Build new processors, since they get other random streams."""
    processors: Iterable[DataProcessor[Any]] = data_params.pre_proc.create(params, data_params).processors
    mapping = takewhile(lambda p: isinstance(p, MappingDataProcessor) and p.supports_preload(), processors)
    return list(mapping)  # type: ignore[arg-type]


def _raw_samples(generator: DataGenerator[Any], params: DataPipelineParams, show_progress: bool) -> Iterable[Outcome]:
    limit = params.limit if params.limit > 0 else None
    try:
        size = len(range(len(generator))[:limit])
    except (TypeError, NotImplementedError) as error:
        if limit is None:
            raise _may_be_endless(params.mode, error) from error
        size = limit
    if isinstance(generator, RandomAccess):
        samples: Iterable[Outcome] = (read_sample(generator, index) for index in range(size))
    else:
        samples = islice(_generated(generator), limit)
    return track(samples, f"Preloading {params.mode.value} data", size, show_progress)


def _generated(generator: DataGenerator[Any]) -> Iterable[Sample]:
    name = f"{type(generator).__name__}.generate"
    return (require_sample(sample, name) for sample in require_iterable(generator.generate(), name))


def _may_be_endless(mode: PipelineMode, error: Exception) -> FieldAdvice:
    return FieldAdvice(
        f"preload_data holds all {mode.value} data in memory, but {error}, so that they may be endless: expected a "
        "__len__, or a {limit} (at most so many samples are held), or no preload_data",
        "limit",
    )


def _processed(
    sample: Outcome, index: int, processors: Sequence[MappingDataProcessor[Any]], failures: FailurePolicy
) -> Sample:
    """Return the processed sample; an invalid one if it failed and may."""
    for number, processor in enumerate(processors):
        if isinstance(sample, FailedSample) or not sample.is_valid():
            break
        try:
            sample = require_sample(processor.preload(sample), f"{type(processor).__name__}.preload")
        except _RandomnessUsed as reason:
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
    fresh = sample.copy()
    if isinstance(sample.inputs, dict):
        fresh.inputs = dict(sample.inputs)
    if isinstance(sample.targets, dict):
        fresh.targets = dict(sample.targets)
    return fresh
