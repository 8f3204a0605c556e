"""Pipelines of samples and of lists of samples: modes, lengths, what is dropped, classes of users."""

from collections.abc import Iterable
from itertools import count, islice
from typing import Any

import numpy as np
import pytest

from test.data.support import (
    Drop,
    IterableRowsParams,
    NoiseParams,
    Pair,
    RowData,
    batch_ids,
    epoch,
    make_pipeline,
    row,
    rows,
    sample_ids,
)
from tfaip import Generator, PipelineMode, Sample
from tfaip.data.databaseparams import DataGeneratorParams, DataPipelineParams
from tfaip.data.pipeline.datagenerator import DataGenerator, RawDataGeneratorParams
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.data.pipeline.sampler import Position
from tfaip.errors import UsageError


def test_training_repeats_unless_told_otherwise() -> None:
    pipeline = make_pipeline(rows(5), batch_size=2)
    endless = sample_ids(pipeline, 20)
    assert [sorted(endless[begin : begin + 5]) for begin in range(0, 20, 5)] == [[0, 1, 2, 3, 4]] * 4
    assert [len(batch) for batch in batch_ids(pipeline, 7)] == [2] * 7
    assert sample_ids(pipeline, auto_repeat=False) == endless[:5]
    assert [len(batch) for batch in batch_ids(pipeline, auto_repeat=False)] == [2, 2, 1]


def test_incomplete_samples_are_dropped_and_counted() -> None:
    samples = [row(0), Sample(inputs={"x": [1.0]}, meta={"id": 1}), Sample(targets={"y": [2]}, meta={"id": 2})]
    for mode, ids in {"training": [0], "evaluation": [0], "prediction": [0, 1], "targets": [0, 2]}.items():
        pipeline = make_pipeline(samples, mode=mode)
        assert sorted(sample_ids(pipeline, auto_repeat=False)) == ids
        assert pipeline.dropped.invalid == 3 - len(ids)


def test_longer_samples_are_dropped_and_counted() -> None:
    # The rows 0 .. 5 have the lengths 1 2 3 1 2 3.
    pipeline = make_pipeline(rows(6), mode="evaluation", max_element_length=2)
    assert sample_ids(pipeline) == [0, 1, 3, 4]
    assert (pipeline.dropped.too_long, pipeline.dropped.invalid) == (2, 0)
    # It is measured after the processors: the pairs (0, 1) (2, 3) (4, 5) have the lengths 3 4 5.
    assert sample_ids(make_pipeline(rows(6), [Pair()], mode="evaluation", max_element_length=4)) == [0, 2]


class OwnPipeline(DataPipeline):
    """A user's class with a constructor and an attribute of its own."""

    def __init__(self, data: Any, generator_params: DataGeneratorParams, label: str) -> None:
        super().__init__(DataPipelineParams(), data, generator_params)
        self.label = label


class OwnData(RowData):
    def create_pipeline(self, pipeline_params: Any, generator_params: DataGeneratorParams) -> DataPipeline:
        return OwnPipeline(self, generator_params, "mine")


def test_a_pipeline_class_of_a_user_stays() -> None:
    pipeline = OwnData().create().get_or_create_pipeline(DataPipelineParams(), RawDataGeneratorParams(samples=rows(4)))
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

    def __init__(self, *args: Any, input_processors: Any, output_processors: Any):
        super().__init__(*args, input_processors=input_processors, output_processors=output_processors)
        self._output_processors.run_parallel = False


def test_processors_of_a_pipeline_replace_those_of_the_data() -> None:
    all_, odd, thirds = [SequentialProcessorPipelineParams(processors=[Drop(every=every)]) for every in (1, 2, 3)]
    data = RowData(pre_proc=all_).create()
    params = DataPipelineParams(mode=PipelineMode.EVALUATION, batch_size=2, num_processes=0)
    source = RawDataGeneratorParams(rows(8))
    pipeline = OwnProcessors(params, data, source, input_processors=odd, output_processors=thirds)
    for made in (pipeline, pipeline.as_preloaded(), pipeline.with_seed(3), pipeline.to_mode(PipelineMode.TARGETS)):
        assert batch_ids(made) == [[1, 3], [5, 7]]
        assert [sample.meta["id"] for sample in made.process_output(rows(6))] == [1, 2, 4, 5]
    assert (thirds.run_parallel, data.params.post_proc.run_parallel) == (False, True)


UNKNOWN = IterableRowsParams(length_is_known=False)


def test_a_length_that_is_not_known(subtests: pytest.Subtests) -> None:
    for source, processors, repeat, reason in [
        (rows(5), [], True, "of these samples or batches is not known"),
        (rows(5), [Pair()], False, "of these samples or batches is not known"),
        (UNKNOWN, [], False, "of IterableRows is not known"),
    ]:
        with (
            subtests.test(source=source),
            make_pipeline(source, processors).generate_input_samples(auto_repeat=repeat) as samples,
        ):
            with pytest.raises(TypeError, match=reason):
                len(samples)  # type: ignore[arg-type]
            assert list(islice(samples, 2))


@pytest.mark.parametrize(
    ("source", "limit", "arguments", "expected"),
    [
        (rows(10), -1, (), 10),
        (rows(100), -1, (-1, 0.29), 29),
        (rows(10), -1, (7,), 7),
        (UNKNOWN, -1, (50,), 50),
        (UNKNOWN, -1, (), "IterableRows is not known: .*samples_per_epoch"),
        ([], -1, (), "an epoch has 0 samples"),
        (rows(3), -1, (-1, 0.1), r"an epoch has 0 samples: .*scale_epoch_size \(0.1\)"),
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
        assert len(epoch(pipeline, num_samples=num_samples)) == pipeline.num_batches(num_samples)
    if drop:
        with pytest.raises(UsageError, match="3 samples give no batch of batch_size 4 with batch_drop_remainder"):
            pipeline.num_batches(3)


class OnlyLength(DataGenerator[DataGeneratorParams]):
    def __len__(self) -> int:
        return 3


class WithAccess(OnlyLength):
    def __getitem__(self, index: int) -> Sample:
        return row(index)


def test_what_a_generator_overrides_decides_what_it_can() -> None:
    mode, params = PipelineMode.EVALUATION, DataGeneratorParams()
    for generator in (WithAccess(mode, params), RawDataGeneratorParams(samples=tuple(rows(3))).create(mode)):
        assert generator.has_random_access()
        assert (len(generator), generator[1].meta) == (3, {"id": 1})  # type: ignore[index]
        assert [sample.meta["id"] for sample in generator.generate()] == [0, 1, 2]
    endless = RawDataGeneratorParams(samples=map(row, count())).create(mode)
    assert (endless.has_random_access(), bool(endless)) == (False, True)
    assert [sample.meta["id"] for sample in islice(endless.generate(), 3)] == [0, 1, 2]
    assert not OnlyLength(mode, params).has_random_access()
    with pytest.raises(NotImplementedError, match="override generate .* in OnlyLength"):
        OnlyLength(mode, params).generate()


class ReadyBatches(Generator):
    """Batches of 1, 2 and 3 samples."""

    def yields_batches(self) -> bool:
        return True

    def __len__(self) -> int:
        return 3

    def generate(self) -> Iterable[Sample]:
        for size in (1, 2, 3):
            values = np.full([size, size], size)
            yield Sample(inputs={"x": values}, targets={"y": values[:, :1]}, meta=[{"id": size}] * size)


def test_ready_made_batches_stay_as_they_are() -> None:
    pipeline = make_pipeline(ReadyBatches(), batch_size=2, shuffle_buffer_size=0, batch_drop_remainder=True)
    assert (pipeline.epoch_size(), pipeline.num_batches(5)) == (3, 5)
    with pipeline.training_batches(Position(), 5) as batches:
        made = [(batch.size, batch.inputs["x"].shape, position) for batch, position in batches]
    assert [size for size, _, _ in made] == [1, 2, 3, 1, 2]
    assert made[2][1:] == ((3, 3), Position(0, 3, 3))
    assert make_pipeline(ReadyBatches(), limit=2).epoch_size() == 2


SIZES = (1, 3, 2)


class Lists(Generator):
    """Batches of 1, 3 and 2 rows as lists, with and without random access."""

    has_access: bool = False
    of_batches: bool = True
    shuffle = False

    def yields_batches(self) -> bool:
        return self.of_batches

    def has_random_access(self) -> bool:
        return self.has_access

    def __len__(self) -> int:
        return len(SIZES)

    def generate(self) -> Iterable[Any]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Any:
        return rows(6)[sum(SIZES[:index]) :][: SIZES[index]]


BOTH = pytest.mark.parametrize("source", [Lists(), Lists(has_access=True)], ids=["iterated", "random access"])


@BOTH
def test_lists_are_padded_and_stacked(source: Lists) -> None:
    pipeline = make_pipeline(source, mode="evaluation", batch_size=2, num_processes=0)
    assert (pipeline.epoch_size(), pipeline.num_batches(3)) == (3, 3)
    for made in (pipeline, pipeline.as_preloaded()):
        with made.generate_input_batches() as batches:
            inputs = [batch.inputs["x"].tolist() for batch in batches]
        assert inputs == [[[0]], [[1, 1, -1], [2, 2, 2], [3, -1, -1]], [[4, 4, -1], [5, 5, 5]]]
    # Rows 0, 3 go; the first list is empty then.
    pipeline = make_pipeline(source, [Drop(every=3)], mode="evaluation", max_element_length=2)
    assert batch_ids(pipeline) == [[1], [4]]
    assert (pipeline.dropped.invalid, pipeline.dropped.too_long) == (2, 2)
    assert sample_ids(pipeline) == [1, 4]


def test_random_numbers_of_lists_are_those_of_their_place() -> None:
    def batches(workers: int, start: Position = Position(), size: int = 5) -> list[Any]:  # noqa: B008
        return epoch(make_pipeline(Lists(), [NoiseParams()], seed=2, num_processes=workers), start, size)

    inline = batches(0)
    assert len({str(content) for content, _ in inline}) == 5
    assert batches(0, inline[1][1], 3) == inline[2:]
    assert batches(1) == inline


@BOTH
def test_lists_that_cannot_be_batches(source: Lists) -> None:
    with pytest.raises(TypeError, match="expected a Sample\n"):
        batch_ids(make_pipeline(Lists(has_access=source.has_access, of_batches=False)), 1)
    with pytest.raises(TypeError, match="generating processors cannot"):
        batch_ids(make_pipeline(source, [Pair()], mode="evaluation"), 1)
    with pytest.raises(ValueError, match="high") as info:  # no random number is below 0
        batch_ids(make_pipeline(source, [NoiseParams(high=0)]), 1)
    assert info.value.__notes__[0].startswith("in Noise.apply, sample 0 of batch 0 of its pass: Sample(inputs=")
