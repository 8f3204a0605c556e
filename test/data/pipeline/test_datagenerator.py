from __future__ import annotations

from itertools import count, islice

import pytest

from test.data.support import row, rows
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


def test_random_access_generates() -> None:
    for generator in (
        WithAccess(MODE, DataGeneratorParams()),
        RawDataGeneratorParams(samples=tuple(rows(3))).create(MODE),
    ):
        assert generator.has_random_access()
        assert (size_of(generator), generator[1].meta) == (3, {"id": 1})  # type: ignore[index]
        assert [sample.meta["id"] for sample in generator.generate()] == [0, 1, 2]


def test_raw_iterables_may_be_endless() -> None:
    generator = RawDataGeneratorParams(samples=map(row, count())).create(MODE)
    assert (generator.has_random_access(), bool(generator)) == (False, True)
    assert [sample.meta["id"] for sample in islice(generator.generate(), 3)] == [0, 1, 2]


def test_a_generator_that_overrides_too_little_says_what_to_do() -> None:
    generator = OnlyLength(MODE, DataGeneratorParams())
    assert not generator.has_random_access()
    with pytest.raises(NotImplementedError, match="override generate .* in OnlyLength"):
        generator.generate()
    with pytest.raises(TypeError, match="the number of samples of DataGenerator is not known") as caught:
        size_of(DataGenerator(MODE, DataGeneratorParams()))
    assert caught.value.__notes__ == ["while DataGenerator.__len__ ran"]
