"""Samples that are the rows of CSV files."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cached_property
from io import TextIOWrapper
from typing import TypeVar

from tfaip.data.pipeline.datagenerator import DataGenerator, DataGeneratorParams, missing_file, unreadable_file
from tfaip.data.pipeline.definitions import Sample
from tfaip.errors import UsageError
from tfaip.params import option
from tfaip.util.reading import TABLE_BYTES, open_file
from tfaip.util.text import shorten, shorten_text


def _expected_delimiter(text: str) -> str | None:
    is_one = len(text) == 1 and text not in '"\r\n'
    return None if is_one else "one character, no quotation mark and no end of a line"


class CsvGeneratorParams(DataGeneratorParams, cls=":CsvGenerator"):
    """Samples that are the rows of CSV files with a header line."""

    files: list[str] = option([], "CSV files with the same columns", common=True)
    delimiter: str = option(",", "Character between two columns", text=_expected_delimiter)
    input_columns: list[str] = option([], "Columns that are inputs", common=True)
    target_columns: list[str] = option([], "Columns that are targets", common=True)


P = TypeVar("P", bound=CsvGeneratorParams)
Row = tuple[str, int, tuple[str, ...]]


class CsvGenerator(DataGenerator[P]):
    """Generator with one sample per row.

    The keys are the names of the columns, the values are numbers where the text is one.
    `meta` is `{"file": ..., "line": ...}`. All rows are kept in memory as text.
    """

    @cached_property
    def _columns(self) -> list[str]:
        return list(dict.fromkeys([*self.params.input_columns, *self.params.target_columns]))

    @cached_property
    def _rows(self) -> list[Row]:
        if not self.params.files:
            raise missing_file("CSV", self.mode, "files")
        rows: list[Row] = []
        for path in self.params.files:
            try:
                rows += self._read(path)
            except (OSError, ValueError, csv.Error) as error:  # ValueError: not UTF-8, or an impossible file name
                raise unreadable_file("CSV", path, error, "files") from error
        return rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Sample:
        path, line, texts = self._rows[index]
        values = dict(zip(self._columns, texts, strict=True))
        return Sample(
            inputs={name: _value(values[name]) for name in self.params.input_columns},
            targets={name: _value(values[name]) for name in self.params.target_columns},
            meta={"file": path, "line": line},
        )

    def _read(self, path: str) -> Iterator[Row]:
        with TextIOWrapper(open_file(path, TABLE_BYTES), encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=self.params.delimiter, strict=True)
            header = next(reader, [])
            places = {name: place for place, name in enumerate(header)}
            if missing := [name for name in self._columns if name not in places]:
                raise UsageError(
                    f"the CSV file {path} has no column {', '.join(missing)}: its header has "
                    f"{shorten_text(', '.join(header) or 'nothing')}, separated by {shorten(self.params.delimiter)}"
                )
            for row in reader:
                if row and len(row) != len(header):
                    raise UsageError(f"{path}, line {reader.line_num}: expected {len(header)} columns as in the header")
                if row:  # not an empty line
                    yield path, reader.line_num, tuple(row[places[name]] for name in self._columns)


def _value(text: str) -> int | float | str:
    if "_" in text:  # Python reads 1_0 as ten
        return text
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
