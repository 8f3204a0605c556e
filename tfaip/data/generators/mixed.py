"""Several sources as one, joined or mixed by weights."""

from functools import cached_property
from typing import Any, ClassVar

from tfaip.data.pipeline.datagenerator import (
    DataGenerator,
    DataGeneratorParams,
    Generator,
    Joined,
    check_ratios,
    scaled_sizes,
)
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.errors import UsageError
from tfaip.params import option
from tfaip.params.fields import FieldError


class Mixed(Generator):
    """The samples of several generators, which a training shuffles together.

    All of them need random access: the samples of a pass are a function of the seed, the pass and the weights.
    """

    sources: list[DataGeneratorParams] = option([], "Generators of the samples", common=True)
    weights: list[float] | None = option(
        None,
        "Share of each source in the training samples, e.g. 1 3: a source that is too small for its share is "
        "repeated, and every sample of the others is used at least once per pass; 0 leaves a source out (None: "
        "every sample once)",
        low=0,
        common=True,
    )

    def create(self, mode: PipelineMode) -> DataGenerator[Any]:
        """Build the generator.

        Raises:
            UsageError: if there is no source, one has no random access, or the weights do not fit.
        """
        if not self.sources:
            raise UsageError(f"{type(self).__name__} has no source: name at least one in sources")
        parts = [source.create(mode) for source in self.sources]
        for part in parts:
            if not part.has_random_access():
                raise UsageError(f"{type(part).__name__}, a source of {type(self).__name__}, has no random access")
        weights = [1.0] * len(parts)
        if self.weights is not None:
            check_ratios(self, "weights", len(parts))
            if not any(self.weights):
                raise FieldError("weights", self.weights, "at least one above 0")
            if mode == PipelineMode.TRAINING:
                weights = self.weights
        created = super().create(mode)
        shares = [(part, weight) for part, weight in zip(parts, weights, strict=True) if weight > 0]
        vars(created).update(_shares=shares, shuffle=all(part.shuffle for part, _ in shares))
        return created

    _shares: ClassVar[list[tuple[Any, float]]] = []  # of the object that works: generators and their weights

    def yields_batches(self) -> bool:
        """Return True if the sources do."""
        return bool(self._shares[0][0].yields_batches())

    def in_memory(self) -> bool:
        """Return True if all sources are."""
        return all(part.in_memory() for part, _ in self._shares)

    @cached_property
    def _rows(self) -> Joined:
        sizes = [len(part) for part, _ in self._shares]
        for (part, _), size in zip(self._shares, sizes, strict=True):
            if not size:
                raise UsageError(f"{type(part).__name__}, a source of {type(self).__name__}, has no sample")
        if self.weights is not None and self.mode is PipelineMode.TRAINING:
            sizes = scaled_sizes(sizes, [weight for _, weight in self._shares])
        return Joined([part for part, _ in self._shares], sizes)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Sample:
        part, row = self._rows[index]
        sample: Sample = part[row % len(part)]
        return sample
