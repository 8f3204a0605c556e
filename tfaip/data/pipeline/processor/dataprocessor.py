"""Base classes of processors, and their params."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tfaip.data.pipeline.definitions import GENERAL_PROCESSOR, PipelineMode, Sample
from tfaip.params import ParamsBase, pai_dataclass, pai_meta

if TYPE_CHECKING:
    import numpy as np

    from tfaip.data.databaseparams import DataBaseParams
    from tfaip.data.pipeline.processor.randomness import RandomStream


@pai_dataclass
@dataclass
class DataProcessorParams(ParamsBase):
    """Params of a processor. A subclass names its processor in `cls` and adds what that needs."""

    modes: set[PipelineMode] = field(
        default_factory=lambda: set(GENERAL_PROCESSOR),
        metadata=pai_meta(help="Modes in which the processor runs."),
    )

    @staticmethod
    def cls() -> type[DataProcessor[Any]]:
        """The `DataProcessor` subclass that these params describe."""
        raise NotImplementedError("override cls() of the processor params and return your DataProcessor subclass")

    def create(self, data_params: DataBaseParams, mode: PipelineMode) -> DataProcessor[Any]:
        """Build the processor for a pipeline of this mode."""
        return self.cls()(params=self, data_params=data_params, mode=mode)


P = TypeVar("P", bound=DataProcessorParams)


class DataProcessor(Generic[P]):
    """Base of `MappingDataProcessor` and `GeneratingDataProcessor`.

    Args:
        params: the params of the processor.
        data_params: the params of the scenario's data.
        mode: what the pipeline is for.
    """

    # The engine sets it; it stands on the class so that a subclass's __init__ need not care.
    _random: RandomStream | None = None

    def __init__(self, params: P, data_params: DataBaseParams, mode: PipelineMode) -> None:
        self.params = params
        self.data_params = data_params
        self.mode = mode

    @property
    def rng(self) -> np.random.Generator:
        """Random numbers that are equal on every run and with any number of workers.

        They depend only on the seed, the pass over the data, the index of the sample in the pass and the
        position of this processor.

        In a `GeneratingDataProcessor` one stream serves the whole pass. Do not keep the object: ask each
        time.
        """
        if self._random is None:
            raise RuntimeError(f"{type(self).__name__}.rng is there only while a pipeline runs the processor")
        return self._random.generator()

    def supports_preload(self) -> bool:
        """Whether the processor may run once for all passes over the data.

        Only mapping processors can, see `MappingDataProcessor.preload`. Return False if the result differs from pass
        to pass for another reason than `self.rng`: whoever draws random numbers is never preloaded.
        """
        return False


class MappingDataProcessor(DataProcessor[P]):
    """A processor that makes one sample of one. Override `apply`."""

    def apply(self, sample: Sample) -> Sample:
        """Process one sample.

        Return a new sample (`sample.new_inputs(...)`), or `sample.new_invalid()` to drop and count it.
        """
        raise NotImplementedError(f"override apply in {type(self).__name__}")

    def supports_preload(self) -> bool:
        return True

    def preload(self, sample: Sample) -> Sample:
        """Process one sample that will be held in memory; default: `apply`."""
        return self.apply(sample)


class GeneratingDataProcessor(DataProcessor[P]):
    """A processor that makes any number of samples of any number. Override `generate`."""

    def generate(self, samples: Iterable[Sample]) -> Iterable[Sample]:
        """Process the samples of one pass over the data, usually with `for ...: yield ...`."""
        raise NotImplementedError(f"override generate in {type(self).__name__}")
