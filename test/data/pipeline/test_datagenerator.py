from __future__ import annotations

from itertools import count, islice

import pytest

from test.data.support import IterableRowsParams, row, rows
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.datagenerator import DataGenerator, RawDataGeneratorParams, size_of
from tfaip.data.pipeline.definitions import PipelineMode, Sample

MODE = PipelineMode.EVALUATION


class OnlyLength(DataGenerator[DataGeneratorParams]):
    def __len__(self) -> int:
        return 3


class WithAccess(OnlyLength):
    def __getitem__(self, index: int) -> Sample:
        return row(index)


def test_a_length_that_fails() -> None:
    class Broken(OnlyLength):
        def __len__(self) -> int:
            raise KeyError("rows")

    with pytest.raises(KeyError, match="rows") as caught:
        size_of(Broken(MODE, IterableRowsParams()))
    assert caught.value.__notes__ == ["while Broken.__len__ ran"]


def test_random_access_is_recognised_and_generates() -> None:
    generator = WithAccess(MODE, DataGeneratorParams())
    assert generator.has_random_access()
    assert [sample.meta["id"] for sample in generator.generate()] == [0, 1, 2]


def test_a_generator_that_overrides_nothing_says_what_to_do() -> None:
    generator = OnlyLength(MODE, DataGeneratorParams())
    assert not generator.has_random_access()
    with pytest.raises(NotImplementedError, match="override generate .* in OnlyLength"):
        generator.generate()


def test_raw_sequences_have_random_access() -> None:
    samples = tuple(rows(3))
    generator = RawDataGeneratorParams(samples=samples).create(MODE)
    assert generator.has_random_access()
    assert len(generator) == 3
    assert generator[1].meta == {"id": 1}
    assert [sample.meta["id"] for sample in generator.generate()] == [0, 1, 2]


def test_raw_iterables_may_be_endless() -> None:
    generator = RawDataGeneratorParams(samples=map(row, count())).create(MODE)
    assert not generator.has_random_access()
    assert [sample.meta["id"] for sample in islice(generator.generate(), 3)] == [0, 1, 2]
