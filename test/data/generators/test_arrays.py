from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.generators.sequence import ArrayDataGenerator
from tfaip.data.pipeline.datagenerator import BatchAccess, RandomAccess
from tfaip.data.pipeline.definitions import PipelineMode, Sample


def generator(data: Sample) -> ArrayDataGenerator[DataGeneratorParams]:
    class Arrays(ArrayDataGenerator[DataGeneratorParams]):
        loads = 0

        def load(self) -> Sample:
            self.loads += 1
            return data

    return Arrays(PipelineMode.TRAINING, DataGeneratorParams())


FULL = Sample(inputs={"x": np.array([[1], [2], [3]])}, targets={"y": np.array([4, 5, 6])}, meta=["a", "b", "c"])


def test_rows_are_samples() -> None:
    arrays = generator(FULL)
    assert isinstance(arrays, RandomAccess)
    assert isinstance(arrays, BatchAccess)
    assert len(arrays) == 3
    sample = arrays[1]
    assert (sample.inputs["x"].tolist(), sample.targets["y"], sample.meta) == ([2], 5, "b")
    assert arrays.loads == 1  # type: ignore[attr-defined]


def test_get_batch_takes_rows_in_any_order() -> None:
    batch = generator(FULL).get_batch(np.array([2, 0, 2]))
    assert batch.inputs["x"].tolist() == [[3], [1], [3]]
    assert batch.targets["y"].tolist() == [6, 4, 6]
    assert batch.meta == ["c", "a", "c"]


@pytest.mark.parametrize("data", [Sample(inputs={"x": np.zeros([3, 1])}), Sample(targets={"y": np.zeros(3)})])
def test_parts_may_be_missing(data: Sample) -> None:
    arrays = generator(data)
    assert len(arrays) == 3
    assert arrays[0].meta is None
    assert (arrays[0].inputs is None, arrays[0].targets is None) == (data.inputs is None, data.targets is None)


@pytest.mark.parametrize(
    ("data", "sizes"),
    [
        (Sample(inputs={"x": np.zeros(3)}, targets={"y": np.zeros(2)}), "{'x': 3, 'y': 2}"),
        (Sample(inputs={"x": np.zeros(3)}, meta=["a"]), "{'x': 3, 'meta': 1}"),
        (Sample(), "{}"),
    ],
)
def test_lengths_must_agree(data: Sample, sizes: Any) -> None:
    with pytest.raises(ValueError, match="arrays of different length, or none: " + sizes):
        len(generator(data))


def test_the_base_says_what_to_override() -> None:
    with pytest.raises(NotImplementedError, match="override load in ArrayDataGenerator"):
        len(ArrayDataGenerator(PipelineMode.TRAINING, DataGeneratorParams()))
