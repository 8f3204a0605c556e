"""Parquet files against the same data in memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test.data.support import epoch, make_pipeline
from tfaip.data.generators import arrow
from tfaip.data.generators.arrow import Parquet
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.errors import UsageError
from tfaip.util import reading

X = np.random.default_rng(0).random((11, 3))
COLUMNS: dict[str, Any] = {"input_columns": ["x"], "target_columns": ["y"]}


def write(path: Path, rows: range) -> str:
    """Write rows in groups of three."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": X[rows].tolist(), "y": list(rows)}), path, row_group_size=3)
    return str(path)


def contents(batches: list[tuple[Any, Any]]) -> list[Any]:
    """Inputs and targets, without the meta."""
    return [content[:-1] for content, _ in batches]


@pytest.mark.slow
def test_batches_are_those_of_data_in_memory(tmp_path: Path) -> None:
    files = [write(tmp_path / "a.parquet", range(7)), write(tmp_path / "b.parquet", range(7, 11))]
    source = Parquet(files=files, cache_mb=0, **COLUMNS)
    samples = [Sample(inputs={"x": x}, targets={"y": np.array([number])}) for number, x in enumerate(X)]
    options: dict[str, Any] = {"batch_size": 4}
    expected = contents(epoch(make_pipeline(samples, num_processes=0, **options), num_samples=24))
    whole = epoch(make_pipeline(source, num_processes=0, **options), num_samples=24)
    assert contents(whole) == expected
    for workers in (1, 2):
        assert epoch(make_pipeline(source, num_processes=workers, **options), num_samples=24) == whole
    rest = epoch(make_pipeline(source, num_processes=0, **options), whole[0][1], 20)  # from the middle of a pass
    assert rest == whole[1:]


def read(params: Parquet) -> list[Sample]:
    return list(params.create(PipelineMode.TRAINING).generate())


def test_damaged_and_other_files_and_missing_columns_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", range(7))
    with pytest.raises(UsageError, match=r"^the file \S* has no column z: it has 'x', 'y'$"):
        read(Parquet(files=[path], input_columns=["x", "z"]))
    content = Path(path).read_bytes()
    damaged = [content[:size] for size in (0, 10, len(content) // 2, len(content) - 3)]
    for damaged_content in [*damaged, b"x,y\n1,2\n", b"ARROW1 and more"]:
        Path(path).write_bytes(damaged_content)
        with pytest.raises(UsageError, match=r"^cannot read the Parquet file ") as caught:
            read(Parquet(files=[path], **COLUMNS))
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 320
    for missing in (str(tmp_path), str(tmp_path / "missing.parquet")):
        with pytest.raises(UsageError, match=r"^cannot read the Parquet file "):
            read(Parquet(files=[missing], **COLUMNS))
    with pytest.raises(UsageError, match="^no Parquet file is given for the training: name at least one in files$"):
        read(Parquet(**COLUMNS))


def test_a_damaged_row_group_costs_its_rows_alone(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "a.parquet", range(11)))
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


def test_values_are_those_of_python_but_for_lists_of_numbers(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = str(tmp_path / "a.parquet")
    columns = {
        "list": pa.array([[1, 2], [3]]),
        "texts": pa.array([["a"], []]),
        "image": pa.array([{"bytes": b"\x01", "path": "a.png"}, None]),
        "gap": pa.array([[1.0], [2.0, None]]),
        "category": pa.array(["cat", "dog"]).dictionary_encode(),
    }
    pq.write_table(pa.table(columns), path)
    generator: Any = Parquet(files=[path], input_columns=["list", "texts", "category"]).create(PipelineMode.TRAINING)
    assert isinstance(generator[0].inputs["list"], np.ndarray)
    assert generator[0].inputs["list"].tolist() == [1, 2]
    assert [generator[row].inputs["texts"] for row in (0, 1)] == [["a"], []]
    assert [generator[row].inputs["category"] for row in (0, 1)] == ["cat", "dog"]
    generator = Parquet(files=[path], target_columns=["image"]).create(PipelineMode.TRAINING)
    assert generator[0].targets == {"image": {"bytes": b"\x01", "path": "a.png"}}
    with pytest.raises(UsageError, match="row 1: column image has no value$"):
        generator[1]
    with pytest.raises(UsageError, match="row 1: column gap has a list without one of its values$"):
        read(Parquet(files=[path], input_columns=["gap"]))


LONG = "x" * 2**16


def write_kinds(path: Path) -> dict[str, Any]:
    """Write files of some hundred bytes whose column takes more than 2 MB, by name; return their first values."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    repeated = pa.DictionaryArray.from_arrays(np.zeros(40, np.int32), [LONG])
    numbers = pa.array(np.zeros(300_000))
    columns = {
        "dictionary": repeated,
        "plain": repeated.dictionary_decode(),
        "delta": repeated.dictionary_decode(),
        "fixed": pa.DictionaryArray.from_arrays(np.zeros(40, np.int32), pa.array([LONG.encode()], pa.binary(2**16))),
        "struct": pa.StructArray.from_arrays([repeated], ["text"]),
        "list": pa.ListArray.from_arrays(pa.array([0, 40], "i4"), repeated),
        "numbers": numbers,
        "arrays": pa.ListArray.from_arrays(pa.array([0, len(numbers)], "i4"), numbers),
    }
    for name, column in columns.items():
        encoding = {"x": "DELTA_BYTE_ARRAY"} if name == "delta" else None
        options: dict[str, Any] = {"use_dictionary": name not in ("plain", "delta"), "column_encoding": encoding}
        pq.write_table(pa.table({"x": column}), path / name, compression="zstd", store_schema=False, **options)
    return {name: column[0].as_py() for name, column in columns.items()}


def test_a_small_file_that_expands_is_refused_before_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write_kinds(tmp_path)
    for name, value in first.items():
        file = str(tmp_path / name)
        with monkeypatch.context() as context:
            context.setattr(reading, "EXPANDED_BYTES", (2**20, 2**21))
            with pytest.raises(UsageError, match=rf"{name}.*: its rows take more than [12] MiB: write smaller"):
                read(Parquet(files=[file], input_columns=["x"]))
        # The same rows are read where so much memory may be used.
        generator: Any = Parquet(files=[file], input_columns=["x"]).create(PipelineMode.TRAINING)
        assert np.array_equal(generator[0].inputs["x"], value), name


def test_a_list_of_very_many_values_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    monkeypatch.setattr(arrow, "_MAX_ITEMS", 2)
    pq.write_table(pa.table({"x": [[[], [], []]]}), tmp_path / "a")
    with pytest.raises(UsageError, match="row 0: column x has a list of 3 values, more than 2$"):
        read(Parquet(files=[str(tmp_path / "a")], input_columns=["x"]))
