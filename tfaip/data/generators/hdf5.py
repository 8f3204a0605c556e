"""Samples that are the rows of the datasets in HDF5 files."""

from __future__ import annotations

import math
from typing import Any

from tfaip.data.generators.decoding import VALUE_BYTES
from tfaip.data.generators.tables import TableGenerator, refuse_missing
from tfaip.util.reading import open_file
from tfaip.util.text import shorten_text


class Hdf5(TableGenerator):
    """Rows of HDF5 files: each dataset is a column, its first axis counts the rows (`train/images`).

    Data of other files, to which a link or a virtual dataset points, are not read.
    """

    def open_table(self, path: str, columns: list[str]) -> _File:
        try:
            return _File(path, columns)
        except (RuntimeError, KeyError, TypeError, OverflowError, AttributeError) as error:  # of damaged files
            raise OSError(shorten_text(str(error), 100)) from error


class _File:
    def __init__(self, path: str, columns: list[str]) -> None:
        import h5py

        # The library itself would wait for a pipe.
        open_file(path).close()
        self._file = h5py.File(path, "r")
        refuse_missing(path, [name for name in columns if not _is_inside(self._file, name)], self._file)
        self._columns = {name: _dataset(self._file, name) for name in columns}
        sizes = {name: column.shape[0] for name, column in self._columns.items()}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"its columns differ in length: {shorten_text(str(sizes), 100)}")
        self._size = next(iter(sizes.values()))

    def __len__(self) -> int:
        return int(self._size)

    def row(self, index: int) -> dict[str, Any]:
        values = {}
        for name, column in self._columns.items():
            try:
                values[name] = column[index]
            except (OSError, RuntimeError, KeyError, TypeError, MemoryError) as error:
                raise OSError(f"column {name}: {shorten_text(str(error), 100)}") from error
            if isinstance(values[name], bytes) and _is_utf8(column):
                values[name] = values[name].decode("utf-8")
        return values


def _is_inside(file: Any, name: str) -> bool:
    """Return True if the file itself has this object; a link, which may lead to another file, is not followed."""
    import h5py

    parts = [part for part in name.split("/") if part]
    for depth in range(1, len(parts) + 1):
        link = file.get("/".join(parts[:depth]), getlink=True)
        if link is None:
            return False
        if not isinstance(link, h5py.HardLink):
            raise ValueError(f"{name} is a link; only data of the file itself are read")
    return bool(parts)


def _dataset(file: Any, name: str) -> Any:
    """Return a dataset of the file itself, of values that hold no reference and fit into memory."""
    import h5py

    column = file[name]
    if not isinstance(column, h5py.Dataset) or not column.shape:
        raise ValueError(f"{name} is no dataset with rows")
    if column.is_virtual or column.external:
        raise ValueError(f"{name} has its data in another file; only data of the file itself are read")
    if column.dtype.hasobject and not (h5py.check_string_dtype(column.dtype) or _is_numbers(column.dtype)):
        raise ValueError(f"{name} holds {column.dtype}, not numbers or texts")
    row_bytes = column.dtype.itemsize * math.prod(column.shape[1:])
    chunk_bytes = column.dtype.itemsize * math.prod(column.chunks or ())
    if max(row_bytes, chunk_bytes) > VALUE_BYTES:
        raise ValueError(f"{name} has rows or chunks of more than {VALUE_BYTES >> 20} MiB")
    return column


def _is_numbers(dtype: Any) -> bool:
    """Return True for arrays of any length of numbers."""
    import h5py

    inner = h5py.check_vlen_dtype(dtype)
    return inner is not None and not getattr(inner, "hasobject", True)


def _is_utf8(column: Any) -> bool:
    import h5py

    info = h5py.check_string_dtype(column.dtype)
    return info is not None and info.encoding == "utf-8"
