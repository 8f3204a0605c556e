"""Batches of samples of similar length: less padding, and few different shapes."""

from __future__ import annotations

import inspect
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfaip.data.pipeline.batching import Array
from tfaip.data.pipeline.definitions import Sample, SampleSpecs
from tfaip.data.pipeline.params import DataPipelineParams
from tfaip.data.pipeline.sampler import Cursor
from tfaip.data.specs import TensorSpec
from tfaip.errors import TfaipError


class LengthBuckets:
    """Collects samples by length; a bucket that is full is a batch.

    At the end of a pass over the data the buckets are emptied, the shortest samples first, so that
    every sample comes once in each pass, and all samples that wait in buckets are of one pass: a
    position names them by their numbers, and a training that continues makes them again.

    Bucket i has the lengths from `boundaries[i - 1]` to below `boundaries[i]`, the last one (there is one more than
    boundaries) all from the last boundary on.

    Args:
        params: boundaries, batch sizes and what happens to the samples that are left at the end of a pass.
        length: returns the length of a processed sample.
    """

    def __init__(self, params: DataPipelineParams, length: Callable[[Sample], int]) -> None:
        self._boundaries = params.bucket_boundaries
        self._batch_sizes = params.bucket_batch_sizes or [params.batch_size] * (len(self._boundaries) + 1)
        self._length = length
        self._drop_remainder = params.batch_drop_remainder
        self._waiting: list[list[tuple[int, Sample]]] = [[] for _ in self._batch_sizes]

    def groups(
        self, cursor: Cursor, passes: Iterable[Iterable[Sample]], recalled: Iterable[tuple[int, Sample]]
    ) -> Iterator[list[Sample]]:
        """Yield the samples of passes in groups, and note in the cursor which of them wait in the buckets.

        Args:
            cursor: moves with the samples.
            passes: the samples after the first position of the cursor.
            recalled: the samples that are pending there, with their numbers.

        Raises:
            TfaipError: if no bucket was filled in a whole pass, and remainders are dropped.
        """
        for number, sample in recalled:
            self._add(number, sample)
        has_groups = True
        for samples in passes:
            if not has_groups:
                raise TfaipError(
                    f"pass {cursor.pass_index - 1} over the data filled no bucket, and batch_drop_remainder drops the "
                    f"rest: use smaller batches ({list(self._batch_sizes)}), fewer buckets, or keep the remainder"
                )
            has_groups = cursor.emitted > 0 or not self._drop_remainder
            for sample in samples:
                bucket = self._add(cursor.consumed - 1, sample)
                if len(self._waiting[bucket]) >= self._batch_sizes[bucket]:
                    has_groups = True
                    yield self._take(bucket, cursor)
            for bucket, waiting in enumerate(self._waiting):
                if self._drop_remainder:
                    waiting.clear()
                while waiting:
                    yield self._take(bucket, cursor)

    def _add(self, number: int, sample: Sample) -> int:
        """Put a sample into its bucket; return the index of the bucket."""
        bucket = bisect_right(self._boundaries, self._length(sample))
        self._waiting[bucket].append((number, sample))
        return bucket

    def _take(self, bucket: int, cursor: Cursor) -> list[Sample]:
        waiting, size = self._waiting[bucket], self._batch_sizes[bucket]
        taken, waiting[:size] = waiting[:size], []
        cursor.pending = tuple(sorted(number for rest in self._waiting for number, _ in rest))
        return [sample for _, sample in taken]


class LengthPadding:
    """Padding of variable dimensions to one of a few lengths, so that few shapes occur.

    Args:
        data: gives specs and padding values.
        lengths: ascending; a dimension that is longer than all of them stays as it is.
    """

    def __init__(self, data: SampleSpecs, lengths: Sequence[int]) -> None:
        self._specs = data.input_layer_specs(), data.target_layer_specs()
        self._padding = data.padding_values()
        self._lengths = lengths

    def __call__(self, element: tuple[dict[str, Array], dict[str, Array]]) -> tuple[dict[str, Array], dict[str, Array]]:
        """Pad inputs and targets of a batch."""
        inputs, targets = map(self._padded, element, self._specs)
        return inputs, targets

    def _padded(self, part: dict[str, Array], specs: Mapping[str, TensorSpec]) -> dict[str, Array]:
        padded = dict(part)
        for key, array in part.items():
            missing = [(0, 0)]
            for size, wanted in zip(array.shape[1:], specs[key].shape, strict=True):
                longest = size
                if wanted is None:
                    longest = next((length for length in self._lengths if length >= size), size)
                missing.append((0, longest - size))
            if any(more for _, more in missing):
                padded[key] = np.pad(array, missing, constant_values=self._padding[key])
        return padded


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
    return lambda sample: int(measure({**(sample.targets or {}), **(sample.inputs or {})}))
