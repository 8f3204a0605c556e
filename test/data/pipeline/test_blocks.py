"""Blocks: how raw samples are cut into them, and what is made of one."""

from __future__ import annotations

from itertools import islice, repeat
from typing import Any

import numpy as np
import pytest

from test.data.pipeline.workers.faults import FaultParams, FilesParams
from test.data.support import DropParams, IterableRowsParams, PairParams, RowDataParams, make_pipeline, rows
from tfaip.data.databaseparams import DataGeneratorParams, DataPipelineParams
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.blocks import Block, BlockProcessor, BlockResult, Segment
from tfaip.data.pipeline.datagenerator import RawDataGeneratorParams
from tfaip.data.pipeline.definitions import FailedSample, PipelineMode, Sample
from tfaip.data.pipeline.processor.params import ComposedProcessorPipelineParams, SequentialProcessorPipelineParams
from tfaip.data.pipeline.sampler import SPARE_SIZE, Sampler

LIST = RawDataGeneratorParams(samples=rows(5))
ITERABLE = IterableRowsParams(count=5)


def cut(source: DataGeneratorParams, start: tuple[int, int], sizes: Any, repeats: bool, number: int = 9) -> list[Any]:
    """(spare, [(pass, first, ids)]) of the first blocks, in the order of the data."""
    mode = PipelineMode.EVALUATION
    sampler = Sampler(source.create(mode), DataPipelineParams(mode=mode), seed=0)
    blocks = islice(sampler.blocks(*start, sizes, repeats), number)
    return [
        (b.is_spare, [(r.pass_index, r.first, [_id(item) for item in r.items]) for r in b.segments]) for b in blocks
    ]


def _id(item: int | Sample) -> int:
    return item if isinstance(item, int) else item.meta["id"]


@pytest.mark.parametrize("source", [LIST, ITERABLE], ids=["random access", "iterable"])
def test_blocks_of_an_endless_stream_reach_into_the_next_pass(source: DataGeneratorParams) -> None:
    assert cut(source, (2, 3), [4, 1, 5], True, 4) == [
        (False, [(2, 3, [3, 4]), (3, 0, [0, 1])]),
        (False, [(3, 2, [2])]),
        (False, [(3, 3, [3, 4]), (4, 0, [0, 1, 2])]),
        (True, [(4, 3, [3, 4]), (5, 0, [0, 1, 2, 3, 4]), (6, 0, [0, 1, 2, 3, 4]), (7, 0, [0, 1, 2, 3])]),
    ]
    assert SPARE_SIZE == 16


@pytest.mark.parametrize("source", [LIST, ITERABLE], ids=["random access", "iterable"])
def test_blocks_of_one_pass_end_with_it(source: DataGeneratorParams) -> None:
    assert cut(source, (0, 0), repeat(2), False) == [
        (False, [(0, 0, [0, 1])]),
        (False, [(0, 2, [2, 3])]),
        (False, [(0, 4, [4])]),
    ]
    assert cut(source, (0, 0), repeat(5), False) == [(False, [(0, 0, [0, 1, 2, 3, 4])])]
    assert cut(source, (0, 5), repeat(5), False) == []


def test_an_endless_stream_shows_where_a_pass_is_empty() -> None:
    assert cut(RawDataGeneratorParams(samples=[]), (0, 0), repeat(2), True) == [(False, [(0, 0, [])])]
    assert cut(RawDataGeneratorParams(samples=[]), (0, 0), repeat(2), False) == []
    once = RawDataGeneratorParams(samples=iter(rows(3)))
    assert cut(once, (0, 0), repeat(2), True) == [(False, [(0, 0, [0, 1])]), (False, [(0, 2, [2]), (1, 0, [])])]


def test_samples_fail_alone() -> None:
    processors = SequentialProcessorPipelineParams(processors=[FaultParams(fault="raise", at=2), DropParams(every=3)])
    mapper = processors.create(DataPipelineParams(), RowDataParams()).mapper
    processor = BlockProcessor(FilesParams(corrupt_every=5).create(PipelineMode.TRAINING), mapper, seed=0)
    result = processor.process(Block([Segment(0, 7, [1, 2]), Segment(1, 0, [3, 4, 5])]))
    assert result.outcomes is not None
    first, failed, dropped, fourth, unread = result.outcomes
    assert isinstance(failed, FailedSample)
    assert isinstance(unread, FailedSample)
    assert failed.error.__notes__[0].startswith("in Fault.apply, sample 8 of its pass")
    assert unread.error.__notes__ == ["while Files read sample 5"]
    assert [sample.is_valid() for sample in (first, dropped, fourth)] == [True, False, True]  # type: ignore[union-attr]
    assert [(run.first, len(outcomes)) for run, outcomes in result.segments()] == [(7, 2), (0, 3)]


def test_a_batch_is_cut_into_the_samples_that_it_was_made_of() -> None:
    batch = Batch({"x": np.array([[1, -1], [2, 3]])}, {"y": np.array([[5], [6]])}, [{"id": 0}, None])
    result = BlockResult(Block([Segment(0, 3, [0]), Segment(1, 0, [1])]), None, batch, ({"x": [(1,), (2,)]}, {}))
    made = [
        (run.first, [(s.inputs["x"].tolist(), s.targets["y"].tolist(), s.meta) for s in outcomes])
        for run, outcomes in result.segments()
    ]
    assert made == [(3, [([1], [5], {"id": 0})]), (0, [([2, 3], [6], None)])]


def test_a_block_is_stacked_only_if_all_of_it_is_good() -> None:
    pipeline = make_pipeline(rows(6), [])
    processor = BlockProcessor(pipeline.generator, pipeline.reader.processors.mapper, 0, pipeline.reader.batcher)
    stacked = processor.process(Block([Segment(0, 0, [1, 2])]), as_batch=True)
    assert stacked.outcomes is None
    assert stacked.batch is not None
    assert stacked.batch.inputs["x"].tolist() == [[1, 1, -1], [2, 2, 2]]
    assert stacked.shapes == ({"x": [(2,), (3,)]}, {})
    incomplete = RawDataGeneratorParams(samples=[rows(1)[0], Sample(inputs={"x": [1.0]})]).create(PipelineMode.TRAINING)
    processor = BlockProcessor(incomplete, pipeline.reader.processors.mapper, 0, pipeline.reader.batcher)
    assert processor.process(Block([Segment(0, 0, [0, 1])]), as_batch=True).batch is None
    assert processor.process(Block([Segment(0, 0, [0])]), as_batch=False).batch is None


def test_samples_fail_alone_behind_a_generating_processor_too() -> None:
    processors = [PairParams(), FaultParams(fault="raise", at=4)]
    pipeline = make_pipeline(rows(8), processors, mode=PipelineMode.EVALUATION, on_error="skip:1")
    with pipeline.generate_input_samples() as samples:
        assert [sample.meta["id"] for sample in samples] == [0, 2, 6]
    assert pipeline.dropped.failed == 1


def test_what_processors_ask_of_the_workers() -> None:
    def parts(*settings: tuple[int, int]) -> ComposedProcessorPipelineParams:
        return ComposedProcessorPipelineParams(
            pipelines=[SequentialProcessorPipelineParams(num_threads=n, max_tasks_per_process=m) for n, m in settings]
        )

    assert parts((-1, -1), (-1, -1)).worker_limit(4) == 4
    assert parts((-1, 7), (3, -1), (2, 5)).worker_limit(4) == 3
    assert parts((-1, 7), (3, -1), (2, 5)).tasks_per_worker() == 5
    assert parts((-1, -1)).tasks_per_worker() is None
    for name in ("num_threads", "max_tasks_per_process"):
        with pytest.raises(ValueError, match=f"{name} is 0, expected .* 1.*, or -1 for"):
            SequentialProcessorPipelineParams(**{name: 0})
