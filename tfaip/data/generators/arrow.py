"""Samples that are the rows of Parquet, Arrow and Feather files (extra `parquet`)."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Any

from tfaip.data.pipeline.datagenerator import (
    Generator,
    Joined,
    columns_of,
    missing_columns,
    open_tables,
    sample_of,
    unreadable_file,
)
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.errors import UsageError
from tfaip.params import option
from tfaip.util.reading import MIB, expansion_limit, open_file
from tfaip.util.text import shorten_text

_PARQUET, _FILE, _STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"


class Parquet(Generator):
    """Rows of Parquet files, or of Arrow and Feather files (in file or stream format).

    The keys are the names of the columns. `meta` is `{"file": ..., "row": ...}`, rows counted from 0.
    Row groups (record batches) are read when a row of them is needed; the last ones are kept, by each
    process. A list of numbers becomes an array. The files must not change while they are read.
    """

    files: list[str] = option([], "Files with the same columns", common=True)
    input_columns: list[str] = option([], "Columns that are inputs", common=True)
    target_columns: list[str] = option([], "Columns that are targets", common=True)
    cache_mb: int = option(512, "Memory for row groups per process in MB; the latest one is kept in any case", low=0)

    @cached_property
    def _rows(self) -> Joined:
        if self.files and not columns_of(self):
            raise UsageError("Parquet has no column: name some in input_columns and target_columns")
        return open_tables(_Table, "Parquet", self, self.mode)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Sample:
        table, row = self._rows[index]
        try:
            values = table.row(row)
        except (OSError, ValueError) as error:
            raise unreadable_file("Parquet", f"{shorten_text(table.path, 120)}, row {row}", error) from error
        return sample_of(values, self, self.mode, {"file": table.path, "row": row})


class _Table:
    """Rows of an open file."""

    def __init__(self, path: str, params: Parquet, mode: PipelineMode) -> None:
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise UsageError("Parquet and Arrow files need pyarrow: pip install pyarrow") from error
        self.path = path
        self._cache_bytes = params.cache_mb * MIB
        self._groups: OrderedDict[int, Any] = OrderedDict()
        with open_file(path) as file:  # the library would wait for a pipe
            begin = file.read(8)
        opened = _open_parquet(path) if begin.startswith(_PARQUET) else _open_arrow(path, begin)
        schema, self._sizes, self._read = opened
        self._columns = [name for name in columns_of(params) if name in schema.names]
        if missing := missing_columns(params, mode, schema.names):
            raise UsageError(
                f"the file {shorten_text(path, 150)} has no column {shorten_text(', '.join(missing), 80)}: it has "
                f"{shorten_text(', '.join(schema.names) or 'nothing', 120)}"
            )
        self._rows = Joined(range(len(self._sizes)), self._sizes)

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, index: int) -> dict[str, Any]:
        """Return the values of a row by column."""
        import pyarrow as pa

        number, place = self._rows[index]
        try:
            group = self._group(number)
            return {name: _value(name, group.column(name)[place]) for name in self._columns}
        except (pa.ArrowException, KeyError, TypeError) as error:
            raise OSError(f"row group {number}: {error}") from error

    def _group(self, number: int) -> Any:
        if number in self._groups:
            self._groups.move_to_end(number)
            return self._groups[number]
        group = self._read(number, self._columns)
        # Offsets of a damaged file would be followed out of its memory.
        group.validate(full=True)
        if group.num_rows != self._sizes[number]:
            raise OSError(f"row group {number} has {group.num_rows} rows, not {self._sizes[number]}")
        self._groups[number] = group
        while len(self._groups) > 1 and sum(kept.nbytes for kept in self._groups.values()) > self._cache_bytes:
            self._groups.popitem(last=False)
        return group


# The schema, the number of rows of each group, and a function that reads columns of a group.
_Opened = tuple[Any, list[int], Callable[[int, list[str]], Any]]


def _open_parquet(path: str) -> _Opened:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path, pre_buffer=False)
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    limit = expansion_limit(os.path.getsize(path))

    def read(number: int, columns: list[str]) -> Any:
        chunks = [groups[number].column(place) for place in range(groups[number].num_columns)]
        read_chunks = [chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] in columns]
        if sum(chunk.total_uncompressed_size for chunk in read_chunks) > limit:
            raise OSError(f"row group {number} takes more than {limit // MIB} MiB: write smaller row groups")
        return file.read_row_group(number, columns, use_threads=False)

    return file.schema_arrow, [group.num_rows for group in groups], read


def _open_arrow(path: str, begin: bytes) -> _Opened:
    import pyarrow as pa

    # Mapped: batches that are not compressed take no memory of this process.
    source = pa.memory_map(path)
    if begin.startswith(_FILE):
        file = pa.ipc.open_file(source)
        # The number of rows is known once a column has been read.
        first = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=[0]))
        sizes = [first.get_batch(number).num_rows for number in range(file.num_record_batches)]
        return file.schema, sizes, lambda number, columns: file.get_batch(number).select(columns)
    if not begin.startswith(_STREAM):
        raise ValueError("it is no Parquet or Arrow file")
    stream = pa.ipc.open_stream(source)
    batches = list(stream)
    sizes = [batch.num_rows for batch in batches]
    return stream.schema, sizes, lambda number, columns: batches[number].select(columns)


def _value(name: str, scalar: Any) -> Any:
    """Return a value as a number, text, bytes, array of numbers or list."""
    import pyarrow as pa

    if not scalar.is_valid:
        raise ValueError(f"column {name} has no value")
    if pa.types.is_list(scalar.type) or pa.types.is_large_list(scalar.type) or pa.types.is_fixed_size_list(scalar.type):
        values = scalar.values
        if values.null_count:
            raise ValueError(f"column {name} has a list without one of its values")
        if pa.types.is_primitive(values.type):
            return values.to_numpy(zero_copy_only=False)
    return scalar.as_py()
