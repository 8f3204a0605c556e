from __future__ import annotations

import re
from itertools import count, islice
from typing import Any

import numpy as np
import pytest

from test.data.support import IterableRowsParams, row, rows
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.datagenerator import DataGenerator, RawDataGeneratorParams, size_of
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.errors import UsageError

MODE = PipelineMode.EVALUATION


class OnlyLength(DataGenerator[DataGeneratorParams]):
    def __len__(self) -> int:
        return 3


class WithAccess(OnlyLength):
    def __getitem__(self, index: int) -> Sample:
        return row(index)


def test_params_create_their_generator_with_mode_and_params() -> None:
    params = IterableRowsParams(count=4)
    generator = params.create(MODE)
    assert (generator.mode, generator.params) == (MODE, params)
    assert len(generator) == 4
    assert not generator.yields_batches()


@pytest.mark.parametrize("length", [-1, 2.0, None])
def test_a_length_that_is_none(length: Any) -> None:
    class Wrong(OnlyLength):
        def __len__(self) -> int:
            return length  # type: ignore[no-any-return]

    text = re.escape(f"Wrong.__len__ returned {length!r}, expected the number of samples of a pass: an integer from 0")
    with pytest.raises(UsageError, match=f"^{text}$"):
        size_of(Wrong(MODE, IterableRowsParams()))


def test_a_length_that_fails() -> None:
    class Broken(OnlyLength):
        def __len__(self) -> int:
            raise KeyError("rows")

    with pytest.raises(KeyError, match="rows") as caught:
        size_of(Broken(MODE, IterableRowsParams()))
    assert caught.value.__notes__ == ["while Broken.__len__ ran"]


def test_lengths() -> None:
    class Counted(OnlyLength):
        def __len__(self) -> int:
            return np.int64(5)  # type: ignore[return-value]

    assert size_of(Counted(MODE, IterableRowsParams())) == 5
    with pytest.raises(TypeError, match="the number of samples of DataGenerator is not known"):
        size_of(DataGenerator(MODE, IterableRowsParams()))


def test_random_access_is_recognised_and_generates() -> None:
    generator = WithAccess(MODE, DataGeneratorParams())
    assert generator.has_random_access()
    assert [sample.meta["id"] for sample in generator.generate()] == [0, 1, 2]


def test_a_generator_that_overrides_nothing_says_what_to_do() -> None:
    generator = OnlyLength(MODE, DataGeneratorParams())
    assert not generator.has_random_access()
    with pytest.raises(NotImplementedError, match="override generate .* in OnlyLength"):
        generator.generate()


def test_unknown_length_is_an_error_but_not_for_truth() -> None:
    generator = IterableRowsParams(length_is_known=False).create(MODE)
    assert generator
    with pytest.raises(TypeError, match="the number of samples of IterableRows is not known"):
        len(generator)


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
