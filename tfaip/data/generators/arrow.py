"""Samples that are the rows of Parquet, Arrow and Feather files (extra `parquet`)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from itertools import accumulate
from typing import Any

from tfaip.data.generators.joined import place_of
from tfaip.data.pipeline.datagenerator import Generator, missing_file, unreadable_file
from tfaip.data.pipeline.definitions import Sample
from tfaip.errors import UsageError
from tfaip.params import option
from tfaip.util.reading import MIB, open_file
from tfaip.util.text import shorten_text

# Of one row group in memory.
_GROUP_BYTES = 4096 * MIB
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
    def _tables(self) -> list[_Table]:
        if not self.files:
            raise missing_file("Parquet", self.mode, "files")
        columns = list(dict.fromkeys([*self.input_columns, *self.target_columns]))
        if not columns:
            raise UsageError("Parquet has no column: name some in input_columns and target_columns")
        try:
            import pyarrow as pa
        except ImportError as error:
            raise UsageError("Parquet and Arrow files need pyarrow: install tfaip[parquet]") from error
        tables = []
        for path in self.files:
            try:
                tables.append(_Table(path, columns, self.cache_mb * MIB))
            except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
                raise unreadable_file("Parquet", path, error, "files") from error
        return tables

    @cached_property
    def _ends(self) -> list[int]:
        """For each file the index after its last row."""
        return list(accumulate(len(table) for table in self._tables))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> Sample:
        number, row = place_of(index, self._ends)
        path = self.files[number]
        try:
            values = self._tables[number].row(row)
        except (OSError, ValueError) as error:
            raise unreadable_file("Parquet", f"{shorten_text(path, 120)}, row {row}", error) from error
        return Sample(
            inputs={name: values[name] for name in self.input_columns},
            targets={name: values[name] for name in self.target_columns},
            meta={"file": path, "row": row},
        )


class _Table:
    """Rows of an open file."""

    def __init__(self, path: str, columns: list[str], cache_bytes: int) -> None:
        self._columns = columns
        self._cache_bytes = cache_bytes
        self._groups: OrderedDict[int, Any] = OrderedDict()
        with open_file(path) as file:  # the library would wait for a pipe
            begin = file.read(8)
        opened = _open_parquet(path, columns) if begin.startswith(_PARQUET) else _open_arrow(path, begin, columns)
        schema, self._sizes, self._read = opened
        if missing := [name for name in columns if name not in schema.names]:
            raise UsageError(
                f"the file {shorten_text(path, 150)} has no column {shorten_text(', '.join(missing), 80)}: it has "
                f"{shorten_text(', '.join(schema.names) or 'nothing', 120)}"
            )
        if min(self._sizes, default=0) < 0:
            raise ValueError("it declares a negative number of rows")
        self._ends = list(accumulate(self._sizes))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def row(self, index: int) -> dict[str, Any]:
        """Return the values of a row by column."""
        import pyarrow as pa

        number, place = place_of(index, self._ends)
        try:
            group = self._group(number)
            return {name: _value(name, group.column(name)[place]) for name in self._columns}
        except (pa.ArrowException, KeyError, TypeError) as error:
            raise OSError(f"row group {number}: {error}") from error

    def _group(self, number: int) -> Any:
        if number in self._groups:
            self._groups.move_to_end(number)
            return self._groups[number]
        group = self._read(number)
        # Offsets of a damaged file would be followed out of its memory.
        group.validate(full=True)
        if group.num_rows != self._sizes[number]:
            raise OSError(f"row group {number} has {group.num_rows} rows, not {self._sizes[number]}")
        self._groups[number] = group
        while len(self._groups) > 1 and sum(kept.nbytes for kept in self._groups.values()) > self._cache_bytes:
            self._groups.popitem(last=False)
        return group


# The schema, the number of rows of each group, and a function that reads a group.
_Opened = tuple[Any, list[int], Callable[[int], Any]]


def _open_parquet(path: str, columns: list[str]) -> _Opened:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path, pre_buffer=False)
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]

    def read(number: int) -> Any:
        size = groups[number].total_byte_size
        if not 0 <= size <= _GROUP_BYTES:
            raise OSError(f"row group {number} declares {size} bytes, more than {_GROUP_BYTES // MIB} MiB")
        return file.read_row_group(number, columns=columns, use_threads=False)

    return file.schema_arrow, [group.num_rows for group in groups], read


def _open_arrow(path: str, begin: bytes, columns: list[str]) -> _Opened:
    import pyarrow as pa

    # Mapped: batches that are not compressed take no memory of this process.
    source = pa.memory_map(path)
    if begin.startswith(_FILE):
        file = pa.ipc.open_file(source)
        sizes = [file.get_batch(number).num_rows for number in range(file.num_record_batches)]
        return file.schema, sizes, lambda number: file.get_batch(number).select(columns)
    if not begin.startswith(_STREAM):
        raise ValueError("it is no Parquet or Arrow file")
    stream = pa.ipc.open_stream(source)
    batches = list(stream)
    return stream.schema, [batch.num_rows for batch in batches], lambda number: batches[number].select(columns)


def _value(name: str, scalar: Any) -> Any:
    """Return a value as a number, text, bytes, array of numbers or list."""
    import pyarrow as pa

    if not scalar.is_valid:
        raise ValueError(f"column {name} has no value")
    if pa.types.is_list(scalar.type) or pa.types.is_large_list(scalar.type) or pa.types.is_fixed_size_list(scalar.type):
        values = scalar.values
        if pa.types.is_primitive(values.type) and values.null_count == 0:
            return values.to_numpy(zero_copy_only=False)
    return scalar.as_py()
