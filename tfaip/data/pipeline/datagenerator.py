"""Generators: where samples come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.params import pai_dataclass, pai_meta

if TYPE_CHECKING:
    import numpy as np

P = TypeVar("P", bound=DataGeneratorParams)


class DataGenerator(Generic[P]):
    """Yields the samples of one pass over the data.

    Override `generate`, and `__len__` where the number is known.
    A generator that also has `__getitem__(index) -> Sample` (and so a length) offers *random access*:
    training data is then shuffled as a whole and resuming costs nothing. One whose samples are rows of
    arrays can also have `get_batch`, see `BatchAccess`.

    Args:
        mode: what the pipeline is for.
        params: the params of the generator.
    """

    def __init__(self, mode: PipelineMode, params: P) -> None:
        self.mode = mode
        self.params = params

    def __len__(self) -> int:
        """Number of samples of one pass. Endless data, or data of unknown length, leaves this method out."""
        raise TypeError(f"the number of samples of {type(self).__name__} is not known")

    def __bool__(self) -> bool:
        return True  # or bool() would ask for the length

    def generate(self) -> Iterable[Sample]:
        """The samples of one pass, in the same order each time. Default: by random access."""
        if not isinstance(self, RandomAccess):
            raise NotImplementedError(f"override generate (or __len__ and __getitem__) in {type(self).__name__}")
        return (self[index] for index in range(len(self)))

    def yields_batches(self) -> bool:
        """Whether each sample is already a batch, with a leading batch dimension and `meta` a list or None.

        Such a batch runs through the processors as one sample and is neither batched nor padded again;
        `limit`, `__len__` and the size of an epoch then count batches. Do not write into its arrays again:
        they may be trained later.
        """
        return False

    def in_memory(self) -> bool:
        """Whether the samples already lie in the memory of this process.

        Worker processes are then sent the samples that they process, instead of building a generator of their own
        and reading from it.
        """
        return False


@runtime_checkable
class RandomAccess(Protocol):
    """A generator with random access."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Sample: ...


@runtime_checkable
class BatchAccess(Protocol):
    """A generator with random access to many samples at once."""

    def __len__(self) -> int: ...

    def get_batch(self, indices: np.ndarray) -> Sample:
        """The samples at `indices` (shape `[n]`) as one.

        Each array has the leading dimension n, meta is a list or None. The rows must equal what `self[i]`
        gives for each index.
        """
        ...


@pai_dataclass
@dataclass
class RawDataGeneratorParams(DataGeneratorParams):
    """Samples that are already there; for Python only, not for the command line."""

    samples: Iterable[Sample] = field(default_factory=list, metadata=pai_meta(mode="ignore", help="The samples."))

    @staticmethod
    def cls() -> type[DataGenerator[Any]]:
        return RawDataGenerator

    def create(self, mode: PipelineMode) -> DataGenerator[Any]:
        """A generator with random access for a list or tuple, else one that iterates once per pass."""
        if isinstance(self.samples, Sequence):
            return RawDataGenerator(mode, self)
        return RawIterableGenerator(mode, self)


class RawDataGenerator(DataGenerator[RawDataGeneratorParams]):
    """Yields samples from a list or another sequence."""

    def __init__(self, mode: PipelineMode, params: RawDataGeneratorParams) -> None:
        super().__init__(mode, params)
        self._samples: Sequence[Sample] = params.samples  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Sample:
        return self._samples[index]

    def in_memory(self) -> bool:
        return True


class RawIterableGenerator(DataGenerator[RawDataGeneratorParams]):
    """Yields samples from anything that can be iterated, e.g. an endless stream; its length is not known."""

    def generate(self) -> Iterable[Sample]:
        return self.params.samples
