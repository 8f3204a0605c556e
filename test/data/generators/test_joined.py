"""Tables without the columns of the targets, which can be predicted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tfaip.data.generators.arrow import Parquet
from tfaip.data.generators.csvfile import CsvGeneratorParams
from tfaip.data.generators.sequence import DatasetGenerator
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.errors import UsageError

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
