"""The pipeline of one mode: from the generator to batches, and post-processing."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, repeat, takewhile
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from tfaip.data.pipeline.batching import UNSHARDED, Batch, LengthPadding, Shard
from tfaip.data.pipeline.datagenerator import (
    DataGenerator,
    DataGeneratorParams,
    RawDataGenerator,
)
from tfaip.data.pipeline.definitions import (
    FailedSample,
    Outcome,
    PipelineMode,
    Sample,
    SampleGroup,
    SampleSpecs,
    noted,
    require_sample,
)
from tfaip.data.pipeline.params import DataPipelineParams
from tfaip.data.pipeline.processor.dataprocessor import MappingDataProcessor
from tfaip.data.pipeline.processor.params import DataProcessorPipelineParams
from tfaip.data.pipeline.reader import PipelineReader
from tfaip.data.pipeline.sampler import DropCounts, Position, SampleFilter, generated_samples, read_sample
from tfaip.data.pipeline.worker import WorkerSpec
from tfaip.data.pipeline.workerpool import PostProcessor
from tfaip.errors import UsageError
from tfaip.params.fields import FieldAdvice, copied
from tfaip.params.tree import nodes_of, with_shared
from tfaip.util.classes import overrides, refuse_uncalled
from tfaip.util.logging import logger
from tfaip.util.oldnames import old_names
from tfaip.util.terminal import track

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)

T = TypeVar("T")

log = logger(__name__)


class OpenedIterator(Iterator[T]):
    """Iterator of a pipeline, and the context that keeps the worker processes while it is used.

    Args:
        length: returns their number, or raises a `TypeError` if it is not known.
    """

    def __init__(
        self,
        pipeline: AbstractContextManager[Any],
        iterator: Generator[T, None, None],
        length: Callable[[], int] | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._iterator = iterator
        self._length = length

    def __enter__(self) -> Self:
        self._pipeline.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        try:
            self._iterator.close()
        finally:
            self._pipeline.__exit__(*error)

    def __next__(self) -> T:
        return next(self._iterator)

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError("the number of these samples or batches is not known")
        return self._length()

    def __bool__(self) -> bool:
        return True  # otherwise bool() would call __len__


class DataPipeline:
    """Samples and batches of a generator. Build it with `DataBase.create_pipeline`.

    A pipeline does not change: `to_mode`, `with_seed` and `with_params` return a new one, of the
    same class. The generator and the processors are built when they are first needed and kept. All
    iterators of a pipeline share them: use one at a time.

    Args:
        params: how to batch.
        data: specs, padding, length and processors.
        generator_params: source of the samples.
        input_processors: processors before the model; None: those of the data.
        output_processors: processors after the model; None: those of the data.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        refuse_uncalled(cls, DataPipeline, {"preload_input_samples": "as_preloaded"})

    def __init__(
        self,
        params: DataPipelineParams,
        data: SampleSpecs,
        generator_params: DataGeneratorParams,
        input_processors: DataProcessorPipelineParams | None = None,
        output_processors: DataProcessorPipelineParams | None = None,
    ) -> None:
        self.params = params
        self.data = data
        self.generator_params = generator_params
        self.seed = 0
        self._input_processors = data.params.pre_proc if input_processors is None else input_processors
        self._output_processors = data.params.post_proc if output_processors is None else output_processors
        self._original: Self | None = None
        """The pipeline before it was preloaded."""
        self._samples_in_memory: list[Sample] | None = None
        self._users = 0
        """Open `with` blocks."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("params", "data", "generator_params", "seed") and "_sample_stream" in vars(self):
            raise AttributeError(f"{name} of a pipeline cannot be set once it was used: see with_params, with_seed")
        super().__setattr__(name, value)

    @property
    def mode(self) -> PipelineMode:
        """Purpose of the pipeline."""
        return self.params.mode

    def to_mode(self, mode: PipelineMode) -> Self:
        """Return a pipeline of the same data in another mode; preloaded samples are not used."""
        return self.with_params(replace(self.params, mode=mode))

    def with_params(self, params: DataPipelineParams) -> Self:
        """Return a pipeline of the same data with other params; preloaded samples are not used."""
        return (self._original or self)._replaced(params=params)

    def with_seed(self, seed: int) -> Self:
        """Return a pipeline of the same data with another seed."""
        original = None if self._original is None else self._original.with_seed(seed)
        return self._replaced(seed=seed, _original=original)

    def as_preloaded(self, progress_bar: bool = False) -> Self:
        """Return a pipeline with the same batches that keeps in memory what is equal in every pass.

        These are the outputs of the leading mapping processors that support preloading (see
        `supports_preload`). The data must have an end, or a `limit`.
        """
        if self._original is not None:
            return self
        samples, count = self._preload(progress_bar)
        if samples is None:
            return self
        # The processors that ran stay, in no mode: their positions select the random numbers.
        processors = self._input_processors.without_first(count, self.mode)
        preloaded = self._replaced(_samples_in_memory=samples, _input_processors=processors, _original=self)
        # In the place of an override, also for those who call it: that would read the data as they were.
        vars(preloaded)["create_data_generator"] = partial(PreloadedGenerator, samples, self.mode, self.generator)
        return preloaded

    @property
    def samples(self) -> Any:
        """The samples in memory, of a preloaded pipeline or of given samples."""
        source: Any = self.generator_params
        return source.samples if self._samples_in_memory is None else self._samples_in_memory

    def preload_input_samples(self, progress_bar: bool = False) -> list[Sample]:
        """Return the samples that `as_preloaded` would keep in memory; those that are dropped are left out."""
        preloaded, _ = self._preload(progress_bar)
        raw = self.params.limited(self.create_data_generator().generate()) if preloaded is None else preloaded
        groups = (sample.samples if isinstance(sample, SampleGroup) else [sample] for sample in raw)
        return [sample for group in groups for sample in group if sample.is_valid()]

    def _preload(self, progress_bar: bool) -> tuple[list[Sample] | None, int]:
        """Run the first processors on all samples.

        These are the mapping processors up to the first one that does not support it or draws random
        numbers. A sample that they declare invalid stays, so that the others keep their numbers; one
        that failed, if `on_error` allows it, counts as invalid from then on. A processor whose `preload`
        gives several samples of one gives the others new numbers.

        Returns:
            the processed samples (None: the data are arrays in memory already), and the number of processors that ran.

        Raises:
            FieldAdvice: if the number of samples is not known, and there is no limit.
        """
        params, generator = self.params, self.generator
        # New ones, since they get other random streams.
        mapping = [processor for processor, _ in self._input_processors.create(params, self.data.params).mapper.steps]
        processors = list(takewhile(lambda processor: processor.supports_preload(), mapping))
        for processor in processors:
            processor._random = _NoRandomness(processor)
        # One policy for all attempts: a sample that fails in each of them is logged once.
        failures = SampleFilter(params, DropCounts())
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
            return samples, len(processors)
        return None, 0

    def _replaced(self, **changes: Any) -> Self:
        """Return a copy with other values, in which nothing is built yet."""
        pipeline = copy.copy(self)  # not a call of the constructor, so that a subclass may have another one
        for name, value in vars(self).items():
            if isinstance(getattr(type(self), name, None), cached_property):
                del vars(pipeline)[name]
            elif isinstance(value, DataGenerator) and name != "generator_params":  # kept by a subclass
                vars(pipeline)[name] = None
        vars(pipeline).update(changes, _users=0)
        return pipeline

    def serves(self, params: DataPipelineParams, generator_params: DataGeneratorParams) -> bool:
        """Return True if this pipeline was made of this generator and such params."""
        original = self._original or self
        return original.params == params and original.generator_params is generator_params

    @cached_property
    def dropped(self) -> DropCounts:
        """Numbers of samples that were dropped since the pipeline was created."""
        return DropCounts()

    @contextmanager
    def drops_logged(self) -> Iterator[None]:
        """Context that logs at its end how many samples were dropped in it, if there were some."""
        before = self.dropped.numbers()
        yield
        new = DropCounts(*(now - then for now, then in zip(self.dropped.numbers(), before, strict=True)))
        if new.total:
            log.info("dropped %s samples: %s", self.mode.value, new)

    @cached_property
    def generator(self) -> DataGenerator[Any]:
        """Source of the samples."""
        return self.create_data_generator()

    def create_data_generator(self) -> DataGenerator[Any]:
        """Build the generator from its params; override it to take the samples from elsewhere.

        A preloaded pipeline does not ask an override. The samples of an overridden one are always read in the
        training process.
        """
        return self._complete_generator_params.create(self.mode)

    @cached_property
    def _complete_generator_params(self) -> DataGeneratorParams:
        """Params of the generator with what they need to know of the data."""
        params = with_shared(self.generator_params, self.data.shared_source)
        specs = {**self.data.input_layer_specs(), **self.data.target_layer_specs()}
        texts = frozenset(key for key, spec in specs.items() if spec.dtype == "string")
        if texts and any(hasattr(node, "text_keys") for node in nodes_of(params)):
            params = copied(params)
            for node in nodes_of(params):
                if hasattr(node, "text_keys"):
                    vars(node)["text_keys"] = texts
        return params

    @cached_property
    def _sample_stream(self) -> PipelineReader:
        """Reader of the samples, with the processors before the model."""
        # A worker has the params of the generator only, and none of the methods of a subclass.
        is_own = overrides(type(self), DataPipeline, "create_data_generator") or self._original is not None
        sent = None if is_own else self._complete_generator_params
        spec = WorkerSpec(self.params, self.data.params, self._input_processors, self.seed, sent)
        return PipelineReader(self.data, self.generator, spec, self.dropped)

    @cached_property
    def _post_processor(self) -> PostProcessor:
        spec = WorkerSpec(self.params, self.data.params, self._output_processors, self.seed)
        return PostProcessor(spec, self.dropped)

    def __enter__(self) -> Self:
        """Keep worker processes from one iterator to the next, until the outermost exit."""
        self._users += 1
        return self

    def __exit__(self, *error: object) -> None:
        self._users -= 1
        if self._users == 0:
            for name in ("_sample_stream", "_post_processor"):
                if name in vars(self):  # it was needed
                    getattr(self, name).close()

    def generate_input_samples(self, auto_repeat: bool | None = None) -> OpenedIterator[Sample]:
        """Return an iterator, to be opened by `with`, over the valid processed samples.

        Its `len` is the number of samples of the generator (after `limit`; some of them
        may be dropped), if there is an end, and each gives one.

        Args:
            auto_repeat: pass after pass without end, or one pass; None: without end for training only.
        """
        repeats = self._repeats(auto_repeat)
        stream = self._sample_stream
        is_known = not repeats and stream.processors.is_mapping and not self.generator.yields_batches()
        length = (lambda: self.params.limited_size(len(self.generator))) if is_known else None
        return OpenedIterator(self, stream.samples(repeats), length)

    def generate_input_batches(
        self, auto_repeat: bool | None = None, few_shapes: bool = False, in_order: bool = False
    ) -> OpenedIterator[Batch]:
        """Return an iterator, to be opened by `with`, over batches.

        Args:
            auto_repeat: pass after pass without end, or one pass; None: without end for training only.
            few_shapes: with buckets, pad variable dimensions to the longest length of a bucket, for
                a function that is compiled once per shape.
            in_order: keep the order of the data, where buckets would change it.
        """
        sizes = repeat(self.samples_per_batch)
        batches = self._sample_stream.batches(Position(), sizes, self._repeats(auto_repeat), in_order=in_order)
        lengths = self.params.bucket_lengths()
        if few_shapes and lengths:
            padding = LengthPadding(self.data, lengths)
            padded = (Batch(*padding((batch.inputs, batch.targets)), batch.meta) for batch, _ in batches)
            return OpenedIterator(self, padded)
        return OpenedIterator(self, (batch for batch, _ in batches))

    def training_batches(
        self, start: Position, num_samples: int, shard: Shard = UNSHARDED
    ) -> OpenedIterator[tuple[Batch, Position]]:
        """Return an iterator, to be opened by `with`, over the batches of one epoch.

        An epoch is a window on the endless stream of samples: the next one starts at the last
        position of this one. With buckets it is a window on the stream of batches, with as many
        batches as `num_samples` give without buckets.

        Args:
            start: position of the stream, `Position()` at the beginning of a training.
            num_samples: size of the epoch (or what is left of it).
            shard: (index, count, devices): only the rows of one of several processes that train
                together; all rows of a batch that their devices cannot share equally.

        Returns:
            the batches, or the own rows of them, each with the position after it.
        """
        if start.pending and not self.params.bucket_boundaries:
            log.warning(
                "without buckets, %d samples that waited in them come only in the next pass", len(start.pending)
            )
        full, rest = divmod(num_samples, self.samples_per_batch)
        sizes: Iterable[int] = repeat(self.samples_per_batch, full)
        if rest and not self.params.batch_drop_remainder:
            sizes = chain(sizes, [rest])
        return OpenedIterator(self, self._sample_stream.batches(start, sizes, True, shard))

    def process_output(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Run the post-processors on predicted samples, in order.

        If they run in worker processes, samples are read ahead.
        """
        with self:
            yield from self._post_processor.process(samples)

    @property
    def samples_per_batch(self) -> int:
        """Samples of the generator per batch: 1 if the generator yields batches."""
        return 1 if self.generator.yields_batches() else self.params.batch_size

    def epoch_size(self, samples_per_epoch: int = -1, scale_epoch_size: float = 1.0) -> int:
        """Return the number of samples of an epoch.

        Args:
            samples_per_epoch: the answer, unless it is -1.
            scale_epoch_size: otherwise this times the number of samples of the generator (after `limit`).

        Raises:
            UsageError: if the number is not known, or below 1.
        """
        size = samples_per_epoch
        if samples_per_epoch == -1:
            advice = "say how many make an epoch with {samples_per_epoch}"
            size = _size_or_limit(self.generator, self.params, advice, "samples_per_epoch")
            size = round(size * scale_epoch_size)
        if size < 1:
            raise FieldAdvice(
                f"an epoch has {size} samples: expected at least 1, change {{samples_per_epoch}} ({samples_per_epoch}) "
                f"or {{scale_epoch_size}} ({scale_epoch_size}), or the data",
                "samples_per_epoch",
                "scale_epoch_size",
            )
        return size

    def num_batches(self, num_samples: int) -> int:
        """Return the number of batches of an epoch of `num_samples` samples.

        Raises:
            UsageError: if every batch would be dropped.
        """
        count, rest = divmod(num_samples, self.samples_per_batch)
        if rest and not self.params.batch_drop_remainder:
            count += 1
        if count == 0:
            raise UsageError(
                f"{num_samples} samples give no batch of batch_size {self.samples_per_batch} with "
                f"batch_drop_remainder: make the epoch larger, the batch smaller, or keep the remainder"
            )
        return count

    def _repeats(self, auto_repeat: bool | None) -> bool:
        return self.mode is PipelineMode.TRAINING if auto_repeat is None else auto_repeat


class PreloadedGenerator(RawDataGenerator):
    """Preloaded samples; it can do what the original generator can, which keeps the order."""

    def __init__(self, samples: list[Sample], mode: PipelineMode, original: DataGenerator[Any]) -> None:
        super().__init__(samples, mode)  # the original one may have no mode and params: its constructor is the client's
        self._original = original
        self.shuffle = original.shuffle

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Sample:
        return _fresh(self._samples[index])

    def generate(self) -> Iterable[Sample]:
        return map(_fresh, self._samples)

    def has_random_access(self) -> bool:
        return self._original.has_random_access()

    def yields_batches(self) -> bool:
        return self._original.yields_batches()


class _RandomnessUsed(BaseException):
    """Signal that a processor draws random numbers, which must differ from pass to pass."""


class _NoRandomness:
    """Replacement of the random stream of a processor."""

    def __init__(self, processor: MappingDataProcessor[Any]) -> None:
        self._processor = processor

    def generator(self) -> np.random.Generator:
        raise _RandomnessUsed(self._processor)


def _size_or_limit(generator: DataGenerator[Any], params: DataPipelineParams, advice: str, name: str) -> int:
    """Return the number of samples of a pass, or if it is not known the limit; without one raise advice on a field."""
    try:
        return params.limited_size(len(generator))
    except (TypeError, NotImplementedError) as error:
        if params.limit < 0:
            raise FieldAdvice(f"{error}: {advice}", name) from error
        return params.limit


def _raw_samples(generator: DataGenerator[Any], params: DataPipelineParams, progress_bar: bool) -> Iterable[Outcome]:
    advice = "preload_data holds all data in memory, so give a {limit}, or a generator with a length"
    size = _size_or_limit(generator, params, advice, "limit")
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
            except Exception as error:
                where = f"in {type(processor).__name__}.preload, sample {index} of the data"
                raise noted(error, f"{where}: {one!r}")  # noqa: B904
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
    inputs, targets = (dict(part) if isinstance(part, dict) else part for part in (sample.inputs, sample.targets))
    return sample.new_inputs(inputs).new_targets(targets)
