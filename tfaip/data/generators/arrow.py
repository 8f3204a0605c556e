"""Samples that are the rows of Parquet, Arrow and Feather files (extra `parquet`)."""

from __future__ import annotations

from collections import OrderedDict
from itertools import accumulate
from typing import Any

from tfaip.data.generators.joined import place_of
from tfaip.data.generators.tables import TableGenerator, refuse_missing
from tfaip.errors import UsageError
from tfaip.params import option
from tfaip.util.reading import MIB, open_file
from tfaip.util.text import shorten_text

# Of one row group or record batch in memory.
_GROUP_BYTES = 4096 * MIB


class Parquet(TableGenerator):
    """Rows of Parquet files, or of Arrow and Feather files (`.arrow`, `.feather`).

    Row groups (record batches) are read when a row of them is needed; the last ones are kept. A list
    of numbers becomes an array. Each process has its own groups.
    """

    cache_mb: int = option(512, "Memory for row groups per process in MB; the latest one is kept in any case", low=0)

    def open_table(self, path: str, columns: list[str]) -> _File:
        try:
            import pyarrow as pa
        except ImportError as error:
            raise UsageError("Parquet and Arrow files need pyarrow: install tfaip[parquet]") from error
        try:
            kind = _ArrowFile if path.endswith((".arrow", ".feather", ".ipc")) else _ParquetFile
            return kind(path, columns, self.cache_mb * MIB)
        except (pa.ArrowException, KeyError, TypeError) as error:
            raise OSError(shorten_text(str(error), 120)) from error


class _File:
    """Rows in groups."""

    def __init__(self, path: str, columns: list[str], cache_bytes: int) -> None:
        self._path = path
        self._columns = columns
        self._cache_bytes = cache_bytes
        self._groups: OrderedDict[int, Any] = OrderedDict()
        open_file(path).close()  # the library would wait for a pipe
        schema, sizes = self.open()
        refuse_missing(path, [name for name in columns if name not in schema.names], schema.names)
        if min(sizes, default=0) < 0:
            raise ValueError("it declares a negative number of rows")
        self._sizes = sizes
        self._ends = list(accumulate(sizes))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def open(self) -> tuple[Any, list[int]]:
        """Return the schema and the number of rows of each group."""
        raise NotImplementedError

    def read(self, number: int) -> Any:
        """Return the wanted columns of a group as a table."""
        raise NotImplementedError

    def row(self, index: int) -> dict[str, Any]:
        import pyarrow as pa

        number, place = place_of(index, self._ends)
        try:
            group = self._group(number)
            return {name: _value(name, group.column(name)[place]) for name in self._columns}
        except (pa.ArrowException, KeyError, TypeError) as error:
            raise OSError(f"row group {number}: {shorten_text(str(error), 100)}") from error

    def _group(self, number: int) -> Any:
        if number in self._groups:
            self._groups.move_to_end(number)
            return self._groups[number]
        group = self.read(number)
        # Offsets of a damaged file would be followed out of its memory.
        group.validate(full=True)
        if group.num_rows != self._sizes[number]:
            raise OSError(f"row group {number} has {group.num_rows} rows, not {self._sizes[number]}")
        self._groups[number] = group
        while len(self._groups) > 1 and sum(kept.nbytes for kept in self._groups.values()) > self._cache_bytes:
            self._groups.popitem(last=False)
        return group


class _ParquetFile(_File):
    def open(self) -> tuple[Any, list[int]]:
        import pyarrow.parquet as pq

        self._file = pq.ParquetFile(self._path, pre_buffer=False)
        groups = range(self._file.metadata.num_row_groups)
        return self._file.schema_arrow, [self._file.metadata.row_group(number).num_rows for number in groups]

    def read(self, number: int) -> Any:
        size = self._file.metadata.row_group(number).total_byte_size
        if not 0 <= size <= _GROUP_BYTES:
            raise OSError(f"row group {number} declares {size} bytes, more than {_GROUP_BYTES // MIB} MiB")
        return self._file.read_row_group(number, columns=self._columns, use_threads=False)


class _ArrowFile(_File):
    def open(self) -> tuple[Any, list[int]]:
        import pyarrow as pa

        # Mapped: batches that are not compressed take no memory of this process.
        self._file = pa.ipc.open_file(pa.memory_map(self._path))
        batches = range(self._file.num_record_batches)
        return self._file.schema, [self._file.get_batch(number).num_rows for number in batches]

    def read(self, number: int) -> Any:
        return self._file.get_batch(number).select(self._columns)


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
