"""Post-processing: processors on what the model predicted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, islice

from tfaip.data.pipeline.blocks import Block, FailedSample, Run
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.processor.pipeline import ProcessorPipeline
from tfaip.data.pipeline.source import BlockSource
from tfaip.data.pipeline.stream import StreamRules


def processed_outputs(
    samples: Iterable[Sample], source: BlockSource, processors: ProcessorPipeline, rules: StreamRules, seed: int
) -> Iterator[Sample]:
    """Run post-processors over samples, in order; invalid ones are left out.

    Args:
        samples: what was predicted, read in blocks of `rules.block_size`.
        source: runs the mapping processors.
        processors: the others of them are run here.
        rules: decides about samples that fail.
        seed: of the data.
    """

    def mapped() -> Iterator[Sample]:
        for result in source.results(_blocks(samples, rules.block_size), seed, as_batches=False):
            for run, outcomes in result.runs():
                for number, outcome in enumerate(outcomes, run.first):
                    if isinstance(outcome, FailedSample):
                        rules.failures.handle(outcome, (number,))
                    elif outcome.is_valid():
                        yield outcome

    return processors.stream(
        mapped(), seed, 0, failed=lambda error, place: rules.failures.handle(FailedSample(error), place)
    )


def _blocks(samples: Iterable[Sample], size: int) -> Iterator[Block]:
    iterator = iter(samples)
    for first in count(step=size):
        items = list(islice(iterator, size))
        if not items:
            return
        yield Block([Run(0, first, items)])
