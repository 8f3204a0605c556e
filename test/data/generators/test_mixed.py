from pathlib import Path
from typing import Any

import pytest

from test.data.support import IterableRowsParams, epoch, make_pipeline, row
from tfaip import Generator, PipelineMode, Sample
from tfaip.data.generators.arrow import Parquet
from tfaip.data.generators.csvfile import CsvGeneratorParams
from tfaip.data.generators.mixed import Mixed
from tfaip.data.generators.sequence import DatasetGenerator
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


@pytest.mark.parametrize(
    ("mode", "sources", "weights", "expected"),
    [
        ("training", [SMALL, LARGE], None, [0, 1, 2, *range(100, 106)]),
        # A source that is too small for its share is repeated; only a training has weights.
        ("training", [SMALL, LARGE], [2.0, 1.0], [*[0, 1, 2] * 4, *range(100, 106)]),
        ("evaluation", [SMALL, LARGE], [1.0, 0.0], [0, 1, 2, *range(100, 106)]),
    ],
)
def test_shares_of_the_sources(mode: str, sources: list[Any], weights: Any, expected: list[int]) -> None:
    generator = Mixed(sources=sources, weights=weights).create(PipelineMode(mode))
    assert [sample.meta["id"] for sample in generator.generate()] == expected
    assert len(generator) == len(expected)


@pytest.mark.slow
def test_batches_and_resume_with_any_number_of_workers() -> None:
    params = Mixed(sources=[Numbers(first=10), LARGE], weights=[1.0, 1.0])

    def made(workers: int, *place: Any) -> list[Any]:
        return epoch(make_pipeline(params, num_processes=workers, batch_size=4, on_error="skip"), *place)

    whole = made(0)
    assert made(1) == made(2) == whole
    for place in (0, 2):
        assert made(0, whole[place][1], 60 - 4 * (place + 1)) == whole[place + 1 :]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"sources": []}, "^Mixed has no source: name at least one in sources$"),
        ({"sources": [SMALL], "weights": [1.0, 2.0]}, r"^weights is .*, expected one number for each of the 1 sources"),
        ({"sources": [Numbers(count=0)]}, "^Numbers, a source of Mixed, has no sample$"),
        ({"sources": [SMALL, LARGE], "weights": [1e-320, 1.0]}, "has more than 1,000,000,000 samples$"),
        ({"sources": [SMALL, STREAM]}, "^IterableRows, a source of Mixed, has no random access$"),
    ],
)
def test_what_cannot_be_mixed_is_refused(params: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        len(Mixed(**params).create(PipelineMode.TRAINING))


COLUMNS: dict[str, Any] = {"input_columns": ["x"], "target_columns": ["y", "x"]}


@pytest.mark.parametrize("kind", ["CSV", "Parquet", "dicts", "tuples"])
def test_tables_without_targets_are_predicted(kind: str, tmp_path: Path) -> None:
    def table(**columns: list[int]) -> Any:
        """Params of the generator of a table with two rows."""
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        if kind == "CSV":
            lines = [",".join(columns), *(",".join(map(str, row.values())) for row in rows)]
            (tmp_path / "t.csv").write_text("\n".join(lines))
            return CsvGeneratorParams(files=[str(tmp_path / "t.csv")], **COLUMNS)
        if kind == "Parquet":
            pa = pytest.importorskip("pyarrow")
            pytest.importorskip("pyarrow.parquet").write_table(pa.table(columns), tmp_path / "t.parquet")
            return Parquet(files=[str(tmp_path / "t.parquet")], **COLUMNS)
        return DatasetGenerator(dataset=rows if kind == "dicts" else [tuple(row.values()) for row in rows], **COLUMNS)

    def samples(params: Any, mode: str) -> list[Any]:
        return [(sample.inputs["x"], sample.targets) for sample in params.create(PipelineMode(mode)).generate()]

    assert samples(table(x=[1, 2]), "prediction") == [(1, None), (2, None)]
    for mode in ("training", "evaluation"):
        with pytest.raises((UsageError, ValueError), match=r"no column y|has 1 values, expected 2: x, y"):
            samples(table(x=[1, 2]), mode)
    assert samples(table(x=[1, 2], y=[3, 4]), "prediction") == [(1, {"y": 3, "x": 1}), (2, {"y": 4, "x": 2})]
    params = table(x=[1, 2])
    params.target_columns = []
    assert samples(params, "prediction") == [(1, None), (2, None)]
    assert samples(params, "training") == [(1, {}), (2, {})]
