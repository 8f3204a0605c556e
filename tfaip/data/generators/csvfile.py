"""Samples that are the rows of CSV files."""

import csv
from array import array
from codecs import BOM_UTF8
from collections.abc import Iterator
from functools import cached_property, partial
from io import BytesIO, TextIOWrapper
from typing import TypeVar

from tfaip.data.pipeline.datagenerator import (
    DataGenerator,
    DataGeneratorParams,
    Joined,
    columns_of,
    open_files,
    require_columns,
    sample_of,
)
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.errors import UsageError
from tfaip.params import option
from tfaip.util.reading import TABLE_BYTES, read_bytes


class CsvGeneratorParams(DataGeneratorParams, cls=":CsvGenerator"):
    """Samples that are the rows of CSV files with a header line."""

    files: list[str] = option([], "CSV files with the same columns", common=True)
    delimiter: str = option(",", "Character between two columns")
    input_columns: list[str] = option([], "Columns that are inputs", common=True)
    target_columns: list[str] = option([], "Columns that are targets", common=True)

    text_keys = frozenset[str]()  # set by the pipeline


P = TypeVar("P", bound=CsvGeneratorParams)


class CsvGenerator(DataGenerator[P]):
    """Generator with one sample per row.

    The keys are the names of the columns. The values are numbers where the text is one, unless the spec of the key
    is text. `meta` is `{"file": ..., "line": ...}`. The files are kept in memory, with 8 bytes for each row.
    """

    @cached_property
    def _rows(self) -> Joined:
        open_table = partial(_Table, params=self.params, mode=self.mode)
        return Joined(open_files(open_table, "CSV", self.params, self.mode, "files"))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Sample:
        table, row = self._rows[index]
        values = {name: self._value(name, text) for name, text in table.row(row).items()}
        return sample_of(values, self.params, self.mode, {"file": table.path, "line": table.lines[row]})

    def _value(self, name: str, text: str) -> int | float | str:
        if name in self.params.text_keys or "_" in text:  # Python reads 1_0 as ten
            return text
        for number in (int, float):
            try:
                return number(text)
            except ValueError:
                continue
        return text


class _Table:
    """A file, of which the begin and the last line of each row are known; its text is parsed when a row is needed."""

    def __init__(self, path: str, params: CsvGeneratorParams, mode: PipelineMode) -> None:
        self.path, self._delimiter = path, params.delimiter
        self._content = read_bytes(path, TABLE_BYTES).removeprefix(BOM_UTF8)
        self._begins, self.lines, self._end = array("I"), array("I"), 0
        csv.field_size_limit(max(csv.field_size_limit(), TABLE_BYTES))  # the content is bounded already
        reader = csv.reader(self._read_lines(), delimiter=self._delimiter, strict=True)
        header = next(reader, [])
        self._places = {name: place for place, name in enumerate(header) if name in columns_of(params)}
        require_columns(params, mode, header, f"the CSV file {path}")
        if twice := [name for name in self._places if header.count(name) > 1]:
            raise UsageError(f"the CSV file {path} has the column {twice[0]} twice in its header: expected one")
        begin = self._end
        for row in reader:
            if row and len(row) != len(header):
                raise UsageError(f"{path}, line {reader.line_num}: expected {len(header)} columns as in the header")
            if row:  # not an empty line
                self._begins.append(begin)
                self.lines.append(reader.line_num)
            begin = self._end
        self._begins.append(self._end)

    def __len__(self) -> int:
        return len(self.lines)

    def row(self, index: int) -> dict[str, str]:
        """Return the texts of a row by column."""
        begin, end = self._begins[index : index + 2]
        text = self._content[begin:end].decode().rstrip("\r\n")  # empty lines may follow it
        (row,) = csv.reader([text], delimiter=self._delimiter, strict=True)
        return {name: row[place] for name, place in self._places.items()}

    def _read_lines(self) -> Iterator[str]:
        for line in TextIOWrapper(BytesIO(self._content), encoding="utf-8", newline=""):
            self._end += len(line.encode())
            yield line
