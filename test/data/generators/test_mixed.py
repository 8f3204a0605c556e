from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from test.data.support import IterableRowsParams, epoch, make_pipeline, row
from tfaip.data.generators.arrow import Parquet
from tfaip.data.generators.csvfile import CsvGeneratorParams
from tfaip.data.generators.mixed import Mixed
from tfaip.data.generators.sequence import DatasetGenerator
from tfaip.data.pipeline.datagenerator import DataGeneratorParams, Generator
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.errors import UsageError


class Numbers(Generator):
    """The rows of the numbers from `first` on."""

    first: int = 0
    count: int = 3

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Sample:
        if index >= self.count:
            raise IndexError(index)
        if self.first + index == 13:
            raise ValueError("13 is damaged")
        return row(self.first + index)


SMALL, LARGE, STREAM = Numbers(), Numbers(first=100, count=6), IterableRowsParams(count=6)


def values(mode: PipelineMode = PipelineMode.TRAINING, **params: Any) -> list[int]:
    generator = Mixed(**params).create(mode)
    found = [sample.meta["id"] for sample in generator.generate()]
    if not isinstance(params["sources"][0], IterableRowsParams):
        assert len(generator) == len(found)
    return found


def test_without_weights_each_sample_comes_once() -> None:
    assert values(sources=[SMALL, LARGE]) == [0, 1, 2, 100, 101, 102, 103, 104, 105]
    assert values(sources=[STREAM, SMALL]) == [0, 1, 2, 3, 4, 5, 0, 1, 2]


def test_weights_repeat_the_sources_that_are_too_small() -> None:
    found = Counter(values(sources=[SMALL, LARGE], weights=[2.0, 1.0]))
    assert found == Counter({0: 4, 1: 4, 2: 4, **{100 + number: 1 for number in range(6)}})
    assert values(sources=[SMALL, LARGE], weights=[1.0, 0.0]) == [0, 1, 2]
    assert len(values(PipelineMode.EVALUATION, sources=[SMALL, LARGE], weights=[1.0, 0.0])) == 9


@pytest.mark.slow
@pytest.mark.parametrize(("source", "weights"), [(LARGE, [1.0, 1.0]), (STREAM, None)])
def test_batches_and_resume_with_any_number_of_workers(source: DataGeneratorParams, weights: Any) -> None:
    params = Mixed(sources=[Numbers(first=10), source], weights=weights)
    options: dict[str, Any] = {"batch_size": 4, "worker_start_s": 0.0, "on_error": "skip"}
    whole = epoch(make_pipeline(params, num_processes=0, **options), num_samples=24)
    for workers in (1, 2):
        assert epoch(make_pipeline(params, num_processes=workers, **options), num_samples=24) == whole
    for place in (0, 2):
        rest = epoch(make_pipeline(params, num_processes=0, **options), whole[place][1], 24 - 4 * (place + 1))
        assert rest == whole[place + 1 :]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"sources": []}, "^Mixed has no source: name at least one in sources$"),
        ({"sources": [SMALL], "weights": [1.0, 2.0]}, r"^weights is .*, expected one number for each of the 1 sources"),
        ({"sources": [SMALL], "weights": [0.0]}, r"^weights is .*, expected at least one above 0"),
        ({"sources": [SMALL, LARGE], "weights": [1e-300, 1.0]}, r"^weights is .* at most 1,000,000,000 samples"),
        ({"sources": [Numbers(count=0)]}, "^Numbers, a source of Mixed, has no sample$"),
        ({"sources": [SMALL], "weights": [-1.0]}, "^weights.* is .*-1"),
        ({"sources": [SMALL, STREAM], "weights": [1.0, 1.0]}, "^weights is .*, expected None, since not all sources"),
    ],
)
def test_what_cannot_be_mixed_is_refused(params: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        len(Mixed(**params).create(PipelineMode.TRAINING))


COLUMNS: dict[str, Any] = {"input_columns": ["x"], "target_columns": ["y", "x"]}


@pytest.fixture(params=["CSV", "Parquet", "dicts", "tuples"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Return a function: columns of a table with two rows -> params of its generator."""

    def make(**columns: list[int]) -> Any:
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        if request.param == "CSV":
            lines = [",".join(columns), *(",".join(map(str, row.values())) for row in rows)]
            (tmp_path / "t.csv").write_text("\n".join(lines))
            return CsvGeneratorParams(files=[str(tmp_path / "t.csv")], **COLUMNS)
        if request.param == "Parquet":
            pa = pytest.importorskip("pyarrow")
            pa.parquet = pytest.importorskip("pyarrow.parquet")
            pa.parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
            return Parquet(files=[str(tmp_path / "t.parquet")], **COLUMNS)
        items = rows if request.param == "dicts" else [tuple(row.values()) for row in rows]
        return DatasetGenerator(dataset=items, **COLUMNS)

    return make


def test_rows_without_targets_are_predicted(table: Any) -> None:
    generator = table(x=[1, 2]).create(PipelineMode.PREDICTION)
    assert [(sample.inputs, sample.targets) for sample in generator.generate()] == [({"x": 1}, None), ({"x": 2}, None)]
    for mode in (PipelineMode.TRAINING, PipelineMode.EVALUATION):
        with pytest.raises((UsageError, ValueError), match=r"no column y|has 1 values, expected 2: x, y"):
            next(iter(table(x=[1, 2]).create(mode).generate()))
    generator = table(x=[1, 2], y=[3, 4]).create(PipelineMode.PREDICTION)
    assert [sample.targets for sample in generator.generate()] == [{"y": 3, "x": 1}, {"y": 4, "x": 2}]


def test_no_column_of_targets_is_no_target(table: Any) -> None:
    params = table(x=[1, 2])
    params.target_columns = []
    assert [sample.targets for sample in params.create(PipelineMode.PREDICTION).generate()] == [None, None]
    assert [sample.targets for sample in params.create(PipelineMode.TRAINING).generate()] == [{}, {}]
