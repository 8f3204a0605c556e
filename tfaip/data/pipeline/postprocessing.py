"""Post-processing: processors on the predictions of the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, islice

from tfaip.data.pipeline.blocks import Block, Segment
from tfaip.data.pipeline.definitions import FailedSample, Sample, SampleSpecs
from tfaip.data.pipeline.executor import BlockExecutor
from tfaip.data.pipeline.failures import DropCounts, FailurePolicy
from tfaip.data.pipeline.params import DataPipelineParams
from tfaip.data.pipeline.processor.params import DataProcessorPipelineParams
from tfaip.data.pipeline.workers.spec import WorkerSpec


class PostProcessor:
    """Runs the post-processors of a pipeline; `close` ends its workers.

    Args:
        params: of the pipeline.
        data: has the params that the processors get.
        seed: of the data.
        drops: counts samples that failed.
        post_proc: the processors.
    """

    def __init__(
        self,
        params: DataPipelineParams,
        data: SampleSpecs,
        seed: int,
        drops: DropCounts,
        post_proc: DataProcessorPipelineParams,
    ) -> None:
        self._params = params
        self._seed = seed
        self._drops = drops
        self._processors = post_proc.create(params, data.params)
        self._executor = BlockExecutor(self._processors, WorkerSpec(params, data.params, post_proc, seed))

    def process(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Process samples in order; invalid ones are left out."""
        failures = FailurePolicy(self._params.allowed_failures(), self._drops)

        return self._processors.stream(self._mapped(samples, failures), self._seed, 0, on_failure=failures.handle)

    def close(self) -> None:
        """End the workers."""
        self._executor.close()

    def _mapped(self, samples: Iterable[Sample], failures: FailurePolicy) -> Iterator[Sample]:
        blocks = _blocks(samples, self._params.batch_size)
        for result in self._executor.execute(blocks, as_batches=False):
            for _, outcomes in result.segments():
                for outcome in outcomes:
                    if isinstance(outcome, FailedSample):
                        failures.handle(outcome)
                    elif outcome.is_valid():
                        yield outcome


def _blocks(samples: Iterable[Sample], size: int) -> Iterator[Block]:
    iterator = iter(samples)
    for first in count(step=size):
        items = list(islice(iterator, size))
        if not items:
            return
        yield Block([Segment(0, first, items)])
