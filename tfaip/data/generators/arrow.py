"""Samples that are the rows of Parquet, Arrow and Feather files (extra `parquet`)."""

from __future__ import annotations

import os
import re
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

from tfaip.data.pipeline.datagenerator import (
    Generator,
    Joined,
    columns_of,
    missing_columns,
    open_files,
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
# Types of messages of Arrow.
_DICTIONARY, _RECORDS = 2, 3
# Values of a list that becomes Python objects.
_MAX_ITEMS = 2**24
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
        if min(self._sizes, default=0) < 0:
            raise ValueError("it declares a negative number of rows")
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
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path, pre_buffer=False)
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    limit = expansion_limit(os.path.getsize(path))

    def read(number: int, columns: list[str]) -> Any:
        arrays, taken = {}, 0
        for name in columns:
            rows, pieces = _rows_at_a_time(path, file, number, name, limit), []
            for batch in file.iter_batches(rows, [number], [name], use_threads=False):
                pieces.append(batch.column(name))
                taken += pieces[-1].nbytes
                _require_room(taken, limit)
            arrays[name] = pa.chunked_array(pieces)
        return pa.table(arrays)

    return file.schema_arrow, [group.num_rows for group in groups], read


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
        raise OSError(f"its rows take more than {limit // MIB} MiB: write smaller row groups or batches")


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


def _open_arrow(path: str, begin: bytes) -> _Opened:
    import pyarrow as pa

    # Mapped: batches that are not compressed take no memory of this process.
    source = pa.memory_map(path)
    limit = expansion_limit(source.size())
    if begin.startswith(_FILE):
        file = pa.ipc.open_file(source)
        dictionaries, batches = _batches_of_file(source)
        common = sum(size for _, size in dictionaries)

        def read(number: int, columns: list[str]) -> Any:
            _require_room(common + batches[number][1], limit)
            return file.get_batch(number).select(columns)

        return file.schema, [rows for rows, _ in batches], read
    if not begin.startswith(_STREAM):
        raise ValueError("it is no Parquet or Arrow file")
    _require_room(sum(_batch_sizes(message)[1] for message in pa.ipc.MessageReader.open_stream(source)), limit)
    source.seek(0)
    stream = pa.ipc.open_stream(source)
    read_batches = list(stream)
    return (
        stream.schema,
        [batch.num_rows for batch in read_batches],
        lambda number, columns: read_batches[number].select(columns),
    )


def _batches_of_file(source: Any) -> Iterator[list[tuple[int, int]]]:
    """Yield `_batch_sizes` of the dictionaries, then of the record batches that the end of a file names."""
    import pyarrow as pa

    source.seek(source.size() - len(_FILE) - 4)
    length = int.from_bytes(source.read(4), "little")
    source.seek(source.size() - len(_FILE) - 4 - length)
    footer = source.read(length)
    for index in (2, 3):
        sizes = []
        for place in _items(footer, _root(footer), index, 24):
            source.seek(_number("q", footer, place))
            sizes.append(_batch_sizes(pa.ipc.read_message(source)))
        yield sizes


def _batch_sizes(message: Any) -> tuple[int, int]:
    """Return the rows of a message, and the bytes that the library allocates for what is compressed in it.

    Each compressed buffer begins with this number; -1: it is not compressed.
    """
    data, size = message.metadata, 0
    kind = _number("B", data, _field(data, _root(data), 1))
    batch = _target(data, _root(data), 2)
    if kind == _DICTIONARY:
        batch = _target(data, batch, 1)
    elif kind != _RECORDS:
        return 0, 0
    for place in _items(data, batch, 2, 16) if _field(data, batch, 3) else ():
        begin, length = struct.unpack_from("<qq", data, place)
        if length:
            size += max(struct.unpack_from("<q", message.body, begin)[0], 0)
    return _number("q", data, _field(data, batch, 0)), size


# Metadata are FlatBuffers, which the library has checked.
def _root(data: Any) -> int:
    return int(struct.unpack_from("<I", data)[0])


def _number(kind: str, data: Any, place: int) -> int:
    return int(struct.unpack_from(f"<{kind}", data, place)[0]) if place else 0


def _field(data: Any, table: int, index: int) -> int:
    """Return the place of a field of a table; 0: it is left out."""
    fields = table - _number("i", data, table)
    offset = 4 + 2 * index
    found = _number("H", data, fields + offset) if offset < _number("H", data, fields) else 0
    return table + found if found else 0


def _target(data: Any, table: int, index: int) -> int:
    place = _field(data, table, index)
    return place + _number("I", data, place)


def _items(data: Any, table: int, index: int, size: int) -> range:
    begin = _target(data, table, index)
    return range(begin + 4, begin + 4 + size * _number("I", data, begin), size)


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
