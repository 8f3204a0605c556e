from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, islice
from typing import Any

import numpy as np
import pytest

from test.data.support import (
    DropParams,
    IterableRowsParams,
    PairParams,
    RowData,
    RowDataParams,
    make_pipeline,
    row,
    rows,
)
from tfaip.data.databaseparams import DataGeneratorParams, DataPipelineParams
from tfaip.data.pipeline.datagenerator import Generator, RawDataGeneratorParams
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.data.pipeline.sampler import Position
from tfaip.errors import UsageError

MODES_OF_ONE_PASS = [mode for mode in PipelineMode if mode is not PipelineMode.TRAINING]


def sample_ids(pipeline: DataPipeline, number: int | None = None, **kwargs: Any) -> list[int]:
    with pipeline.generate_input_samples(**kwargs) as samples:
        return [sample.meta["id"] for sample in islice(samples, number)]


def batch_ids(pipeline: DataPipeline, number: int | None = None, **kwargs: Any) -> list[list[int]]:
    with pipeline.generate_input_batches(**kwargs) as batches:
        return [[meta["id"] for meta in batch.meta] for batch in islice(batches, number)]


def test_training_repeats_unless_told_otherwise() -> None:
    pipeline = make_pipeline(rows(5), batch_size=2)
    endless = sample_ids(pipeline, 20)
    assert [sorted(endless[begin : begin + 5]) for begin in range(0, 20, 5)] == [[0, 1, 2, 3, 4]] * 4
    assert [len(batch) for batch in batch_ids(pipeline, 7)] == [2] * 7
    assert sample_ids(pipeline, auto_repeat=False) == endless[:5]
    assert [len(batch) for batch in batch_ids(pipeline, auto_repeat=False)] == [2, 2, 1]


def test_incomplete_samples_are_dropped_and_counted() -> None:
    samples = [row(0), Sample(inputs={"x": [1.0]}, meta={"id": 1}), Sample(targets={"y": [2]}, meta={"id": 2})]
    expected = {
        PipelineMode.TRAINING: [0],
        PipelineMode.EVALUATION: [0],
        PipelineMode.PREDICTION: [0, 1],
        PipelineMode.TARGETS: [0, 2],
    }
    for mode, ids in expected.items():
        pipeline = make_pipeline(samples, mode=mode)
        assert sorted(sample_ids(pipeline, auto_repeat=False)) == ids
        assert pipeline.dropped.invalid == 3 - len(ids)


def test_longer_samples_are_dropped_and_counted() -> None:
    # The rows 0 .. 5 have the lengths 1 2 3 1 2 3.
    pipeline = make_pipeline(rows(6), mode=PipelineMode.EVALUATION, max_element_length=2)
    assert sample_ids(pipeline) == [0, 1, 3, 4]
    assert (pipeline.dropped.too_long, pipeline.dropped.invalid) == (2, 0)
    # It is measured after the processors: the pairs (0, 1) (2, 3) (4, 5) have the lengths 3 4 5.
    pipeline = make_pipeline(rows(6), [PairParams()], mode=PipelineMode.EVALUATION, max_element_length=4)
    assert sample_ids(pipeline) == [0, 2]


def test_another_seed_is_another_pipeline() -> None:
    first = make_pipeline(rows(30), [DropParams(every=2)], seed=1)
    ids = sample_ids(first, auto_repeat=False)
    second = first.with_seed(2)
    assert (first.seed, second.seed, second.mode, second.data) == (1, 2, first.mode, first.data)
    assert (first.dropped.invalid, second.dropped.invalid) == (15, 0)
    assert sample_ids(second, auto_repeat=False) != ids
    assert sample_ids(second.with_seed(1), auto_repeat=False) == ids == sample_ids(first, auto_repeat=False)


class OwnPipeline(DataPipeline):
    """A user's class with a constructor and an attribute of its own."""

    def __init__(self, data: Any, generator_params: DataGeneratorParams, label: str) -> None:
        super().__init__(DataPipelineParams(), data, generator_params)
        self.label = label


class OwnData(RowData):
    def create_pipeline(self, pipeline_params: Any, generator_params: DataGeneratorParams) -> DataPipeline:
        return OwnPipeline(self, generator_params, "mine")


def test_a_pipeline_class_of_a_user_stays() -> None:
    data, params, generator = OwnData(RowDataParams()), DataPipelineParams(), RawDataGeneratorParams(samples=rows(4))
    pipeline = data.get_or_create_pipeline(params, generator)
    assert pipeline.generator is pipeline.generator
    batch_ids(pipeline, 1)
    with pytest.raises(AttributeError, match="^seed of a pipeline cannot be set once it was used: see with_params, w"):
        pipeline.seed = 3
    for other in (
        pipeline.to_mode(PipelineMode.EVALUATION),
        pipeline.with_seed(3),
        pipeline.with_params(DataPipelineParams(batch_size=2)),
        pipeline.as_preloaded(),
        pipeline.as_preloaded().with_seed(3).to_mode(PipelineMode.EVALUATION),
    ):
        assert isinstance(other, OwnPipeline)
        assert other.label == "mine"
        assert other.generator is not pipeline.generator


class OwnProcessors(DataPipeline):
    """As scenarios of tfaip 1.2 have it."""

    def __init__(self, params: Any, data: Any, generator_params: Any, input_processors: Any, output_processors: Any):
        super().__init__(
            params, data, generator_params, input_processors=input_processors, output_processors=output_processors
        )
        self._output_processors.run_parallel = False


def test_processors_of_a_pipeline_replace_those_of_the_data() -> None:
    data = RowData(RowDataParams(pre_proc=SequentialProcessorPipelineParams(processors=[DropParams(every=1)])))
    odd = SequentialProcessorPipelineParams(processors=[DropParams(every=2)])
    thirds = SequentialProcessorPipelineParams(processors=[DropParams(every=3)])
    params = DataPipelineParams(mode=PipelineMode.EVALUATION, batch_size=2, num_processes=0)
    pipeline = OwnProcessors(params, data, RawDataGeneratorParams(rows(8)), odd, thirds)
    for made in (pipeline, pipeline.as_preloaded(), pipeline.with_seed(3), pipeline.to_mode(PipelineMode.TARGETS)):
        assert batch_ids(made) == [[1, 3], [5, 7]]
        assert [sample.meta["id"] for sample in made.process_output(rows(6))] == [1, 2, 4, 5]
    assert (thirds.run_parallel, data.params.post_proc.run_parallel) == (False, True)


def test_a_length_that_is_not_known(subtests: pytest.Subtests) -> None:
    for source, processors, repeat, reason in [
        (rows(5), [], True, "have no end"),
        (rows(5), [PairParams()], False, "not known before they are made"),
        (IterableRowsParams(length_is_known=False), [], False, "of IterableRows is not known"),
    ]:
        with (
            subtests.test(source=source),
            make_pipeline(source, processors).generate_input_samples(auto_repeat=repeat) as samples,
        ):
            with pytest.raises(TypeError, match=reason):
                len(samples)  # type: ignore[arg-type]
            assert list(islice(samples, 2))


UNKNOWN = IterableRowsParams(length_is_known=False)


@pytest.mark.parametrize(
    ("source", "limit", "arguments", "expected"),
    [
        (rows(10), -1, (), 10),
        (rows(10), 4, (), 4),
        (rows(10), -1, (-1, 2.5), 25),
        (rows(100), -1, (-1, 0.29), 29),
        (rows(10), -1, (7,), 7),
        (UNKNOWN, -1, (50,), 50),
        (UNKNOWN, 4, (), 4),
        (UNKNOWN, -1, (), "IterableRows is not known: .*samples_per_epoch"),
        ([], -1, (), "an epoch has 0 samples"),
        (rows(3), -1, (-1, 0.1), r"an epoch has 0 samples: .*scale_epoch_size \(0.1\)"),
        (rows(3), -1, (-2,), r"an epoch has -2 samples: .*samples_per_epoch \(-2\)"),
    ],
)
def test_epoch_size(source: Any, limit: int, arguments: tuple[Any, ...], expected: int | str) -> None:
    pipeline = make_pipeline(source, limit=limit)
    if isinstance(expected, int):
        assert pipeline.epoch_size(*arguments) == expected
        return
    with pytest.raises(UsageError, match=expected):
        pipeline.epoch_size(*arguments)


@pytest.mark.parametrize("drop", [False, True])
def test_num_batches_is_what_training_batches_gives(drop: bool) -> None:
    pipeline = make_pipeline(rows(5), batch_size=4, batch_drop_remainder=drop)
    for num_samples in (4, 10, 12):
        with pipeline.training_batches(Position(), num_samples) as batches:
            assert len(list(batches)) == pipeline.num_batches(num_samples)
    if drop:
        with pytest.raises(UsageError, match="3 samples give no batch of batch_size 4 with batch_drop_remainder"):
            pipeline.num_batches(3)


def test_leaving_the_context_closes_the_generator() -> None:
    closed = []

    def stream() -> Iterator[Sample]:
        try:
            yield from map(row, count())
        finally:
            closed.append(True)

    pipeline = make_pipeline(RawDataGeneratorParams(samples=stream()), batch_size=2)
    with pipeline.generate_input_batches() as batches:
        next(batches)
        assert not closed
    del pipeline, batches
    assert closed


class ReadyBatches(Generator):
    """Batches of 1, 2 and 3 samples."""

    def yields_batches(self) -> bool:
        return True

    def __len__(self) -> int:
        return 3

    def generate(self) -> Iterable[Sample]:
        for size in (1, 2, 3):
            values = np.full([size, size], size)
            meta = [{"id": size}] * size
            yield Sample(inputs={"x": values}, targets={"y": values[:, :1]}, meta=meta)


def test_ready_made_batches_stay_as_they_are() -> None:
    pipeline = make_pipeline(ReadyBatches(), batch_size=2, shuffle_buffer_size=0, batch_drop_remainder=True)
    assert (pipeline.epoch_size(), pipeline.num_batches(5)) == (3, 5)
    with pipeline.training_batches(Position(), 5) as batches:
        made = [(batch.size, batch.inputs["x"].shape, position) for batch, position in batches]
    assert [size for size, _, _ in made] == [1, 2, 3, 1, 2]
    assert made[2][1:] == ((3, 3), Position(0, 3, 3))
    assert make_pipeline(ReadyBatches(), limit=2).epoch_size() == 2
