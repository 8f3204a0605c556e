"""Batches of samples of similar length: less padding, and few different shapes."""

from __future__ import annotations

import inspect
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tfaip.data.pipeline.batching import Array, Batch
from tfaip.data.pipeline.definitions import Sample, SampleSpecs
from tfaip.data.pipeline.position import Position
from tfaip.data.specs import TensorSpec
from tfaip.errors import TfaipError

Group = tuple[list[Sample], Position]


class LengthBuckets:
    """Collects samples by length; a bucket that is full is a batch.

    At the end of a pass over the data the buckets are emptied, the shortest samples first, so that
    every sample comes once in each pass, and all samples that wait in buckets are of one pass: a
    position names them by their numbers, and a training that continues makes them again.

    Args:
        boundaries: ascending lengths. Bucket i has the lengths from `boundaries[i - 1]` to below
            `boundaries[i]`, the last one (there is one more than boundaries) all from the last
            boundary on.
        batch_sizes: samples per batch, one number for each bucket.
        length: returns the length of a processed sample.
        drop_remainder: drop the samples that are left in the buckets at the end of a pass.
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
        """Return the bucket of a sample."""
        return bisect_right(self._boundaries, self._length(sample))

    def groups(
        self,
        samples: Iterable[tuple[Sample, Position]],
        number: Callable[[Position], int],
        start: Position,
        recalled: Iterable[tuple[int, Sample]] = (),
    ) -> Iterator[Group]:
        """Group samples by bucket, as a pure function of the stream.

        Args:
            samples: the stream after `start`, each sample with the position after it.
            number: returns the number of the sample before a position, see `Position.pending`.
            start: position of the stream.
            recalled: the samples that are pending at `start`, with their numbers.

        Returns:
            the groups, each with the position after it; the samples that wait in the buckets are
            pending there.

        Raises:
            TfaipError: if no bucket was filled in a whole pass, and remainders are dropped.
        """
        buckets = _Buckets(self._batch_sizes)
        for known, sample in recalled:
            buckets.add(self.index(sample), known, sample)
        position, has_batches = replace(start, pending=()), start.emitted > 0
        for sample, after in samples:
            if after.pass_index != position.pass_index:
                yield from self._end_of_pass(buckets, position, has_batches)
                buckets, has_batches = _Buckets(self._batch_sizes), False
            position = after
            bucket = self.index(sample)
            buckets.add(bucket, number(after), sample)
            if buckets.is_full(bucket):
                has_batches = True
                yield buckets.take(bucket, position)
        yield from self._end_of_pass(buckets, position, has_batches=True)  # the last pass need not fill one

    def _end_of_pass(self, buckets: _Buckets, position: Position, has_batches: bool) -> Iterator[Group]:
        if not self._drop_remainder:
            yield from buckets.empty(position)
        elif not has_batches:
            raise TfaipError(
                f"pass {position.pass_index} over the data filled no bucket, and batch_drop_remainder drops the rest: "
                f"use smaller batches ({list(self._batch_sizes)}), fewer buckets, or keep the remainder"
            )


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
        """Return a batch of this bucket, with the position after it."""
        waiting, size = self._waiting[bucket], self._sizes[bucket]
        taken, waiting[:size] = waiting[:size], []
        pending: list[int] = []
        for rest in self._waiting:
            pending += [number for number, _ in rest]
        return [sample for _, sample in taken], replace(position, pending=tuple(sorted(pending)))

    def empty(self, position: Position) -> Iterator[Group]:
        for bucket, waiting in enumerate(self._waiting):
            while waiting:
                yield self.take(bucket, position)


class LengthPadding:
    """Padding of variable dimensions to one of a few lengths, so that few shapes occur.

    Args:
        data: gives specs and padding values.
        lengths: ascending; a dimension that is longer than all of them stays as it is.
    """

    def __init__(self, data: SampleSpecs, lengths: Sequence[int]) -> None:
        self._input_specs = data.input_layer_specs()
        self._target_specs = data.target_layer_specs()
        self._padding = data.padding_values()
        self._lengths = lengths

    def __call__(self, element: tuple[dict[str, Array], dict[str, Array]]) -> tuple[dict[str, Array], ...]:
        """Pad inputs and targets of a batch."""
        inputs, targets = element
        return self._padded(inputs, self._input_specs), self._padded(targets, self._target_specs)

    def batch(self, batch: Batch) -> Batch:
        """Pad a batch."""
        inputs, targets = self((batch.inputs, batch.targets))
        return Batch(inputs, targets, batch.meta)

    def _padded(self, part: Mapping[str, Array], specs: Mapping[str, TensorSpec]) -> dict[str, Array]:
        padded = {}
        for key, array in part.items():
            missing = [(0, 0)]
            for size, wanted in zip(array.shape[1:], specs[key].shape, strict=True):
                longest = size
                if wanted is None:
                    longest = self._length(size)
                missing.append((0, longest - size))
            padded[key] = array
            if any(more for _, more in missing):
                padded[key] = np.pad(array, missing, constant_values=self._padding[key])
        return padded

    def _length(self, size: int) -> int:
        index = bisect_left(self._lengths, size)
        return self._lengths[index] if index < len(self._lengths) else size


class SampleValues(dict[str, Any]):
    """Inputs and targets of a sample in one dict, for functions of single values.

    Args:
        sample: whose parts are also there as attributes.
    """

    def __init__(self, sample: Sample) -> None:
        super().__init__()
        self.inputs, self.targets, self.meta = sample.inputs, sample.targets, sample.meta
        for part in (sample.targets, sample.inputs):
            if isinstance(part, dict):
                self.update(part)


def sample_length(data: SampleSpecs) -> Callable[[Sample], int]:
    """Return the function that measures samples.

    `element_length_fn` may also take no sample and return the function to measure with, which gets the
    inputs and the targets in one dict.

    Args:
        data: has `element_length_fn`.
    """
    method: Any = data.element_length_fn
    parameters = inspect.signature(method).parameters.values()
    if any(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
        return data.element_length_fn
    measure = method()
    if not callable(measure):
        owner = f"{type(data).__name__}.element_length_fn"
        raise TypeError(f"{owner}() gave {measure!r}, expected a function of a sample: declare it as (self, sample)")
    return lambda sample: int(measure(SampleValues(sample)))
