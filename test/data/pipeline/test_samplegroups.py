"""Batches that a generator gives as lists of samples: padded and stacked like any others."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import pytest

from test.data.support import DropParams, NoiseParams, PairParams, epoch, make_pipeline, row
from tfaip.data.pipeline.datagenerator import Generator
from tfaip.data.pipeline.definitions import PipelineMode, require_sample

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
        first = sum(SIZES[:index])
        return [row(value) for value in range(first, first + SIZES[index])]


BOTH = [Lists(), Lists(has_access=True)]


@pytest.mark.parametrize("source", BOTH, ids=["iterated", "random access"])
def test_lists_are_padded_and_stacked(source: Lists) -> None:
    pipeline = make_pipeline(source, mode=PipelineMode.EVALUATION, batch_size=2, num_processes=0)
    assert (pipeline.epoch_size(), pipeline.num_batches(3)) == (3, 3)
    for made in (pipeline, pipeline.as_preloaded()):
        with made.generate_input_batches() as batches:
            inputs = [batch.inputs["x"].tolist() for batch in batches]
        assert inputs == [[[0]], [[1, 1, -1], [2, 2, 2], [3, -1, -1]], [[4, 4, -1], [5, 5, 5]]]


@pytest.mark.parametrize("source", BOTH, ids=["iterated", "random access"])
def test_dropped_samples_leave_their_list(source: Lists) -> None:
    # Rows 0, 3 go; the first list is empty then.
    pipeline = make_pipeline(source, [DropParams(every=3)], mode=PipelineMode.EVALUATION, max_element_length=2)
    with pipeline.generate_input_batches() as batches:
        assert [[meta["id"] for meta in batch.meta] for batch in batches] == [[1], [4]]
    assert (pipeline.dropped.invalid, pipeline.dropped.too_long) == (2, 2)
    with pipeline.generate_input_samples() as samples:
        assert [sample.meta["id"] for sample in samples] == [1, 4]


def test_random_numbers_of_lists_are_those_of_their_place() -> None:
    def batches(workers: int, skip: int) -> list[Any]:
        params: dict[str, Any] = {"num_processes": workers, "worker_start_s": 0}
        pipeline = make_pipeline(Lists(), [NoiseParams()], seed=2, **params)
        everything = epoch(pipeline, num_samples=5)
        start = everything[skip - 1][1] if skip else None
        return everything if start is None else epoch(pipeline, start, 5 - skip)

    inline = batches(0, 0)
    assert len({str(content) for content, _ in inline}) == 5
    assert batches(0, 2) == inline[2:]
    assert batches(1, 0) == inline


def test_a_failing_sample_of_a_list_is_named() -> None:
    class Broken(NoiseParams):
        high: int = 0  # no random number is below it

    with (
        make_pipeline(Lists(), [Broken()]).generate_input_batches() as batches,
        pytest.raises(ValueError, match="high") as info,
    ):
        next(batches)
    assert info.value.__notes__[0].startswith("in Noise.apply, sample 0 of batch 0 of its pass: Sample(inputs=")


@pytest.mark.parametrize("source", BOTH, ids=["iterated", "random access"])
def test_lists_that_cannot_be_batches(source: Lists) -> None:
    single = Lists(has_access=source.has_access, of_batches=False)
    with make_pipeline(single).generate_input_batches() as batches, pytest.raises(TypeError) as info:
        next(batches)
    assert str(info.value).endswith("expected a Sample: a generator whose yields_batches() returns True may give lists")
    pipeline = make_pipeline(source, [PairParams()], mode=PipelineMode.EVALUATION)
    with pipeline.generate_input_batches() as batches, pytest.raises(TypeError, match="generating processors cannot"):
        list(islice(batches, 1))
    with pytest.raises(TypeError, match=r"^Lists, in a list, gave 3, expected a Sample$"):
        require_sample([3], "Lists", may_be_list=True)
