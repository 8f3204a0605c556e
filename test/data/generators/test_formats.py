"""Files of each format against the same data in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test.data.support import epoch, make_pipeline
from tfaip.data.generators.arrow import Parquet
from tfaip.data.pipeline.datagenerator import DataGeneratorParams
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.errors import UsageError

X = np.random.default_rng(0).random((11, 3))
COLUMNS: dict[str, Any] = {"input_columns": ["x"], "target_columns": ["y"]}


def write_parquet(path: Path, rows: range, name: str = "a.parquet") -> str:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({"x": X[rows].tolist(), "y": list(rows)})
    file = str(path / name)
    if name.endswith(".parquet"):
        pq.write_table(table, file, row_group_size=3)
    else:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=3)
    return file


WRITERS: dict[str, tuple[Callable[..., str], Callable[..., DataGeneratorParams]]] = {
    "parquet": (write_parquet, lambda files: Parquet(files=files, cache_mb=0, **COLUMNS)),
    "arrow": (
        lambda path, rows: write_parquet(path, rows, "a.arrow"),
        lambda files: Parquet(files=files, **COLUMNS),
    ),
}


@pytest.fixture(params=WRITERS)
def source(request: Any, tmp_path: Path) -> DataGeneratorParams:
    """The rows in two files."""
    write, params = WRITERS[request.param]
    files = []
    for number, rows in enumerate([range(7), range(7, 11)]):
        (tmp_path / str(number)).mkdir()
        files.append(write(tmp_path / str(number), rows))
    return params(files)


def contents(batches: list[tuple[Any, Any]]) -> list[Any]:
    """Inputs and targets, without the meta."""
    return [content[:-1] for content, _ in batches]


@pytest.mark.slow
def test_batches_are_those_of_data_in_memory(source: DataGeneratorParams) -> None:
    samples = [Sample(inputs={"x": x}, targets={"y": np.array([number])}) for number, x in enumerate(X)]
    options: dict[str, Any] = {"batch_size": 4, "worker_start_s": 0.0}
    expected = contents(epoch(make_pipeline(samples, num_processes=0, **options), num_samples=24))
    whole = epoch(make_pipeline(source, num_processes=0, **options), num_samples=24)
    assert contents(whole) == expected
    for workers in (1, 2):
        assert epoch(make_pipeline(source, num_processes=workers, **options), num_samples=24) == whole
    rest = epoch(make_pipeline(source, num_processes=0, **options), whole[0][1], 20)  # from the middle of a pass
    assert rest == whole[1:]


def read(params: DataGeneratorParams) -> list[Sample]:
    return list(params.create(PipelineMode.TRAINING).generate())


@pytest.mark.parametrize("kind", WRITERS)
def test_truncated_files_and_missing_columns_are_named(kind: str, tmp_path: Path) -> None:
    write, make = WRITERS[kind]
    path = write(tmp_path, range(7))
    params: Any = make([path])
    params.input_columns = ["x", "z"]
    with pytest.raises(UsageError, match=r"^the file \S* has no column z: it has x, y$"):
        read(params)
    content = Path(path).read_bytes()
    for size in (0, 10, len(content) // 2, len(content) - 3):
        Path(path).write_bytes(content[:size])
        with pytest.raises(UsageError, match=r"^cannot read the Parquet file ") as caught:
            read(make([path]))
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 320
    for name in (str(tmp_path), str(tmp_path / "missing.parquet")):
        with pytest.raises(UsageError, match=r"^cannot read the Parquet file "):
            read(make([name]))
    with pytest.raises(UsageError, match=r"^no Parquet file is given for the training: .* --train.files FILE"):
        read(make([]))


def test_a_damaged_row_group_costs_its_rows_alone(tmp_path: Path) -> None:
    path = Path(write_parquet(tmp_path, range(11)))
    import pyarrow.parquet as pq

    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    content = bytearray(path.read_bytes())
    begin = column.dictionary_page_offset or column.data_page_offset
    content[begin : begin + 12] = b"\xff" * 12
    path.write_bytes(content)
    generator: Any = Parquet(files=[str(path)], cache_mb=1, **COLUMNS).create(PipelineMode.TRAINING)
    for row in range(3):
        with pytest.raises(UsageError, match=rf"^cannot read the Parquet file .*a.parquet, row {row}: "):
            generator[row]
    assert [generator[row].targets["y"] for row in range(3, 11)] == list(range(3, 11))


def test_bytes_are_decoded_as_declared(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = str(tmp_path / "a.parquet")
    columns = {
        "x": [b'{"a": 1}', b"\xff", None],
        "s": [{"bytes": b"7"}, {"bytes": b"x"}, {"bytes": b"1"}],
        "y": [1, 2, 3],
    }
    pq.write_table(pa.table(columns), path)
    params = Parquet(files=[path], input_columns=["x", "s"], target_columns=["y"], decode={"x": "json", "s": "class"})
    generator: Any = params.create(PipelineMode.TRAINING)
    assert generator[0].inputs == {"x": {"a": 1}, "s": 7}
    with pytest.raises(UsageError, match="row 1: column (x: no text in UTF-8|s: expected the number of a class)"):
        generator[1]
    with pytest.raises(UsageError, match="row 2: column x has no value$"):
        generator[2]
    params.decode = {"x": "pickle"}
    with pytest.raises(UsageError, match=r"^decode\[x\] is .*, expected one of image, gray, npy, text, class, json"):
        read(params)
