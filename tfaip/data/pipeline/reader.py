"""The input side of a pipeline: reads its samples and batches in the way that costs least."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import numpy as np

from tfaip.data.pipeline.batching import Batch, Batcher
from tfaip.data.pipeline.bucketing import LengthBuckets, sample_length
from tfaip.data.pipeline.datagenerator import BatchAccess, DataGenerator, DataGeneratorParams, RandomAccess, size_of
from tfaip.data.pipeline.definitions import PipelineMode, Sample, SampleGroup, SampleSpecs
from tfaip.data.pipeline.executor import BlockExecutor
from tfaip.data.pipeline.failures import DropCounts, FailurePolicy, SampleFilter
from tfaip.data.pipeline.params import DataPipelineParams
from tfaip.data.pipeline.position import Position
from tfaip.data.pipeline.processor.params import DataProcessorPipelineParams
from tfaip.data.pipeline.sampler import Indices, Sampler
from tfaip.data.pipeline.sharding import UNSHARDED, Shard, ShardedStream, is_whole, shard_batch, shard_bounds
from tfaip.data.pipeline.stream import SampleStream
from tfaip.data.pipeline.workers.worker import WorkerSpec
from tfaip.errors import TfaipError, UsageError

Batches = Generator[tuple[Batch, Position], None, None]


class PipelineReader:
    """Reader of the samples of a generator; `close` ends its workers.

    Args:
        params: of the pipeline.
        data: specs, padding, length and processors.
        generator: source of the samples.
        generator_params: its params, from which workers build it; None: they are sent the samples.
        seed: of the data.
        drops: counts the samples that are left out.
        pre_proc: the processors.
    """

    def __init__(
        self,
        params: DataPipelineParams,
        data: SampleSpecs,
        generator: DataGenerator[Any],
        generator_params: DataGeneratorParams | None,
        seed: int,
        drops: DropCounts,
        pre_proc: DataProcessorPipelineParams,
    ) -> None:
        self._params = params
        self._data = data
        self._generator = generator
        self._generator_params = generator_params
        self.samples_per_batch = samples_per_batch(generator, params)
        self.pre_proc = pre_proc
        self.processors = pre_proc.create(params, data.params)
        self.sampler = Sampler(generator, params, seed)
        self.batcher = Batcher(data.input_layer_specs(), data.target_layer_specs(), data.padding_values(), params.mode)
        failures = FailurePolicy(params.allowed_failures(), drops)
        self._length = sample_length(data) if self._measures_samples else data.element_length_fn
        self.filter = SampleFilter(self.batcher, params.max_element_length, self._length, failures)
        self.executor = self._create_executor(seed)
        self._stream = SampleStream(self.sampler, self.executor, self.processors, self.filter, self.samples_per_batch)

    def _create_executor(self, seed: int) -> BlockExecutor:
        spec = WorkerSpec(
            self._params,
            self._data.params,
            self.pre_proc,
            seed,
            self._generator_params if self.workers_read else None,
            self.batcher if self.workers_stack else None,
        )
        return BlockExecutor(self.processors, spec, self._generator)

    def close(self) -> None:
        """End the workers and release data that are being iterated."""
        self._stream.close()
        self.sampler.close()
        self.executor.close()

    @property
    def workers_read(self) -> bool:
        """True if workers, if there are some, read the samples; otherwise they are sent them."""
        # Every worker would load data in memory once more.
        has_access = self._generator_params is not None and isinstance(self._generator, RandomAccess)
        return has_access and not self._generator.in_memory()

    @property
    def workers_stack(self) -> bool:
        """True if workers, if there are some, stack the batches: nothing else is left to do."""
        has_processors_here = self.processors.after_parallel or not self.processors.is_mapping
        return not (self._measures_samples or has_processors_here or self._generator.yields_batches())

    @property
    def _measures_samples(self) -> bool:
        return self._params.max_element_length is not None or bool(self._params.bucket_boundaries)

    @property
    def stack(self) -> Callable[[list[Sample]], Batch]:
        """Function that makes a batch of at most `samples_per_batch` samples."""
        return self.batcher.from_ready_made if self._generator.yields_batches() else self.batcher.batch

    def samples(self, repeat: bool) -> Generator[Sample, None, None]:
        """Yield the valid processed samples; `repeat`: pass after pass, without end."""
        for sample, _ in self._stream.samples(Position(), repeat):
            if isinstance(sample, SampleGroup):
                yield from sample.samples
            else:
                yield sample

    def num_samples(self, repeat: bool) -> int:
        """Return the number of samples that `samples` yields if none is dropped.

        Raises:
            TypeError: if it is not known.
        """
        if repeat:
            raise TypeError("the samples have no end: auto_repeat=False reads them once")
        if not self.processors.is_mapping or self._generator.yields_batches():
            raise TypeError("the number of samples is not known before they are made")
        return self._params.limited_size(size_of(self._generator))

    def batches(self, start: Position, sizes: Iterable[int], repeat: bool, in_order: bool = False) -> Batches:
        """Yield batches, each with the position after it.

        Args:
            start: where to continue.
            sizes: of the batches; with buckets only their number counts.
            repeat: pass after pass, without end; False: stop at the end of the pass.
            in_order: use no buckets, which change the order of the samples.
        """
        batches: Iterator[tuple[Batch, Position]]
        arrays = self._arrays()
        buckets = None if in_order else self._buckets()
        if arrays is not None:
            batches = array_batches(arrays, self.sampler, self.batcher, start, sizes, repeat)
        elif buckets is not None:
            yield from self._bucket_batches(buckets, start, sizes, repeat)
            return
        else:
            batches = self._stream.batches(start, sizes, repeat, self.stack)
        # The sizes of an epoch leave the remainder out; in a single pass it shows only at the end.
        smallest = self.samples_per_batch if self._params.batch_drop_remainder else 1
        for batch, position in batches:
            if batch.size < smallest:
                return
            yield batch, position

    def sharded_batches(self, start: Position, sizes: Iterable[int], shard: Shard) -> Batches:
        """Yield the rows of a shard of an endless stream; only these are read if possible."""
        has_part = shard[1] > 1
        arrays = self._arrays() if has_part else None
        if arrays is not None:
            return array_batches(arrays, self.sampler, self.batcher, start, sizes, True, shard)
        if has_part and self._rows_are_independent():
            stream = ShardedStream(self.sampler, self.executor, self.filter, shard)
            return stream.batches(start, sizes, self.stack)
        return ((shard_batch(batch, shard), position) for batch, position in self.batches(start, sizes, True))

    def _bucket_batches(self, buckets: LengthBuckets, start: Position, sizes: Iterable[int], repeat: bool) -> Batches:
        stream = self._stream
        groups = buckets.groups(stream.samples(start, repeat), stream.number, start, stream.recall(start))
        for _, (group, position) in zip(sizes, groups, strict=False):
            yield self.batcher.batch(group), position

    def _arrays(self) -> BatchAccess | None:
        """Return the generator if batches can be cut from it: samples need no processing."""
        generator = self._generator
        if self.processors.processors or self._measures_samples or generator.yields_batches():
            return None
        return generator if isinstance(generator, BatchAccess) else None

    def _buckets(self) -> LengthBuckets | None:
        params = self._params
        if not params.bucket_boundaries:
            return None
        if self._generator.yields_batches():
            raise UsageError(
                f"bucket_boundaries is {params.bucket_boundaries}, but "
                f"{type(self._generator).__name__} yields batches: buckets need single samples"
            )
        sizes = params.bucket_batch_sizes or [params.batch_size] * (len(params.bucket_boundaries) + 1)
        return LengthBuckets(params.bucket_boundaries, sizes, self._length, params.batch_drop_remainder)

    def _rows_are_independent(self) -> bool:
        """Return True if the rows of a shard can be made without the others of their batches."""
        if self._params.bucket_boundaries or self._generator.yields_batches():
            return False
        # Variable dimensions are padded to the longest sample of the whole batch.
        specs = {**self._data.input_layer_specs(), **self._data.target_layer_specs()}
        has_one_shape = not any(None in spec.shape for spec in specs.values())
        return has_one_shape and self.processors.is_mapping


def samples_per_batch(generator: DataGenerator[Any], params: DataPipelineParams) -> int:
    """Return the samples of the generator per batch, 1 if it yields batches."""
    return 1 if generator.yields_batches() else params.batch_size


def array_batches(
    generator: BatchAccess,
    sampler: Sampler,
    batcher: Batcher,
    start: Position,
    sizes: Iterable[int],
    repeat: bool,
    shard: Shard = UNSHARDED,
) -> Generator[tuple[Batch, Position], None, None]:
    """Yield batches of unprocessed samples after `start`, each with the position after it.

    Args:
        generator: gives many samples at once.
        sampler: order of the samples of this generator.
        batcher: checks and casts.
        start: where to continue.
        sizes: of the whole batches; without `repeat` the last one may be smaller.
        repeat: continue with the next pass, without end; False: stop at the end of the pass.
        shard: only the rows of one of several processes.

    Raises:
        TfaipError: if the data has no sample; nothing to predict is no error.
    """
    position = start
    indices = sampler.indices(start.pass_index)
    if len(indices) == 0 and (repeat or sampler.mode is not PipelineMode.PREDICTION):  # as in `SampleStream`
        raise TfaipError("the data has no sample")
    for size in sizes:
        picked: list[Indices] = []
        missing = size
        while missing:
            if position.consumed >= len(indices):  # above it if the data became smaller since a training was stopped
                if not repeat:
                    break
                position = Position(position.pass_index + 1, dropped=start.dropped)
                indices = sampler.indices(position.pass_index)
            part = indices[position.consumed : position.consumed + missing]
            picked.append(part)
            missing -= len(part)
            end = position.consumed + len(part)
            position = Position(position.pass_index, end, end, dropped=start.dropped)
        if not picked:
            return
        rows = picked[0] if len(picked) == 1 else np.concatenate(picked)  # most batches are of one pass
        begin, end = shard_bounds(len(rows), shard)
        batch = batcher.from_stacked(generator.get_batch(rows[begin:end]))
        batch.is_whole = is_whole(len(rows), shard)
        yield batch, position
