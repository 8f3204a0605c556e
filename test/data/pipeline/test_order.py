from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from test.data.support import IterableRows, IterableRowsParams, NoiseParams, make_pipeline, row, rows
from tfaip.data.databaseparams import DataGeneratorParams, DataPipelineParams
from tfaip.data.pipeline.datagenerator import RawDataGeneratorParams
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.sampler import Position, Sampler, buffer_shuffle

LIST = RawDataGeneratorParams(samples=rows(9))
ITERABLE = IterableRowsParams(count=9)


def order(params: DataGeneratorParams, mode: PipelineMode = PipelineMode.TRAINING, **pipeline: int) -> list[int]:
    sampler = Sampler(params.create(mode), DataPipelineParams(mode=mode, **pipeline), seed=4)
    return [sample.meta["id"] for sample in sampler.samples(1)]


@given(size=st.integers(1, 12), length=st.integers(0, 40), seed=st.integers(0, 100))
def test_buffer_shuffle_permutes_within_its_window(size: int, length: int, seed: int) -> None:
    shuffled = list(buffer_shuffle(range(length), size, np.random.default_rng(seed)))
    assert sorted(shuffled) == list(range(length))
    # The output number n is drawn when the first n + size samples have been read.
    assert all(value < position + size for position, value in enumerate(shuffled))


def test_buffer_shuffle_draws_all_with_equal_chances() -> None:
    firsts = [next(buffer_shuffle(range(8), 4, np.random.default_rng(seed))) for seed in range(400)]
    counts = np.bincount(firsts)
    assert len(counts) == 4
    assert counts.min() > 70  # 100 expected, deviation 8.7


def test_an_exception_names_the_generator_and_the_place() -> None:
    samples = (sample if sample.meta["id"] < 5 else 1 / 0 for sample in rows(9))
    with pytest.raises(ZeroDivisionError) as info:
        order(RawDataGeneratorParams(samples=samples))
    assert info.value.__notes__ == ["while RawDataGenerator.generate ran, after 5 samples"]


def test_random_access_is_permuted_by_seed_and_pass() -> None:
    expected = np.random.default_rng([4, 1]).permutation(9)
    assert order(LIST) == list(expected)
    assert order(LIST, shuffle_buffer_size=2) == list(expected)


class OrderedParams(IterableRowsParams, cls=":Ordered"):
    pass


class Ordered(IterableRows):
    shuffle = False


def test_a_training_reads_a_generator_in_its_order_also_from_memory() -> None:
    pipeline = make_pipeline(OrderedParams(count=5), batch_size=5, num_processes=0)
    for made in (pipeline, pipeline.as_preloaded(), pipeline.with_seed(3)):
        with made.training_batches(Position(), 10) as batches:
            assert [[meta["id"] for meta in batch.meta] for batch, _ in batches] == [[0, 1, 2, 3, 4]] * 2


@pytest.mark.parametrize("params", [LIST, ITERABLE], ids=["random access", "iterable"])
def test_limit(params: DataGeneratorParams) -> None:
    assert sorted(order(params, limit=4)) == [0, 1, 2, 3]
    assert len(order(params, limit=20)) == 9


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("processors", [[], [NoiseParams()]])
def test_data_that_can_only_be_iterated_are_read_on_from_epoch_to_epoch(processors: list[Any], workers: int) -> None:
    """A one-shot iterator would lose samples otherwise, and endless data be read again from their beginning."""
    read = 0

    def source() -> Iterator[Sample]:
        nonlocal read
        for read in count(1):
            yield row(read - 1)

    pipeline = make_pipeline(
        RawDataGeneratorParams(samples=source()), processors, batch_size=4, shuffle_buffer_size=0, num_processes=workers
    )
    seen: list[Any] = []
    position = Position()
    with pipeline:
        for epoch in range(1, 4):
            with pipeline.training_batches(position, 20) as batches:
                for batch, behind in batches:
                    position = behind
                    seen += [meta["id"] for meta in batch.meta]
            assert 20 * epoch <= read <= 20 * epoch + (4 * 4 * workers)  # blocks ahead
    assert seen == list(range(60))
    assert position == Position(0, 60, 60)
