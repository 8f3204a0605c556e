"""Batches of samples of similar length: less padding, and few different shapes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tfaip.data.pipeline.batching import Array, Batch
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.stream import Position
from tfaip.data.specs import TensorSpec
from tfaip.errors import TfaipError

if TYPE_CHECKING:
    from tfaip.data.data import DataBase

Group = tuple[list[Sample], Position]


class LengthBuckets:
    """Collects samples by length; a bucket that is full is a batch.

    At the end of a pass over the data the buckets are emptied, the shortest samples first: no sample waits for the
    next pass, and every sample comes once in each.

    Args:
        boundaries: rising lengths. Bucket i holds lengths from `boundaries[i - 1]` to below `boundaries[i]`, the last
            one (there is one more than boundaries) all from the last boundary on.
        batch_sizes: samples per batch, one number for each bucket.
        length: of a processed sample.
        drop_remainder: drop what is left in the buckets at the end of a pass.
    """

    def __init__(
        self,
        boundaries: Sequence[int],
        batch_sizes: Sequence[int],
        length: Callable[[Sample], int],
        drop_remainder: bool,
    ) -> None:
        self._boundaries = boundaries
        self._batch_sizes = batch_sizes
        self._length = length
        self._drop_remainder = drop_remainder

    def index(self, sample: Sample) -> int:
        """The bucket of a sample."""
        return bisect_right(self._boundaries, self._length(sample))

    def groups(
        self,
        samples: Iterable[tuple[Sample, Position]],
        number: Callable[[Position], int],
        start: Position,
        recalled: Iterable[tuple[int, Sample]] = (),
    ) -> Iterator[Group]:
        """Groups of samples of one bucket each, a pure function of the stream.

        Args:
            samples: the stream behind `start`, each sample with the position behind it.
            number: what a position calls the sample before it, see `Position.pending`.
            start: where the stream stands.
            recalled: the samples that are pending at `start`, with their numbers.

        Returns:
            the groups, each with the position behind it: pending are the samples that wait in the buckets.

        Raises:
            TfaipError: no bucket was filled in a whole pass, and remainders are dropped.
        """
        buckets = _Buckets(self._batch_sizes)
        for known, sample in recalled:
            buckets.add(self.index(sample), known, sample)
        position, gave_some = replace(start, pending=()), start.emitted > 0
        for sample, behind in samples:
            if behind.pass_index != position.pass_index:
                yield from self._end_of_pass(buckets, position, gave_some)
                gave_some = False
            position = behind
            bucket = self.index(sample)
            buckets.add(bucket, number(behind), sample)
            if buckets.is_full(bucket):
                gave_some = True
                yield buckets.take(bucket, position)
        yield from self._end_of_pass(buckets, position, gave_some=True)

    def _end_of_pass(self, buckets: _Buckets, position: Position, gave_some: bool) -> Iterator[Group]:
        if not self._drop_remainder:
            yield from buckets.empty(position)
        elif not gave_some:
            raise TfaipError(
                f"pass {position.pass_index} over the data filled no bucket, and batch_drop_remainder drops the rest: "
                f"use smaller batches ({list(self._batch_sizes)}), fewer buckets, or keep the remainder"
            )
        buckets.clear()


class _Buckets:
    """The samples that wait, by bucket, with their numbers."""

    def __init__(self, batch_sizes: Sequence[int]) -> None:
        self._sizes = batch_sizes
        self._waiting: list[list[tuple[int, Sample]]] = [[] for _ in batch_sizes]

    def add(self, bucket: int, number: int, sample: Sample) -> None:
        self._waiting[bucket].append((number, sample))

    def is_full(self, bucket: int) -> bool:
        return len(self._waiting[bucket]) >= self._sizes[bucket]

    def take(self, bucket: int, position: Position) -> Group:
        """A batch of this bucket."""
        waiting, size = self._waiting[bucket], self._sizes[bucket]
        taken, waiting[:size] = waiting[:size], []
        pending = sorted(number for rest in self._waiting for number, _ in rest)
        return [sample for _, sample in taken], replace(position, pending=tuple(pending))

    def empty(self, position: Position) -> Iterator[Group]:
        for bucket, waiting in enumerate(self._waiting):
            while waiting:
                yield self.take(bucket, position)

    def clear(self) -> None:
        for waiting in self._waiting:
            waiting.clear()


class LengthPadding:
    """Pads the variable dimensions of batches up to one of a few lengths, so that few shapes occur.

    Args:
        data: gives specs and padding values.
        lengths: rising; a dimension that is longer than all of them stays as it is.
    """

    def __init__(self, data: DataBase[Any], lengths: Sequence[int]) -> None:
        self._specs = (data.input_layer_specs(), data.target_layer_specs())
        self._padding = data.padding_values()
        self._lengths = lengths

    def __call__(self, element: tuple[dict[str, Array], dict[str, Array]]) -> tuple[dict[str, Array], ...]:
        """Inputs and targets of a batch, padded."""
        return tuple(
            {key: self._padded(key, array, specs[key]) for key, array in part.items()}
            for part, specs in zip(element, self._specs, strict=True)
        )

    def batch(self, batch: Batch) -> Batch:
        """The whole batch, padded."""
        inputs, targets = self((batch.inputs, batch.targets))
        return Batch(inputs, targets, batch.meta)

    def _padded(self, key: str, array: Array, spec: TensorSpec) -> Array:
        missing = [
            self._length(size) - size if wanted is None else 0
            for size, wanted in zip(array.shape[1:], spec.shape, strict=True)
        ]
        if not any(missing):
            return array
        return np.pad(array, [(0, 0), *((0, more) for more in missing)], constant_values=self._padding[key])

    def _length(self, size: int) -> int:
        return next((length for length in self._lengths if size <= length), size)
