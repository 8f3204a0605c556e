"""Base classes of processors, their params, and their random numbers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, repeat
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from tfaip.data.pipeline.definitions import (
    GENERAL_PROCESSOR,
    FailedSample,
    Outcome,
    PipelineMode,
    Sample,
    SampleGroup,
    noted,
    require_sample,
)
from tfaip.params import ParamsBase, option
from tfaip.params.classes import Part
from tfaip.params.tree import with_shared
from tfaip.util.classes import check_hook_names, overrides
from tfaip.util.oldnames import old_names

if TYPE_CHECKING:
    import numpy as np

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)

_WORD = 2**64
_MAPPING_HOOKS = ("apply", "supports_preload", "preload", "apply_on_sample", "apply_on_samples")


Modes = str | PipelineMode | Iterable[str | PipelineMode]


class DataProcessorParams(ParamsBase):
    """Params of a processor. A subclass names its processor in `cls` and adds what that needs.

    `class Noise(..., modes="training")` sets the default of `modes`, also to several of them.
    """

    modes: set[PipelineMode] = option(set(GENERAL_PROCESSOR), "Modes in which the processor runs")

    def __init_subclass__(params_cls, *, modes: Modes | None = None, **kwargs: Any) -> None:  # noqa: N804
        if modes is not None:
            items = [modes] if isinstance(modes, str) else modes
            params_cls.modes = set(map(PipelineMode, items))  # as if the class body said so
        super().__init_subclass__(**kwargs)

    @staticmethod
    def cls() -> type[DataProcessor[Any]]:
        """Return the `DataProcessor` subclass that these params describe."""
        raise NotImplementedError("override cls() of the processor params and return your DataProcessor subclass")

    def create(self, data_params: Any, mode: PipelineMode) -> DataProcessor[Any]:
        """Build the processor for a pipeline of this mode."""
        return self.cls()(params=self, data_params=data_params, mode=mode)


P = TypeVar("P", bound=DataProcessorParams)


class DataProcessor(Generic[P]):
    """Base of `MappingDataProcessor` and `GeneratingDataProcessor`.

    Args:
        data_params: the params of the scenario's data.
    """

    # Set by the pipeline. A class attribute, so that a subclass's `__init__` need not call ours.
    _random: RandomStream | None = None

    def __init__(self, params: P, data_params: Any, mode: PipelineMode) -> None:
        self.params = params
        self.data_params = data_params
        self.mode = PipelineMode(mode)

    @property
    def rng(self) -> np.random.Generator:
        """Random numbers that are equal in every run and with any number of workers.

        They depend only on the seed, the pass over the data, the index of the sample in the pass and the position of
        this processor. In a `GeneratingDataProcessor` one stream serves the whole pass.

        Do not store it in a variable that outlives the call; read `self.rng` again for each sample.
        """
        if self._random is None:
            raise RuntimeError(f"{type(self).__name__}.rng is there only while a pipeline runs the processor")
        return self._random.generator()

    def supports_preload(self) -> bool:
        """Return True if the processor may run once for all passes over the data.

        Only mapping processors can, see `MappingDataProcessor.preload`. Return False if the result differs from pass to
        pass for another reason than `self.rng`: a processor that draws random numbers is never preloaded.
        """
        return False


class MappingDataProcessor(DataProcessor[P]):
    """Processor that makes one sample of one. Override `apply`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_hook_names(cls, MappingDataProcessor, _MAPPING_HOOKS, needed={"apply": []})

    # The further arguments let type checkers accept those that `Processor` may have.
    def apply(self, sample: Sample, *args: Any, **kwargs: Any) -> Sample:
        """Process one sample: override it as `apply(self, sample)`.

        Return a new sample (`sample.new_inputs(...)`), or `sample.new_invalid()` to drop and count it.
        """
        raise NotImplementedError(f"override apply in {type(self).__name__}")

    def supports_preload(self) -> bool:
        return True

    def preload(self, sample: Sample) -> Sample | Iterable[Sample]:
        """Process one sample that will be kept in memory; default: `apply`.

        Several samples may be returned or yielded: all of them are kept, in the place of the one. An override with
        an argument `samples` gets a list with the one sample.
        """
        return self.apply_on_sample(sample)

    def apply_on_sample(self, sample: Sample) -> Sample:
        """Process one sample, as the pipeline does; default: `apply`. (`rng` is there only in a pipeline.)"""
        return self.apply(sample)

    def apply_on_samples(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Process samples, one after the other."""
        return map(self.apply_on_sample, samples)

    def _mapping(self) -> Callable[[Sample], Sample]:
        """Return the function that the pipeline calls with each sample."""
        # Called directly unless a subclass has its own: it would take time for each sample.
        if overrides(type(self), MappingDataProcessor, "apply_on_sample"):
            return self.apply_on_sample
        return self.apply


class GeneratingDataProcessor(DataProcessor[P]):
    """Processor of the stream: may drop, split, merge or add samples. Override `generate`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_hook_names(cls, GeneratingDataProcessor, ("generate", "supports_preload"))

    def generate(self, samples: Iterable[Sample]) -> Iterable[Sample]:
        """Process the samples of one pass over the data, usually with `for ...: yield ...`."""
        raise NotImplementedError(f"override generate in {type(self).__name__}")


class Processor(Part, DataProcessorParams, MappingDataProcessor[Any]):
    """Processor that makes one sample of one, params and code in one class.

        class Noise(Processor, modes="training"):
            stddev: float = 0.1

            def apply(self, sample: Sample, rng: np.random.Generator) -> Sample:
                x = sample.inputs["x"]
                return sample.new_inputs({"x": x + rng.normal(0, self.stddev, x.shape)})

    `apply` takes the sample, and, if it has a second argument, random numbers (`DataProcessor.rng`).
    What to return is described in `MappingDataProcessor`, the rules of such classes in `Part`. One
    that makes several samples, or none, of one derives from `StreamProcessor`.
    """

    _takes_rng: ClassVar[bool] = False

    def __init_subclass__(part_cls, **kwargs: Any) -> None:  # noqa: N804
        super().__init_subclass__(**kwargs)
        _refuse_method(part_cls, "generate", "StreamProcessor")
        if "apply" in vars(part_cls):
            parameters = inspect.signature(part_cls.apply).parameters.values()
            positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
            part_cls._takes_rng = len(positional) > 2

    def create(self, data_params: Any, mode: PipelineMode) -> DataProcessor[Any]:
        return _create_processor(self, data_params, mode)

    def apply_on_sample(self, sample: Sample) -> Sample:
        return self._mapping()(sample)

    def _mapping(self) -> Callable[[Sample], Sample]:
        return self._apply_randomly if self._takes_rng else self.apply

    def _apply_randomly(self, sample: Sample) -> Sample:
        return self.apply(sample, self.rng)


class StreamProcessor(Part, DataProcessorParams, GeneratingDataProcessor[Any]):
    """Processor of the stream of samples, params and code in one class: override `generate`.

    class Repeat(StreamProcessor):
        times: int = 2

        def generate(self, samples: Iterable[Sample]) -> Iterable[Sample]:
            for sample in samples:
                yield from [sample] * self.times
    """

    def __init_subclass__(part_cls, **kwargs: Any) -> None:  # noqa: N804
        super().__init_subclass__(**kwargs)
        _refuse_method(part_cls, "apply", "Processor")

    def create(self, data_params: Any, mode: PipelineMode) -> DataProcessor[Any]:
        return _create_processor(self, data_params, mode)


def _create_processor(params: Any, data_params: Any, mode: PipelineMode) -> DataProcessor[Any]:
    cls = params.cls()
    params = with_shared(params, data_params)
    if cls is type(params):
        return params._create(params=params, data_params=data_params, mode=PipelineMode(mode))
    return cls(params=params, data_params=data_params, mode=mode)


def _refuse_method(cls: type, name: str, base: str) -> None:
    """Raise if a class defines the method of the other kind of processor."""
    if name in vars(cls):
        raise TypeError(f"{cls.__qualname__}.{name} would never be called: derive from {base}")


class RandomStream:
    """Random numbers of one processor, a pure function of (seed, processor, pass, sample).

    Moving to another sample costs nothing until numbers are drawn. Philox is a counter-based generator (Salmon et al.,
    2011): the key is (seed, processor), the two upper words of the counter are (sample, pass), the two lower words
    count the draws, so that no two samples share a number.

    Args:
        number: position of the processor among all processors of the pipeline.
    """

    def __init__(self, number: int) -> None:
        import numpy as np  # not at the top: params modules import this one

        self._number = number
        self._place = (0, 0, 0)
        self._moved = True
        self._bits = np.random.Philox(0)
        self._generator = np.random.Generator(self._bits)
        self._state: Any = {
            "bit_generator": "Philox",
            "state": {"counter": np.zeros(4, np.uint64), "key": np.zeros(2, np.uint64)},
            "buffer": np.zeros(4, np.uint64),
            "buffer_pos": 4,  # at the end of the buffer: it is empty
            "has_uint32": 0,
            "uinteger": 0,
        }

    def move(self, seed: int, pass_index: int, index: int) -> None:
        """Move to the first number of a sample."""
        self._place = (seed, pass_index, index)
        self._moved = True

    def generator(self) -> np.random.Generator:
        """Return the generator, where the draws since the last `move` left it."""
        if self._moved:
            # Setting the counter takes a microsecond, seeding a new generator more than ten.
            seed, pass_index, index = self._place
            words = self._state["state"]
            words["counter"][:] = (0, 0, index, pass_index)
            words["key"][:] = (seed % _WORD, self._number)
            self._bits.state = self._state
            self._moved = False
        return self._generator


class SampleMapper:
    """Mapping processors on single samples: a pure function of the sample and (seed, pass, index).

    It may run in any process, in any order.

    Args:
        steps: the processors with their random streams.
    """

    def __init__(self, steps: Sequence[tuple[MappingDataProcessor[Any], RandomStream]]) -> None:
        self.steps = steps
        self._calls = [
            (f"{type(processor).__name__}.apply", processor._mapping(), random.move) for processor, random in steps
        ]

    def __len__(self) -> int:
        return len(self.steps)

    def map(self, sample: Sample, seed: int, pass_index: int, index: int) -> Sample:
        """Process the sample with number `index` of its pass, until it is invalid; of a group each sample."""
        if sample.__class__ is SampleGroup:
            return self._map_group(sample, (seed, pass_index, index))
        for name, apply, move in self._calls:
            if sample._invalid:
                break
            move(seed, pass_index, index)
            try:
                processed = apply(sample)
                if processed.__class__ is not Sample:
                    require_sample(processed, name)
            except Exception as error:
                raise noted(error, f"in {name}, sample {index} of its pass: {sample!r}")  # noqa: B904
            sample = processed
        return sample

    def outcomes(self, samples: Iterable[Outcome], seed: int, places: Iterable[tuple[int, int]]) -> Iterator[Outcome]:
        """Process samples with these places, (pass, number in it); one that cannot be processed fails alone."""
        if not self:
            yield from samples
            return
        process = self.map
        for sample, (pass_index, index) in zip(samples, places, strict=False):
            if sample.__class__ is not FailedSample:
                try:
                    sample = process(sample, seed, pass_index, index)  # type: ignore[arg-type]
                except Exception as error:
                    sample = FailedSample(error)
            yield sample

    def _map_group(self, group: SampleGroup, place: tuple[int, int, int]) -> SampleGroup:
        """Process all samples of a group; they share the random numbers of its place, one after the other."""
        samples = group.samples
        for name, apply, move in self._calls:
            move(*place)
            processed = []
            for number, sample in enumerate(samples):
                try:
                    done = sample if sample._invalid else require_sample(apply(sample), name)
                except Exception as error:
                    where = f"sample {number} of batch {place[2]} of its pass"
                    raise noted(error, f"in {name}, {where}: {sample!r}")  # noqa: B904
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
            else:
                self._streaming.append((processor, random))
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
            keeps: returns True for a valid sample, and raises the error of a failed one or leaves it out.
        """
        processed: Iterable[Any]
        for processor, random in self._streaming:
            if isinstance(processor, MappingDataProcessor):
                places = zip(repeat(pass_index), count())
                processed = SampleMapper([(processor, random)]).outcomes(samples, seed, places)
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
        for sample in processor.generate(samples):
            yield require_sample(sample, f"{type(processor).__name__}.generate")
    except Exception as error:
        raise noted(error, f"while {type(processor).__name__}.generate ran")  # noqa: B904
