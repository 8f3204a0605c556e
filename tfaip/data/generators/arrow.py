"""Samples that are the rows of Parquet files (extra `parquet`)."""

import os
import re
from collections import OrderedDict
from functools import cached_property, partial
from typing import Any

from tfaip.data.pipeline.datagenerator import (
    Generator,
    Joined,
    columns_of,
    open_files,
    require_columns,
    sample_of,
    unreadable_file,
)
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.errors import UsageError
from tfaip.params import option
from tfaip.util.reading import MIB, expansion_limit, open_file
from tfaip.util.text import shorten_text

# Rows that are decoded at a time; fewer if a page may repeat a large value.
_BATCH_ROWS = 4096
_BATCH_BYTES = 64 * MIB
# Values of a list that becomes Python objects.
_MAX_ITEMS = 2**24


class Parquet(Generator):
    """Rows of Parquet files.

    The keys are the names of the columns. `meta` is `{"file": ..., "row": ...}`, rows counted from 0.
    Row groups are read when a row of them is needed; the last ones are kept, by each process. A list of
    numbers becomes an array. The files must not change while they are read.
    """

    files: list[str] = option([], "Files with the same columns", common=True)
    input_columns: list[str] = option([], "Columns that are inputs", common=True)
    target_columns: list[str] = option([], "Columns that are targets", common=True)
    cache_mb: int = option(512, "Memory for row groups per process in MB; the latest one is kept in any case", low=0)

    @cached_property
    def _rows(self) -> Joined:
        return Joined(open_files(partial(_Table, params=self, mode=self.mode), "Parquet", self, self.mode, "files"))

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
            import pyarrow.parquet as pq
        except ImportError as error:
            raise UsageError("Parquet files need pyarrow: pip install pyarrow") from error
        self.path = path
        self._cache_bytes = params.cache_mb * MIB
        self._groups: OrderedDict[int, Any] = OrderedDict()
        with open_file(path) as file:  # the library would wait for a pipe
            self._limit = expansion_limit(os.fstat(file.fileno()).st_size)
        self._file = pq.ParquetFile(path, pre_buffer=False)
        names = self._file.schema_arrow.names
        self._columns = [name for name in columns_of(params) if name in names]
        require_columns(params, mode, names, f"the file {shorten_text(path, 150)}")
        metadata = self._file.metadata
        sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        self._rows = Joined(range(len(sizes)), sizes)

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, index: int) -> dict[str, Any]:
        """Return the values of a row by column."""
        import pyarrow as pa

        number, place = self._rows[index]
        try:
            group = self._group(number)
            return {name: _value(name, group.column(name)[place]) for name in self._columns}
        except (pa.ArrowException, IndexError, KeyError, TypeError) as error:
            raise OSError(f"row group {number}: {error}") from error

    def _group(self, number: int) -> Any:
        import pyarrow as pa

        if number in self._groups:
            self._groups.move_to_end(number)
            return self._groups[number]
        arrays, taken = {}, 0
        for name in self._columns:
            rows, pieces = _rows_at_a_time(self.path, self._file, number, name, self._limit), []
            for batch in self._file.iter_batches(rows, [number], [name], use_threads=False):
                pieces.append(batch.column(name))
                taken += pieces[-1].nbytes
                _require_room(taken, self._limit)
            arrays[name] = pa.chunked_array(pieces)
        group = pa.table(arrays)
        group.validate(full=True)  # before it is kept: wrong offsets would be followed out of its memory
        self._groups[number] = group
        while len(self._groups) > 1 and sum(kept.nbytes for kept in self._groups.values()) > self._cache_bytes:
            self._groups.popitem(last=False)
        return group


def _rows_at_a_time(path: str, file: Any, number: int, name: str, limit: int) -> int:
    """Return the number of rows of a column that can be decoded at a time, whatever their values are.

    Raises:
        OSError: if its row group takes more than `limit` bytes.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    group = file.metadata.row_group(number)
    keeps_dictionary = pa.types.is_dictionary(file.schema_arrow.field(name).type)
    rows = group.num_rows if keeps_dictionary else _BATCH_ROWS  # each batch would have the dictionary
    for index in range(group.num_columns):
        column = file.schema.column(index)
        if column.path != name and not column.path.startswith(f"{name}."):
            continue
        chunk = group.column(index)
        width = max(column.length, 4 if column.physical_type in ("BOOLEAN", "INT32", "FLOAT") else 8)
        _require_room(max(chunk.total_uncompressed_size, chunk.num_values * width), limit)
        if keeps_dictionary or column.physical_type != "BYTE_ARRAY":
            continue
        value_bytes = _dictionary_bytes(path, chunk)
        if "DELTA_BYTE_ARRAY" in chunk.encodings:
            value_bytes = chunk.total_uncompressed_size
        if column.max_repetition_level and chunk.num_values * value_bytes > limit:
            # One row may repeat a value. So its dictionary and the places in it are looked at.
            compact = pq.ParquetFile(path, pre_buffer=False, read_dictionary=[column.path])
            table = compact.read_row_group(number, [column.path], use_threads=False)
            _require_room(sum(_full_bytes(array) for array in table.column(0).chunks), limit)
        elif value_bytes:
            rows = min(rows, max(_BATCH_BYTES // value_bytes, 1))
    return rows


def _require_room(size: int, limit: int) -> None:
    if size > limit:
        raise OSError(f"its rows take more than {limit // MIB} MiB: write smaller row groups")


def _dictionary_bytes(path: str, chunk: Any) -> int:
    """Return the size of the dictionary that is the first page of a column, before its compression; 0: there is none.

    The header of a page begins with its type (2: a dictionary) and this size, which the library allocates.
    """
    with open_file(path) as file:
        file.seek(min(filter(None, [chunk.dictionary_page_offset, chunk.data_page_offset]), default=0))
        found = re.match(b"\x15\x04\x15([\x80-\xff]*[\x00-\x7f])", file.read(8), re.DOTALL)
    digits = [byte & 127 for byte in found[1]] if found else []
    return sum(digit << 7 * place for place, digit in enumerate(digits)) >> 1


def _full_bytes(array: Any) -> int:
    """Return the bytes of the texts of an array whose dictionaries are replaced by their values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        return pc.sum(pc.binary_length(array.dictionary).take(array.indices)).as_py() or 0
    if pa.types.is_struct(array.type):
        return sum(map(_full_bytes, array.flatten()))
    return _full_bytes(array.flatten()) if pa.types.is_nested(array.type) else array.nbytes


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
        if len(values) > _MAX_ITEMS:
            raise ValueError(f"column {name} has a list of {len(values)} values, more than {_MAX_ITEMS:,}")
    return scalar.as_py()
