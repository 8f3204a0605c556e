"""Parquet and Arrow files against the same data in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test.data.support import epoch, make_pipeline
from tfaip.data.generators.arrow import Parquet
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.errors import UsageError
from tfaip.util import reading

X = np.random.default_rng(0).random((11, 3))
COLUMNS: dict[str, Any] = {"input_columns": ["x"], "target_columns": ["y"]}


def write(path: Path, name: str, rows: range) -> str:
    """Write rows in groups of three."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({"x": X[rows].tolist(), "y": list(rows)})
    file = str(path / name)
    if name == "a.parquet":
        pq.write_table(table, file, row_group_size=3)
        return file
    new = pa.ipc.new_file if name == "file.arrow" else pa.ipc.new_stream
    with new(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    return file


KINDS = ["a.parquet", "file.arrow", "stream.arrow"]


@pytest.fixture(params=KINDS)
def source(request: Any, tmp_path: Path) -> Parquet:
    """The rows in two files."""
    files = []
    for number, rows in enumerate([range(7), range(7, 11)]):
        (tmp_path / str(number)).mkdir()
        files.append(write(tmp_path / str(number), request.param, rows))
    return Parquet(files=files, cache_mb=0, **COLUMNS)


def contents(batches: list[tuple[Any, Any]]) -> list[Any]:
    """Inputs and targets, without the meta."""
    return [content[:-1] for content, _ in batches]


@pytest.mark.slow
def test_batches_are_those_of_data_in_memory(source: Parquet) -> None:
    samples = [Sample(inputs={"x": x}, targets={"y": np.array([number])}) for number, x in enumerate(X)]
    options: dict[str, Any] = {"batch_size": 4, "worker_start_s": 0.0}
    expected = contents(epoch(make_pipeline(samples, num_processes=0, **options), num_samples=24))
    whole = epoch(make_pipeline(source, num_processes=0, **options), num_samples=24)
    assert contents(whole) == expected
    for workers in (1, 2):
        assert epoch(make_pipeline(source, num_processes=workers, **options), num_samples=24) == whole
    rest = epoch(make_pipeline(source, num_processes=0, **options), whole[0][1], 20)  # from the middle of a pass
    assert rest == whole[1:]


def read(params: Parquet) -> list[Sample]:
    return list(params.create(PipelineMode.TRAINING).generate())


@pytest.mark.parametrize("name", KINDS)
def test_truncated_files_and_missing_columns_are_named(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, name, range(7))
    with pytest.raises(UsageError, match=r"^the file \S* has no column z: it has x, y$"):
        read(Parquet(files=[path], input_columns=["x", "z"]))
    content = Path(path).read_bytes()
    for size in (0, 10, len(content) // 2, len(content) - 3):
        Path(path).write_bytes(content[:size])
        with pytest.raises(UsageError, match=r"^cannot read the Parquet file ") as caught:
            read(Parquet(files=[path], **COLUMNS))
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 320
    for missing in (str(tmp_path), str(tmp_path / "missing.parquet")):
        with pytest.raises(UsageError, match=r"^cannot read the Parquet file "):
            read(Parquet(files=[missing], **COLUMNS))
    with pytest.raises(UsageError, match=r"^no Parquet file is given for the training: .* --train.files FILE"):
        read(Parquet(**COLUMNS))


def test_a_damaged_row_group_costs_its_rows_alone(tmp_path: Path) -> None:
    path = Path(write(tmp_path, "a.parquet", range(11)))
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


@pytest.mark.parametrize("name", KINDS[1:])
def test_a_damaged_record_batch_costs_its_rows_alone(name: str, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / name
    texts = pa.array(["one", "two", "three"]), pa.array(["four", "five", "six"])
    with (pa.ipc.new_file if name == "file.arrow" else pa.ipc.new_stream)(path, pa.schema([("x", "string")])) as writer:
        for column in texts:
            writer.write_batch(pa.record_batch([column], names=["x"]))
    content = path.read_bytes()
    assert content.count(b"onetwothree") == 1
    path.write_bytes(content.replace(b"onetwothree", b"one\xff\xffothree"))
    generator: Any = Parquet(files=[str(path)], input_columns=["x"]).create(PipelineMode.TRAINING)
    with pytest.raises(UsageError, match=rf"^cannot read the Parquet file .*{name}, row 0: .*Invalid UTF8"):
        generator[0]
    assert [generator[row].inputs["x"] for row in (3, 4, 5)] == ["four", "five", "six"]


@pytest.mark.parametrize("content", [b"", b"x,y\n1,2\n", b"PK\x03\x04 and more"])
def test_a_file_of_another_kind_is_named(content: bytes, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(UsageError, match=r"a.parquet: it is no Parquet or Arrow file; change files$"):
        read(Parquet(files=[str(tmp_path / "a.parquet")], **COLUMNS))


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
        "dictionary.parquet": repeated,
        "plain.parquet": repeated.dictionary_decode(),
        "delta.parquet": repeated.dictionary_decode(),
        "fixed.parquet": pa.DictionaryArray.from_arrays(
            np.zeros(40, np.int32), pa.array([LONG.encode()], pa.binary(2**16))
        ),
        "struct.parquet": pa.StructArray.from_arrays([repeated], ["text"]),
        "list.parquet": pa.ListArray.from_arrays(pa.array([0, 40], "i4"), repeated),
        "numbers.parquet": numbers,
        "arrays.parquet": pa.ListArray.from_arrays(pa.array([0, len(numbers)], "i4"), numbers),
        "file.arrow": numbers,
        "stream.arrow": numbers,
        "dictionary.arrow": pa.DictionaryArray.from_arrays(np.zeros(3, np.int32), ["x" * 2**21]),
    }
    for name, column in columns.items():
        table = pa.table({"x": column})
        if name.endswith("arrow"):
            new = pa.ipc.new_stream if name == "stream.arrow" else pa.ipc.new_file
            with new(path / name, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
                writer.write_table(table)
            continue
        encoding = {"x": "DELTA_BYTE_ARRAY"} if name == "delta.parquet" else None
        uses_dictionary = name not in ("plain.parquet", "delta.parquet")
        options: dict[str, Any] = {"use_dictionary": uses_dictionary, "column_encoding": encoding}
        pq.write_table(table, path / name, compression="zstd", store_schema=False, **options)
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


def test_a_list_without_content_is_not_made(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    nothing = pa.FixedSizeListArray.from_buffers(
        pa.list_(pa.int8(), 0), 10**9, [None], children=[pa.array([], pa.int8())]
    )
    table = pa.table({"x": pa.FixedSizeListArray.from_arrays(nothing, 10**9)})
    with pa.ipc.new_file(tmp_path / "a", table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(UsageError, match="row 0: column x has a list of 1000000000 values, more than 16,777,216$"):
        read(Parquet(files=[str(tmp_path / "a")], input_columns=["x"]))
