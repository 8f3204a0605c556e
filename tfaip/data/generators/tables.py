"""Samples that are the rows of tables in files: what Parquet and Arrow have in common."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable
from functools import cached_property
from itertools import accumulate
from typing import Any, Protocol

from tfaip.data.generators.decoding import DECODERS, expected_decoder
from tfaip.data.generators.joined import place_of
from tfaip.data.pipeline.datagenerator import Generator, missing_file, unreadable_file
from tfaip.data.pipeline.definitions import Sample
from tfaip.errors import UsageError
from tfaip.params import option
from tfaip.params.limits import FieldError
from tfaip.util.reading import open_file
from tfaip.util.text import shorten_text


class Table(Protocol):
    """An open file."""

    def __len__(self) -> int: ...

    def row(self, index: int) -> dict[str, Any]:
        """Return the values of a row by column.

        Raises:
            OSError: if they cannot be read.
            ValueError: likewise, or if a value is missing.
        """
        ...


class TableGenerator(Generator):
    """Generator with one sample per row of some files. The files must not change while they are read.

    The keys are the names of the columns. `meta` is `{"file": ..., "row": ...}`, rows counted from 0.
    """

    files: list[str] = option([], "Files with the same columns", common=True)
    input_columns: list[str] = option([], "Columns that are inputs", common=True)
    target_columns: list[str] = option([], "Columns that are targets", common=True)
    decode: dict[str, str] = option(
        {}, f"Decoders of columns of bytes, e.g. picture=image; there are: {', '.join(DECODERS)}", common=True
    )

    def open_table(self, path: str, columns: list[str]) -> Table:
        """Open a file; override it.

        Raises:
            OSError: if it cannot be read.
            ValueError: likewise.
            UsageError: if it lacks a column.
        """
        raise NotImplementedError

    def decoder_of(self, column: str) -> str | None:
        """Return the name of the decoder of a column; None: its values are taken as they are. It may be overridden."""
        return self.decode.get(column)

    @cached_property
    def _tables(self) -> list[Table]:
        if not self.files:
            raise missing_file(type(self).__name__, self.mode, "files")
        columns = list(dict.fromkeys([*self.input_columns, *self.target_columns]))
        if not columns:
            raise UsageError(f"{type(self).__name__} has no column: name some in input_columns and target_columns")
        for name, decoder in self.decode.items():
            if expected := expected_decoder(decoder):
                raise FieldError(f"decode[{name}]", decoder, expected)
        tables = []
        for path in self.files:
            try:
                tables.append(self.open_table(path, columns))
            except UsageError:
                raise
            except (OSError, ValueError) as error:
                raise self._unreadable(path, error, "files") from error
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
            for name in values:
                if (decoder := self.decoder_of(name)) is not None:
                    values[name] = _decoded(name, values[name], decoder)
        except (OSError, ValueError) as error:
            raise self._unreadable(f"{shorten_text(path, 120)}, row {row}", error) from error
        return Sample(
            inputs={name: values[name] for name in self.input_columns},
            targets={name: values[name] for name in self.target_columns},
            meta={"file": path, "row": row},
        )

    def _unreadable(self, place: str, error: Exception, name: str | None = None) -> UsageError:
        return unreadable_file(type(self).__name__, place, error, name)


def _decoded(column: str, value: Any, decoder: str) -> Any:
    if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):  # images of Hugging Face datasets
        value = value["bytes"]
    if not isinstance(value, bytes):
        raise ValueError(f"column {column}: expected bytes to decode, got {type(value).__name__}")
    try:
        return DECODERS[decoder](value)
    except ValueError as error:
        raise ValueError(f"column {column}: {error}") from error


def refuse_missing(path: str, missing: list[str], found: Iterable[str]) -> None:
    """Raise a UsageError if columns are missing in a file; it names those that were found."""
    if missing:
        raise UsageError(
            f"the file {shorten_text(path, 150)} has no column {shorten_text(', '.join(missing), 80)}: it has "
            f"{shorten_text(', '.join(found) or 'nothing', 120)}"
        )


class PlacedFile:
    """File of which values are read at their places, in any order; it stays open as long as the object exists.

    Args:
        path: of the file, which must not be compressed.
    """

    def __init__(self, path: str) -> None:
        file = open_file(path)
        weakref.finalize(self, file.close)
        self._descriptor = file.fileno()
        self.size = os.fstat(self._descriptor).st_size
        if self.read(2, 0) == b"\x1f\x8b":
            raise ValueError("it is compressed: unpack it (gunzip), so that samples can be read in any order")

    def read(self, size: int, begin: int) -> bytes:
        """Return the bytes at a place; fewer at the end of the file."""
        return os.pread(self._descriptor, size, begin)
