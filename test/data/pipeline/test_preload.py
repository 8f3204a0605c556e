"""Preloaded data: the same batches, with the work of the first processors done once."""

from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from test.data.support import (
    Drop,
    IterableRowsParams,
    Noise,
    NoiseParams,
    Pair,
    Repeat,
    epoch,
    make_pipeline,
    row,
    rows,
)
from tfaip import PipelineMode, Processor, Sample
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.generators.sequence import ArrayDataGenerator
from tfaip.data.pipeline.datagenerator import RawDataGeneratorParams
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.errors import TfaipError, UsageError

CALLS: list[tuple[str, int]] = []


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()


class Add(Processor):
    """Adds one to the inputs and says so; `kind` is what makes it hard to preload."""

    kind: str = "plain"

    def supports_preload(self) -> bool:
        return self.kind not in ("refuses", "writes")

    def apply(self, sample: Sample) -> Sample:
        CALLS.append((self.kind, sample.meta["id"]))
        if self.kind == "fails" and sample.meta["id"] == 2:
            raise OSError("the file is damaged")
        if self.kind == "adds a key":
            sample.inputs["x"] = sample.inputs["x"] + len(sample.inputs)
            sample.inputs["more"] = 1
        if self.kind == "writes":
            sample.inputs["x"] += 1
        return sample.new_inputs({**sample.inputs, "x": sample.inputs["x"] + 1})

    def preload(self, sample: Sample) -> Any:
        if self.kind != "cuts":
            return super().preload(sample)
        return [sample.new_inputs({"x": np.array([value])}) for value in sample.inputs["x"]]


def calls(kind: str = "plain") -> list[int]:
    return [index for name, index in CALLS if name == kind]


def ids_and_first_inputs(pipeline: DataPipeline) -> list[tuple[int, float]]:
    with pipeline.generate_input_samples() as samples:
        return [(sample.meta["id"], sample.inputs["x"][0]) for sample in samples]


@given(
    processors=st.lists(
        st.sampled_from([Add(), Drop(every=4), NoiseParams(), Add(kind="refuses"), Repeat(), Pair()]), max_size=5
    ),
    random_access=st.booleans(),
    limit=st.sampled_from([-1, 9]),
    buckets=st.sampled_from([[], [2, 3]]),
    seed=st.integers(0, 1000),
)
def test_the_batches_are_the_same_bytes(
    processors: list[Any], random_access: bool, limit: int, buckets: list[int], seed: int
) -> None:
    source: Any = rows(12) if random_access else IterableRowsParams(count=12)
    params: Any = {"batch_size": 5, "limit": limit, "shuffle_buffer_size": 4, "bucket_boundaries": buckets}
    plain = make_pipeline(source, processors, seed=seed, **params)
    try:
        expected = epoch(plain)
    except TfaipError:  # a pass without samples
        assume(False)
    assert epoch(plain.as_preloaded()) == expected
    middle = expected[4][1]
    assert epoch(plain.as_preloaded(), middle, 20) == epoch(plain, middle, 20)


@pytest.mark.parametrize("barrier", [Add(kind="refuses"), NoiseParams()])
def test_what_is_equal_in_every_pass_is_done_once(barrier: Any) -> None:
    pipeline = make_pipeline(rows(3), [Add(), barrier, Add(kind="behind")], batch_size=3).as_preloaded()
    draws = isinstance(barrier, NoiseParams)
    begun = [0] if draws else []  # the work began again without the processor that draws random numbers
    assert (calls(), calls("behind")) == ([*begun, 0, 1, 2], [])
    first, second = epoch(pipeline, num_samples=6)
    assert (len(calls()), len(calls("behind"))) == (3 + len(begun), 6)
    assert first[0] != second[0] or not draws


def test_another_mode_begins_with_the_data_as_it_was() -> None:
    pipeline = make_pipeline(rows(3), [Add(modes={PipelineMode.TRAINING})], seed=5).as_preloaded()
    other = pipeline.to_mode(PipelineMode.EVALUATION)
    assert other.seed == 5
    assert pipeline.with_seed(7).to_mode(PipelineMode.EVALUATION).seed == 7
    for one in (other, pipeline.as_preloaded().to_mode(PipelineMode.EVALUATION)):
        assert ids_and_first_inputs(one) == [(0, 0), (1, 1), (2, 2)]


class Rows(ArrayDataGenerator[DataGeneratorParams]):
    def load(self) -> Sample:
        return Sample(inputs={"x": np.zeros([4, 2])}, targets={"y": np.zeros([4, 1], int)}, meta=[{"id": 1}] * 4)


class RowsParams(DataGeneratorParams, cls=":Rows"):
    pass


def test_a_generator_keeps_its_abilities() -> None:
    assert make_pipeline(rows(3)).as_preloaded().generator.has_random_access()
    source = IterableRowsParams(count=7, length_is_known=False)
    iterable = make_pipeline(source, [Add()], limit=100).as_preloaded()
    assert not iterable.generator.has_random_access()
    assert iterable.epoch_size() == 7  # now it is known
    # Arrays stay arrays unless a processor ran.
    for processors, is_same in [([], True), ([NoiseParams()], True), ([Add()], False)]:
        pipeline = make_pipeline(RowsParams(), processors)
        assert (pipeline.as_preloaded() is pipeline) == is_same


def test_data_without_an_end() -> None:
    def endless(**params: Any) -> DataPipeline:
        return make_pipeline(RawDataGeneratorParams(samples=map(row, count())), [Add()], **params)

    with pytest.raises(UsageError, match="of RawDataGenerator is not known: preload_data .* give a limit, or"):
        endless().as_preloaded()
    assert endless(limit=4).as_preloaded().epoch_size() == 4


def test_a_later_processor_cannot_spoil_the_next_pass() -> None:
    with pytest.raises(ValueError, match="read-only"):
        epoch(make_pipeline(rows(3), [Add(), Add(kind="writes")]).as_preloaded())
    adds = [NoiseParams(high=1), Add(kind="adds a key")]
    assert epoch(make_pipeline(rows(3), adds, batch_size=3).as_preloaded()) == epoch(
        make_pipeline(rows(3), adds, batch_size=3)
    )


def test_a_sample_that_fails_is_named_or_skipped(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(OSError, match="damaged") as info:
        make_pipeline(rows(4), [Add(kind="fails")]).as_preloaded()
    assert info.value.__notes__[0].startswith("in Add.preload, sample 2 of the data: Sample(inputs={x: float64[3]}")
    params: Any = {"batch_size": 3, "on_error": "skip:1", "num_processes": 0}
    # The noise, which draws when sample 0 comes, makes the work begin again: nothing is counted or logged twice.
    plain = make_pipeline(rows(4), [Add(kind="fails"), NoiseParams()], **params)
    preloaded = plain.as_preloaded()
    ((content, _),), ((expected, _),) = epoch(preloaded, num_samples=3), epoch(plain, num_samples=3)
    assert content == expected
    assert (preloaded.dropped.invalid, plain.dropped.failed) == (1, 1)
    assert caplog.text.count("left out a sample, number 1 of its pass: OSError: the file is damaged") == 2


def test_a_processor_may_keep_several_samples_of_one() -> None:
    # Rows 0 to 3 have 1, 2, 3, 1 values.
    pipeline = make_pipeline(rows(4), [Add(kind="cuts"), Add()], mode="evaluation").as_preloaded()
    assert (pipeline.epoch_size(), len(calls())) == (7, 7)
    assert ids_and_first_inputs(pipeline) == [(0, 1), *[(1, 2)] * 2, *[(2, 3)] * 3, (3, 4)]


def test_samples_in_memory_as_a_list() -> None:
    pipeline = make_pipeline(rows(4), [Drop(every=2), Add(), NoiseParams()])
    assert [(s.meta["id"], s.inputs["x"][0]) for s in pipeline.preload_input_samples()] == [(1, 2.0), (3, 4.0)]
    with pytest.raises(TypeError, match=r"Own\.preload_input_samples would never be called: override as_preloaded"):
        type("Own", (DataPipeline,), {"preload_input_samples": lambda self: []})


class TwiceApplied(NoiseParams, cls=":AppliesTwice"):
    pass


class AppliesTwice(Noise):
    def apply_on_sample(self, sample: Sample) -> Sample:
        return sample.new_inputs({"x": sample.inputs["x"] + 2})


def test_an_own_way_to_apply_a_processor_is_that_of_pipelines() -> None:
    processor: Any = TwiceApplied().create(None, PipelineMode.TRAINING)
    assert [sample.inputs["x"][0] for sample in processor.apply_on_samples(rows(2))] == [2.0, 3.0]
    pipeline = make_pipeline(rows(1), [TwiceApplied()], mode="evaluation", num_processes=0)
    for made in (pipeline, pipeline.as_preloaded()):
        assert ids_and_first_inputs(made) == [(0, 2)]
