"""The same bytes and positions with any number of workers, any transport, and wherever a training goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from test.data.pipeline.workers.faults import FaultParams, FilesParams, OnlyHereParams
from test.data.support import (
    DropParams,
    IterableRowsParams,
    NoiseParams,
    PairParams,
    RepeatParams,
    RowData,
    RowDataParams,
    epoch,
    make_pipeline,
    row,
    rows,
)
from test.support.leaks import child_processes
from tfaip.data.databaseparams import DataPipelineParams
from tfaip.data.pipeline.datagenerator import RawDataGeneratorParams
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams
from tfaip.data.pipeline.processor.params import ComposedProcessorPipelineParams, SequentialProcessorPipelineParams
from tfaip.data.pipeline.sampler import Position

BATCH, SAMPLES = 7, 100


def composed(processors: list[DataProcessorParams], split: int, **pipeline: Any) -> DataPipeline:
    """A pipeline over 45 rows in which the processors from number `split` on must run in the training process."""
    parts = [
        SequentialProcessorPipelineParams(processors=processors[:split]),
        SequentialProcessorPipelineParams(processors=processors[split:], run_parallel=False),
    ]
    data = RowData(RowDataParams(pre_proc=ComposedProcessorPipelineParams(pipelines=parts)))
    return data.create_pipeline(DataPipelineParams(batch_size=BATCH, **pipeline), RawDataGeneratorParams(rows(45)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processors", "source"),
    [
        ([NoiseParams()], rows(45)),
        ([NoiseParams(), DropParams()], IterableRowsParams(count=45)),
        ([DropParams(), NoiseParams(), RepeatParams(), NoiseParams(), PairParams()], rows(45)),
    ],
    ids=["mapping", "dropping", "generating"],
)
def test_any_number_of_workers_gives_the_same_bytes(processors: list[DataProcessorParams], source: Any) -> None:
    def make(processes: int, **params: Any) -> DataPipeline:
        return make_pipeline(source, processors, seed=5, num_processes=processes, batch_size=BATCH, **params)

    inline = epoch(make(0), num_samples=SAMPLES)
    assert len(inline) == 15
    assert epoch(make(1, use_shared_memory=False), num_samples=SAMPLES) == inline
    assert epoch(make(3, prefetch=2), num_samples=SAMPLES) == inline
    with make(2) as pipeline:
        assert epoch(pipeline, num_samples=SAMPLES) == inline
        # An epoch that was left early is forgotten, and the workers go on to where a training resumes.
        with pipeline.training_batches(Position(), SAMPLES) as batches:
            next(batches)
        for stop in (0, 3, 13):
            position = Position.from_dict(json.loads(json.dumps(inline[stop][1].to_dict())))
            assert epoch(pipeline, position, SAMPLES - (stop + 1) * BATCH) == inline[stop + 1 :]
        assert epoch(pipeline, inline[-1][1], SAMPLES) != inline
        assert len(child_processes()) == 2


def test_processors_that_must_run_here_do_so_with_the_same_numbers() -> None:
    processors = [NoiseParams(), NoiseParams(high=7), DropParams()]
    inline = epoch(composed(processors, 3, num_processes=0), num_samples=SAMPLES)
    assert epoch(composed(processors, 1, num_processes=1), num_samples=SAMPLES) == inline
    assert epoch(composed(processors, 0, num_processes=1), num_samples=SAMPLES) == inline


def test_samples_are_read_and_processed_in_workers_without_a_backend() -> None:
    with make_pipeline(FilesParams(count=60), [FaultParams(at=-1)], num_processes=2, batch_size=4) as pipeline:
        with pipeline.generate_input_batches(auto_repeat=False) as batches:
            metas = [meta for batch in batches for meta in batch.meta]
        workers = child_processes()
        stats = pipeline.worker_stats()
    assert sorted(meta["id"] for meta in metas) == list(range(60))
    assert {meta["read by"] for meta in metas} == {meta["processed by"] for meta in metas} == workers
    assert all(meta["modules"] == [] for meta in metas)
    # 15 blocks of 4 samples with three float32 and one int32, in messages that are a little larger.
    assert stats is not None
    assert stats.blocks == 15
    assert stats.busy_s > 0
    assert pipeline.worker_stats() is None


@pytest.mark.slow
def test_workers_read_even_if_no_processor_runs_in_them() -> None:
    def epoch(processors: list[DataProcessorParams], processes: int) -> list[Any]:
        pre_proc = SequentialProcessorPipelineParams(processors=processors, run_parallel=False)
        params = DataPipelineParams(batch_size=4, num_processes=processes)
        with RowData(RowDataParams(pre_proc=pre_proc)).create_pipeline(params, FilesParams(count=10)) as pipeline:
            with pipeline.training_batches(Position(), 24) as batches:
                made = list(batches)
            meta = [meta for batch, _ in made for meta in batch.meta]
            assert {m["read by"] for m in meta} == (child_processes() or {os.getpid()})
        return [(batch.inputs["x"].tolist(), position) for batch, position in made]

    # A processor that may not run in workers is not even built there.
    for processors in ([], [OnlyHereParams(home=os.getpid())], [RepeatParams()]):
        assert epoch(processors, 2) == epoch(processors, 0)


@pytest.mark.parametrize("prefetch", [1, 3])
def test_no_more_samples_are_read_than_the_blocks_ahead(prefetch: int) -> None:
    read: list[int] = []

    def stream() -> Iterator[Sample]:
        for value in range(5):
            read.append(value)
            yield row(value)

    params: Any = {"num_processes": 1, "prefetch": prefetch, "batch_size": 1, "mode": PipelineMode.EVALUATION}
    pipeline = make_pipeline(RawDataGeneratorParams(stream()), [FaultParams(at=-1)], **params)
    with pipeline.generate_input_batches() as batches:
        next(batches)
        # A stream may wait for the answer to a sample before it gives the next one.
        assert read == list(range(prefetch))
        assert len(list(batches)) == 4


def test_workers_are_replaced_after_their_tasks() -> None:
    pre_proc = SequentialProcessorPipelineParams(
        processors=[FaultParams(at=-1)], max_tasks_per_process=2, num_threads=1
    )
    data = RowData(RowDataParams(pre_proc=pre_proc))
    params = DataPipelineParams(mode=PipelineMode.EVALUATION, batch_size=4, num_processes=3)
    with data.create_pipeline(params, FilesParams(count=20)).generate_input_batches() as batches:
        processed_by = [[meta["processed by"] for meta in batch.meta] for batch in batches]
    assert all(len(set(workers)) == 1 for workers in processed_by)
    first, second, third, fourth, fifth = [workers[0] for workers in processed_by]
    assert first == second != third == fourth != fifth  # five blocks, two for each worker


def test_post_processing_in_workers_is_in_order() -> None:
    def processed(processes: int) -> list[Any]:
        post_proc = SequentialProcessorPipelineParams(processors=[NoiseParams(), DropParams(), PairParams()])
        data = RowData(RowDataParams(post_proc=post_proc))
        params = DataPipelineParams(mode=PipelineMode.PREDICTION, batch_size=4, num_processes=processes)
        pipeline = data.create_pipeline(params, IterableRowsParams()).with_seed(3)
        samples = pipeline.process_output(sample.new_outputs({"o": 1}) for sample in rows(30))
        return [(s.meta, s.outputs, s.inputs["x"].tolist(), s.targets["y"].tolist()) for s in samples]

    assert processed(0) == processed(1)
    assert len(processed(0)) > 5
