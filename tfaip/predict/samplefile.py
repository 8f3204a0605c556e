"""Files of predicted samples: JSON lines (`.jsonl`), NumPy (`.npz`) or a table (`.csv`), never pickle.

JSON lines: one object per sample with `outputs`, `meta`, and where they were asked for `inputs` and `targets`, all as
plain values; `arrays` names those of them that were arrays: path -> [dtype, shape]. Written line by line.

NumPy: one array per key, e.g. `outputs/prob` of shape `[samples, ...]`. Arrays of different shapes
are flattened and concatenated, and `outputs/prob:shape` holds their shapes. Other values are stored
as JSON text, one per sample, e.g. in `meta:json`. `count` is the number of samples. Held in memory until it is written.

CSV: for other programs, one row per sample and one column per key, e.g. `outputs/class`. A single number or text is the
cell; any other value is JSON text. It is not read again.
"""

import csv
import dataclasses
import io
import json
import math
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
from numpy.lib import format as npy

from tfaip.data.pipeline.definitions import Sample
from tfaip.errors import UsageError
from tfaip.util.files import commit_file, failures_named, require_writable
from tfaip.util.logging import logger
from tfaip.util.reading import MIB, open_file, open_stored, parse_json
from tfaip.util.text import shorten

PARTS = ("inputs", "outputs", "targets", "meta")
JSON_SUFFIX, NUMPY_SUFFIX, TABLE_SUFFIX = ".jsonl", ".npz", ".csv"
_SHAPES, _TEXT = ":shape", ":json"
Array = np.ndarray[Any, Any]
# Maximum size of a sample in a file of lines.
_LINE_BYTES = 64 * MIB
# Rows of an array without content, whose number the size of the file does not limit.
_MAX_EMPTY_ROWS = 1_000_000
# Types of arrays in JSON; a text type could make any number large.
_NUMBER_TYPES = {np.dtype(code).name for code in np.typecodes["All"] if np.dtype(code).kind in "biuf"}


class SampleWriter:
    """Context that writes samples to a file, which appears if the block ends without an error.

    Args:
        path: `.jsonl`, `.npz` or `.csv`.
        with_inputs: write the inputs too.

    Raises:
        UsageError: as `check_target`.
        TfaipError: if writing fails, for example because the disk is full.
    """

    def __init__(self, path: str | Path, with_inputs: bool = False) -> None:
        self._path = Path(path)
        check_target(self._path)
        self._parts = PARTS if with_inputs else PARTS[1:]
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        file = self._exit.enter_context(commit_file(self._path))
        self._form = _FORMS[self._path.suffix](file)
        return self

    def write(self, sample: Sample) -> None:
        """Add a sample; parts that are None are left out."""
        parts = {part: getattr(sample, part) for part in self._parts if getattr(sample, part) is not None}
        with failures_named(self._path):
            self._form.add(parts)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # An error of the block is not named: it passes through the inner context.
        with failures_named(self._path):
            if error is not None:
                self._exit.__exit__(kind, error, traceback)
                return
            with self._exit:
                self._form.finish()
        logger(__name__).info("wrote %s", self._path)


def check_target(path: Path) -> None:
    """Raise unless a file of samples can be written to `path`."""
    _check_suffix(path, _FORMS)
    require_writable(path)


def _check_suffix(path: Path, suffixes: Iterable[str]) -> None:
    if path.suffix not in suffixes:
        raise UsageError(f"{path}: expected a name that ends in {' or '.join(suffixes)}")


def read_samples(path: str | Path) -> Iterator[Sample]:
    """Yield the samples that a `SampleWriter` wrote; other values than arrays as JSON has them.

    Args:
        path: the file.

    Raises:
        UsageError: if the file is missing, damaged, or not one of predicted samples.
    """
    path = Path(path)
    _check_suffix(path, [JSON_SUFFIX, NUMPY_SUFFIX])
    read = _read_lines if path.suffix == JSON_SUFFIX else _read_columns
    try:
        for values in read(path):
            yield Sample(**{part: values[part] for part in PARTS if part in values})
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # damage may raise anything, at any depth
        raise UsageError(f"{path} holds no predicted samples, or is damaged: {shorten(error, 120)}") from error


class _JsonLines:
    """File of JSON lines."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def add(self, parts: Mapping[str, Any]) -> None:
        """Write the parts of a sample."""
        line = _to_json(parts).encode() + b"\n"
        if len(line) > _LINE_BYTES:
            raise UsageError(
                f"a sample takes {len(line) // MIB} MiB as JSON, of at most {_LINE_BYTES // MIB}: "
                f"write a {NUMPY_SUFFIX} file instead"
            )
        self._file.write(line)

    def finish(self) -> None:
        """Do nothing: every line is written."""


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    with open_file(path) as file:
        for number, line in enumerate(read_lines(file, _LINE_BYTES), start=1):
            yield _from_json(line.decode("utf-8"), f"line {number}")


class _Columns:
    """File of NumPy arrays; its columns are collected until the end."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._columns: dict[str, list[Any]] = {}
        self._count = 0

    def add(self, parts: Mapping[str, Any]) -> None:
        """Add a sample: a dict of arrays as a column per key, any other part as one column."""
        cells: dict[str, Any] = {}
        for part, value in parts.items():
            if isinstance(value, Mapping) and value and all(map(_is_numeric, value.values())):
                cells |= {f"{part}/{key}": item for key, item in value.items()}
            else:
                cells[part] = value
        if self._count:
            _require_same_keys(self._columns, cells)
        for name, item in cells.items():
            self._columns.setdefault(name, []).append(item)
        self._count += 1

    def finish(self) -> None:
        """Write all columns."""
        arrays: dict[str, Array] = {"count": np.asarray(self._count)}
        for name, column in self._columns.items():
            arrays.update(_column_arrays(name, column))
        np.savez(self._file, **arrays)  # type: ignore[arg-type]


class _Table:
    """CSV file, whose columns are the keys of the first sample."""

    def __init__(self, file: IO[bytes]) -> None:
        self._text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        self._writer = csv.writer(self._text, lineterminator="\n")
        self._header: list[str] = []

    def add(self, parts: Mapping[str, Any]) -> None:
        """Write a row."""
        cells = {}
        for part, value in parts.items():
            for key, item in value.items() if isinstance(value, Mapping) else [("", value)]:
                cells[f"{part}/{key}" if key else part] = _cell(item)
        if not self._header:
            self._header = list(cells)
            self._writer.writerow(self._header)
        _require_same_keys(self._header, cells)
        self._writer.writerow([cells[name] for name in self._header])

    def finish(self) -> None:
        """Leave the file open for its context."""
        self._text.detach()


def _cell(value: Any) -> Any:
    plain = "" if value is None else to_plain(value)
    if isinstance(value, np.ndarray) and value.size == 1:
        plain = value.item()
    return plain if isinstance(plain, (bool, int, float, str)) else json.dumps(plain)


_FORMS: dict[str, type[_JsonLines | _Columns | _Table]] = {
    JSON_SUFFIX: _JsonLines,
    NUMPY_SUFFIX: _Columns,
    TABLE_SUFFIX: _Table,
}


def _require_same_keys(known: Collection[str], given: Collection[str]) -> None:
    if different := sorted(set(known) ^ set(given)):
        raise UsageError(f"samples differ: not all have {different[0]}: write a {JSON_SUFFIX} file instead")


def _column_arrays(name: str, column: Sequence[Any]) -> dict[str, Array]:
    if not all(map(_is_numeric, column)) or len({(value.dtype, value.ndim) for value in column}) != 1:
        return {f"{name}{_TEXT}": np.asarray([_to_json({"value": value}) for value in column])}
    values = [_storable(value) for value in column]
    if len({value.shape for value in values}) == 1:
        return {name: np.stack(values)}
    shapes = np.asarray([value.shape for value in values])
    return {name: np.concatenate([value.ravel() for value in values]), f"{name}{_SHAPES}": shapes}


def _read_columns(path: Path) -> Iterator[dict[str, Any]]:
    arrays = read_arrays(path)
    count = int(arrays.pop("count"))
    columns: dict[str, Sequence[Any]] = {}
    for name, array in arrays.items():
        if not name.endswith(_SHAPES):
            columns[name.removesuffix(_TEXT)] = _column_values(name, array, arrays.get(f"{name}{_SHAPES}"))
    if any(len(column) != count for column in columns.values()) or (count and not columns):
        raise ValueError(f"not {count} samples, as it says")
    for index in range(count):
        values: dict[str, Any] = {}
        for name, column in columns.items():
            part, _, key = name.partition("/")
            if key:
                values.setdefault(part, {})[key] = column[index]
            else:
                values[part] = column[index]
        yield values


def _column_values(name: str, array: Array, shapes: Array | None) -> Sequence[Any]:
    if name.endswith(_TEXT):
        return [_from_json(str(text), f"{name}, sample {i}")["value"] for i, text in enumerate(array)]
    if shapes is None:
        return array  # type: ignore[return-value]
    ends = np.cumsum(shapes.prod(axis=1))
    return [array[end - shape.prod() : end].reshape(shape) for end, shape in zip(ends, shapes, strict=True)]


def _is_numeric(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufcV"


def _storable(value: Any) -> Array:
    """Return an array; types that NumPy does not have (bfloat16) as float32, which is exact."""
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def to_plain(value: Any) -> Any:
    """Return a value as JSON has it; arrays as nested lists."""
    return _plain(value, "", {})


def _to_json(values: Mapping[str, Any]) -> str:
    """Return a JSON object that `_from_json` turns back, with its arrays."""
    arrays: dict[str, Any] = {}
    return json.dumps({**_plain(values, "", arrays), "arrays": arrays})


def _plain(value: Any, path: str, arrays: dict[str, Any]) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.kind not in "biufV":
            return _plain(value.tolist(), path, arrays)
        array = _storable(value)
        arrays[path] = [array.dtype.name, list(array.shape)]
        return array.tolist()
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item, f"{path}/{key}", arrays) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item, f"{path}/{index}", arrays) for index, item in enumerate(value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise UsageError(f"{path.lstrip('/')} is a {type(value).__name__}, which cannot be written as JSON")


def _from_json(text: str, name: str) -> dict[str, Any]:
    document = parse_json(text, name)
    arrays = document.pop("arrays")
    return _restored(document, "", arrays)


def _restored(value: Any, path: str, arrays: Mapping[str, Any]) -> Any:
    if path in arrays:
        dtype, shape = arrays[path]
        if not isinstance(dtype, str) or dtype not in _NUMBER_TYPES:
            raise ValueError(f"{path} has the type {shorten(dtype)}, expected that of numbers")
        return np.asarray(value, dtype=dtype).reshape(shape)[()]
    if isinstance(value, dict):
        return {key: _restored(item, f"{path}/{key}", arrays) for key, item in value.items()}
    if isinstance(value, list):
        return [_restored(item, f"{path}/{index}", arrays) for index, item in enumerate(value)]
    return value


def read_lines(file: IO[bytes], limit: int) -> Iterator[bytes]:
    """Yield the lines of an open file."""
    while line := file.readline(limit + 1):
        if len(line) > limit:
            raise ValueError(f"a line has more than {limit // MIB} MiB")
        yield line


def read_arrays(path: Path) -> dict[str, Array]:
    """Return the arrays of a file that `np.savez` wrote, by name."""
    arrays: dict[str, Array] = {}
    with open_stored(path) as file, zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if name == member.filename or name in arrays:
                raise ValueError(f"{shorten(member.filename)} is no array, or the name of two")
            with archive.open(member) as content:
                _check_array(content, member.file_size, shorten(name))
                content.seek(0)
                arrays[name] = npy.read_array(content, allow_pickle=False)
    return arrays


def _check_array(content: IO[bytes], size: int, name: str) -> None:
    """Raise unless an array has the size that its header claims, which NumPy would allocate."""
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    version = npy.read_magic(content)
    if version not in readers:
        raise ValueError(f"{name} has the unknown version {version}")
    shape, _, dtype = readers[version](content)
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects")
    if dtype.itemsize * math.prod(shape) != size - content.tell():
        raise ValueError(f"{name} has another size than its shape {shorten(shape)}")
    rows = math.prod(length for length in shape if length)
    if rows > max(size, _MAX_EMPTY_ROWS):
        raise ValueError(f"{name} has the shape {shorten(shape)}, which is not possible")
