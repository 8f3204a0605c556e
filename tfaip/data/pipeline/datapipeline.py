"""The pipeline of one mode: generator, processors, order, batches, and post-processing behind the model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, TypeVar

from tfaip.data.databaseparams import DataGeneratorParams, DataPipelineParams
from tfaip.data.pipeline.arraystream import array_batches
from tfaip.data.pipeline.batching import Batch, Batcher
from tfaip.data.pipeline.blocks import BlockMaker
from tfaip.data.pipeline.bucketing import LengthBuckets, LengthPadding
from tfaip.data.pipeline.datagenerator import BatchAccess, DataGenerator, RandomAccess
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.failures import DropCounts, FailurePolicy
from tfaip.data.pipeline.order import RawOrder
from tfaip.data.pipeline.postprocessing import processed_outputs
from tfaip.data.pipeline.preload import preload
from tfaip.data.pipeline.processor.pipeline import ProcessorPipeline
from tfaip.data.pipeline.sharding import ALONE, Shard, ShardedStream, rows_of
from tfaip.data.pipeline.source import BlockSource
from tfaip.data.pipeline.stream import Position, SampleStream, StreamRules
from tfaip.data.pipeline.workers.pool import WorkerStats
from tfaip.data.pipeline.workers.recipe import Recipe
from tfaip.errors import UsageError
from tfaip.util.logging import logger

if TYPE_CHECKING:
    from tfaip.data.data import DataBase

T = TypeVar("T")

log = logger(__name__)


class DataPipeline:
    """Samples and batches of a generator. Build it with `DataBase.create_pipeline`.

    The generator and the processors are built when they are first needed and kept. All iterators of a
    pipeline share
    them: use one at a time.

    Args:
        params: how to batch.
        data: specs, padding and processors.
        generator_params: where samples come from.
        mode: what the pipeline is for; None takes the mode of `params`.
    """

    def __init__(
        self,
        params: DataPipelineParams,
        data: DataBase[Any],
        generator_params: DataGeneratorParams,
        mode: PipelineMode | None = None,
    ) -> None:
        self.params = params if mode is None else replace(params, mode=mode)
        self.data = data
        self.generator_params = generator_params
        self.seed = 0
        """Equal seeds give equal data; set it before iterating."""
        self.dropped = DropCounts()
        """Samples that were dropped since the pipeline exists."""
        self._not_preloaded: DataPipeline | None = None
        self._users = 0
        self._last_stream: SampleStream | None = None

    @property
    def mode(self) -> PipelineMode:
        """What the pipeline is for."""
        return self.params.mode

    def to_mode(self, mode: PipelineMode) -> DataPipeline:
        """The same data in another mode; what was preloaded for this one is not used."""
        if self._not_preloaded is not None:
            return self._not_preloaded.to_mode(mode)
        pipeline = DataPipeline(self.params, self.data, self.generator_params, mode)
        pipeline.seed = self.seed
        return pipeline

    def as_preloaded(self, show_progress: bool = False) -> DataPipeline:
        """A pipeline of the same data, and the same batches, that holds in memory what is equal in every pass.

        That are the samples behind the first mapping processors which support it (see `supports_preload`). The data
        must have an end, or a `limit`.

        Args:
            show_progress: show a bar while the samples are processed.
        """
        samples, count = preload(self, show_progress)
        if samples is None:
            return self
        data_params = copy.copy(self.data.params)
        data_params.pre_proc = data_params.pre_proc.without_first(count, self.mode)
        pipeline = DataPipeline(self.params, self.data.with_params(data_params), samples)
        pipeline.seed = self.seed
        pipeline._not_preloaded = self
        return pipeline

    @cached_property
    def generator(self) -> DataGenerator[Any]:
        """Where the samples come from."""
        return self.generator_params.create(self.mode)

    @cached_property
    def _pre_proc(self) -> ProcessorPipeline:
        return self.data.params.pre_proc.create(self.params, self.data.params)

    @cached_property
    def _post_proc(self) -> ProcessorPipeline:
        return self.data.params.post_proc.create(self.params, self.data.params)

    @cached_property
    def _batcher(self) -> Batcher:
        data = self.data
        return Batcher(data.input_layer_specs(), data.target_layer_specs(), data.padding_values(), self.mode)

    @cached_property
    def _source(self) -> BlockSource:
        generator, processors, data_params = self.generator, self._pre_proc, self.data.params
        recipe = Recipe(
            self.params,
            data_params,
            data_params.pre_proc,
            generator_params=self.generator_params if self.workers_can_read() else None,
            batcher=self._batcher if self.workers_can_stack() else None,
        )
        return BlockSource(BlockMaker(generator, processors.mapper), processors, recipe)

    def workers_can_read(self) -> bool:
        """Whether worker processes, if there are some, read the samples."""
        return isinstance(self.generator, RandomAccess) and not self.generator.in_memory()

    def workers_can_stack(self) -> bool:
        """Whether worker processes, if there are some, make the batches."""
        measures = self.params.max_element_length is not None or self.params.bucket_boundaries
        has_processors_here = self._pre_proc.behind_parallel or not self._pre_proc.is_mapping
        return not (measures or has_processors_here or self.generator.yields_batches())

    @cached_property
    def _post_source(self) -> BlockSource:
        recipe = Recipe(self.params, self.data.params, self.data.params.post_proc)
        return BlockSource(BlockMaker(None, self._post_proc.mapper), self._post_proc, recipe)

    def __enter__(self) -> DataPipeline:
        """Keep worker processes from one iterator to the next, until the outermost block is left."""
        self._users += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any) -> None:
        self._users -= 1
        if self._users == 0:
            if self._last_stream is not None:
                self._last_stream.order.close()
                self._last_stream = None
            for name in ("_source", "_post_source"):
                if name in vars(self):  # it was needed
                    getattr(self, name).close()

    @contextmanager
    def _opened(self, iterator: Generator[T, None, None]) -> Iterator[Iterator[T]]:
        with self, closing(iterator):
            yield iterator

    def worker_stats(self) -> WorkerStats | None:
        """What the worker processes of this pipeline have done; None: there are none at the moment."""
        return self._source.stats

    def generate_input_samples(self, auto_repeat: bool | None = None) -> AbstractContextManager[Iterator[Sample]]:
        """Context manager around an iterator over the valid processed samples.

        Args:
            auto_repeat: pass after pass without end, or one pass; None: without end for training only.
        """
        stream = self._stream().samples(Position(), self._repeats(auto_repeat))
        return self._opened(sample for sample, _ in stream)

    def generate_input_batches(
        self, auto_repeat: bool | None = None, few_shapes: bool = False
    ) -> AbstractContextManager[Iterator[Batch]]:
        """Context manager around an iterator over batches.

        Args:
            auto_repeat: pass after pass without end, or one pass; None: without end for training only.
            few_shapes: pad variable dimensions up to the longest length of a bucket, if there are buckets, for what
                compiles each shape anew.
        """
        batches = self._batches(Position(), repeat(self.samples_per_batch), self._repeats(auto_repeat))
        lengths = self.params.bucket_lengths()
        if few_shapes and lengths:
            padding = LengthPadding(self.data, lengths)
            return self._opened(padding.batch(batch) for batch, _ in batches)
        return self._opened(batch for batch, _ in batches)

    def training_batches(
        self, start: Position, num_samples: int, shard: Shard = ALONE
    ) -> AbstractContextManager[Iterator[tuple[Batch, Position]]]:
        """Context manager around an iterator over the `num_batches(num_samples)` batches of one epoch.

        An epoch is a window on the endless stream of samples: the next one starts at the last position of
        this one. With buckets it is a window on the stream of batches, as many as `num_samples` make without
        buckets.

        Args:
            start: where the stream stands, `Position()` at the beginning of a training.
            num_samples: size of the epoch (or what is left of it).
            shard: (rank, n): only the rows of one of n processes that train together, which must divide the batches.

        Returns:
            the batches, or the own rows of them, each with the position behind it.
        """
        if start.pending and not self.params.bucket_boundaries:
            log.warning(
                "without buckets, %d samples that waited in them come only in the next pass", len(start.pending)
            )
        full, rest = divmod(num_samples, self.samples_per_batch)
        sizes: Iterable[int] = repeat(self.samples_per_batch, full)
        if rest and not self.params.batch_drop_remainder:
            sizes = chain(sizes, [rest])
        if shard != ALONE and (arrays := self._arrays()) is not None:
            return self._opened(array_batches(arrays, self._order(), self._batcher, start, sizes, True, shard))
        if shard != ALONE and self._can_read_rows():
            stream = ShardedStream(self._stream().order, self._source, self._rules(self.samples_per_batch), shard)
            return self._opened(stream.batches(start, sizes, self.stack))
        return self._opened((rows_of(batch, shard), behind) for batch, behind in self._batches(start, sizes, True))

    def epoch_size(self, samples_per_epoch: int = -1, scale_epoch_size: float = 1.0) -> int:
        """Number of samples of an epoch.

        Args:
            samples_per_epoch: the answer if positive.
            scale_epoch_size: else this times the number of samples of the generator (after `limit`).

        Raises:
            UsageError: if neither gives a number from 1.
        """
        counted = samples_per_epoch == -1
        size = round(self._pass_size() * scale_epoch_size) if counted else samples_per_epoch
        if size < 1:
            raise UsageError(
                f"an epoch has {size} samples: expected at least 1, change --trainer.samples_per_epoch "
                f"({samples_per_epoch}) or --trainer.scale_epoch_size ({scale_epoch_size}), or the data"
            )
        return size

    def num_batches(self, num_samples: int) -> int:
        """Number of batches of an epoch of so many samples.

        Raises:
            UsageError: if every batch would be dropped.
        """
        full, rest = divmod(num_samples, self.samples_per_batch)
        count = full + (1 if rest and not self.params.batch_drop_remainder else 0)
        if count == 0:
            raise UsageError(
                f"{num_samples} samples give no batch of batch_size {self.samples_per_batch} with "
                f"batch_drop_remainder: make the epoch larger, the batch smaller, or keep the remainder"
            )
        return count

    def process_output(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Run the post-processors on predicted samples, in order.

        Where they run in worker processes, samples are read ahead.
        """
        with self:
            yield from processed_outputs(
                samples, self._post_source, self._post_proc, self._rules(self.params.batch_size), self.seed
            )

    def serves(self, params: DataPipelineParams, generator_params: DataGeneratorParams) -> bool:
        """Whether this pipeline was made of these very params."""
        made_of = self._not_preloaded or self
        return made_of.params is params and made_of.generator_params is generator_params

    def _repeats(self, auto_repeat: bool | None) -> bool:
        return self.mode is PipelineMode.TRAINING if auto_repeat is None else auto_repeat

    @property
    def samples_per_batch(self) -> int:
        """Samples of the generator per batch: `batch_size`, or 1 if the generator yields batches."""
        return 1 if self.generator.yields_batches() else self.params.batch_size

    @property
    def stack(self) -> Callable[[list[Sample]], Batch]:
        """Makes a batch of `samples_per_batch` samples, or fewer."""
        return self._batcher.from_ready_made if self.generator.yields_batches() else self._batcher.batch

    def _pass_size(self) -> int:
        limit = self.params.limit
        try:
            size = len(self.generator)
        except (TypeError, NotImplementedError) as error:
            if limit > 0:
                return limit
            raise UsageError(f"{error}: say how many make an epoch with --trainer.samples_per_epoch") from error
        return min(limit, size) if limit > 0 else size

    def _order(self) -> RawOrder:
        return RawOrder(self.generator, self.params, self.mode, self.seed)

    def _stream(self) -> SampleStream:
        """The stream of this seed; the same one while the pipeline is in use, since it knows where it was left."""
        if self._last_stream is None or self._last_stream.seed != self.seed:
            rules = self._rules(self.samples_per_batch)
            self._last_stream = SampleStream(self._order(), self._source, self._pre_proc, rules)
        return self._last_stream

    def _rules(self, block_size: int) -> StreamRules:
        failures = FailurePolicy(self.params.allowed_failures(), self.dropped)
        return StreamRules(self.mode, block_size, self.accepts, self.dropped, failures)

    def accepts(self, sample: Sample) -> bool:
        """Whether a processed sample comes into a batch; counts it as dropped if not."""
        lacks_inputs = sample.inputs is None and self._batcher.needs_inputs
        if lacks_inputs or (sample.targets is None and self._batcher.needs_targets):
            self.dropped.invalid += 1
            return False
        longest = self.params.max_element_length
        if longest is not None and self.data.element_length_fn(sample) > longest:
            self.dropped.too_long += 1
            return False
        return True

    def _buckets(self) -> LengthBuckets | None:
        params = self.params
        if not params.bucket_boundaries:
            return None
        if self.generator.yields_batches():
            raise UsageError(
                f"bucket_boundaries is {params.bucket_boundaries}, but {type(self.generator).__name__} yields batches: "
                "buckets need single samples"
            )
        sizes = params.bucket_batch_sizes or [params.batch_size] * (len(params.bucket_boundaries) + 1)
        length = self.data.element_length_fn
        return LengthBuckets(params.bucket_boundaries, sizes, length, params.batch_drop_remainder)

    def _batches(
        self, start: Position, sizes: Iterable[int], repeats: bool
    ) -> Generator[tuple[Batch, Position], None, None]:
        smallest = self.samples_per_batch if self.params.batch_drop_remainder else 1
        batches: Iterator[tuple[Batch, Position]]
        if (arrays := self._arrays()) is not None:
            batches = array_batches(arrays, self._order(), self._batcher, start, sizes, repeats)
        elif (buckets := self._buckets()) is not None:
            stream = self._stream()
            groups = buckets.groups(stream.samples(start, repeats), stream.number, start, stream.recall(start))
            for _, (group, position) in zip(sizes, groups, strict=False):
                yield self._batcher.batch(group), position
            return
        else:
            batches = self._stream().batches(start, sizes, repeats, self.stack)
        for batch, position in batches:
            if batch.size < smallest:
                return
            yield batch, position

    def _can_read_rows(self) -> bool:
        """Whether the rows of a process can be made without the other ones of their batches."""
        specs = [*self.data.input_layer_specs().values(), *self.data.target_layer_specs().values()]
        # Variable dimensions are padded to the longest sample of the whole batch.
        has_one_shape = not any(None in spec.shape for spec in specs)
        special = self.params.bucket_boundaries or self.generator.yields_batches()
        return has_one_shape and self._pre_proc.is_mapping and not special

    def _arrays(self) -> BatchAccess | None:
        """The generator if whole batches can be cut from it: nothing looks at single samples."""
        generator = self.generator
        measures = self.params.max_element_length is not None or self.params.bucket_boundaries
        if self._pre_proc.processors or measures or generator.yields_batches():
            return None
        return generator if isinstance(generator, BatchAccess) else None
