"""Predicted samples in a file, and back: JSON lines (`.jsonl`) or NumPy (`.npz`); never pickle.

JSON lines: one object per sample with `outputs`, `meta`, and where they were asked for `inputs` and `targets`, all as
plain values; `arrays` says which of them were arrays: path -> [dtype, shape]. Written line by line.

NumPy: one array per key, e.g. `outputs/prob` of shape `[samples, ...]`. Arrays of different shapes stand one behind the
other, flat, and `outputs/prob:shape` holds their shapes. What is no array stands as JSON text, one per sample, e.g. in
`meta:json`. `count` is the number of samples. Held in memory until it is written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self
from zipfile import BadZipFile

import numpy as np

from tfaip.data.pipeline.definitions import Sample
from tfaip.errors import TfaipError, UsageError
from tfaip.predict.arrayfile import read_arrays
from tfaip.util.files import TEMPORARY_PREFIX, require_writable
from tfaip.util.reading import MIB, open_file, parse_json, read_lines
from tfaip.util.text import shorten

PARTS = ("inputs", "outputs", "targets", "meta")
JSON_SUFFIX, NUMPY_SUFFIX = ".jsonl", ".npz"
_SHAPES, _TEXT = ":shape", ":json"
Array = np.ndarray[Any, Any]
# Most bytes of a sample in a file of lines.
_LINE_BYTES = 64 * MIB
# What arrays in JSON may be of; a text type could make any number large.
_NUMBER_TYPES = {np.dtype(code).name for code in np.typecodes["All"] if np.dtype(code).kind in "biuf"}
# What reading a damaged or foreign file raises, as deep as the damage lies.
_DAMAGE = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    EOFError,
    MemoryError,
    OverflowError,
    RecursionError,
    BadZipFile,
)


class _Form(Protocol):
    """One of the two forms of a file."""

    def add(self, values: dict[str, Any]) -> None:
        """Add the parts of a sample."""

    def finish(self) -> None:
        """Write what is not written yet."""


class SampleWriter:
    """Context that writes samples to a file, which is there when the block ends without an exception.

    Args:
        path: `.jsonl` or `.npz`.
        with_inputs: write the inputs too.

    Raises:
        UsageError: as `check_target`.
        TfaipError: while writing, as of a full disk.
    """

    def __init__(self, path: str | Path, with_inputs: bool = False) -> None:
        path = Path(path)
        check_target(path)
        self._path = path
        self._temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}")
        self._parts = PARTS if with_inputs else PARTS[1:]

    def __enter__(self) -> Self:
        # Left by a process that was killed; a new file is never written through a link.
        self._temporary.unlink(missing_ok=True)
        try:
            self._file: IO[bytes] = open(self._temporary, "xb")  # noqa: SIM115 (closed in __exit__)
            self._form: _Form = _JsonLines(self._file) if self._path.suffix == JSON_SUFFIX else _Columns(self._file)
        except BaseException:  # a signal
            self._temporary.unlink(missing_ok=True)
            raise
        return self

    def write(self, sample: Sample) -> None:
        """Add a sample; parts that are None are left out."""
        parts = {part: getattr(sample, part) for part in self._parts}
        with self._named_failures():
            self._form.add({part: value for part, value in parts.items() if value is not None})

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            with self._named_failures():
                with self._file:
                    if error is None:
                        self._form.finish()
                if error is None:
                    os.replace(self._temporary, self._path)
        finally:
            self._temporary.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _named_failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TfaipError(f"{self._path} cannot be written: {error.strerror or error}") from error


def to_plain(value: Any) -> Any:
    """A value as JSON has it; arrays as nested lists.

    Raises:
        UsageError: it holds something that JSON cannot express.
    """
    return _plain(value, "", {})


def check_suffix(path: Path) -> None:
    """Whether a file of samples may have this name.

    Raises:
        UsageError: it says neither form.
    """
    if path.suffix not in (JSON_SUFFIX, NUMPY_SUFFIX):
        raise UsageError(f"{path}: expected a name that ends in {JSON_SUFFIX} (JSON lines) or {NUMPY_SUFFIX} (NumPy)")


def check_target(path: Path) -> None:
    """Whether a file of samples can be written to `path`.

    Raises:
        UsageError: another suffix, no such directory, no permission, or it is a directory.
    """
    check_suffix(path)
    require_writable(path)


def read_samples(path: str | Path) -> Iterator[Sample]:
    """The samples that a `SampleWriter` wrote; what was no array comes back as JSON has it (tuples as lists).

    Args:
        path: of the file.

    Raises:
        UsageError: the file is missing, or no such file.
    """
    path = Path(path)
    check_suffix(path)
    try:
        yield from _read_lines(path) if path.suffix == JSON_SUFFIX else _read_columns(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except _DAMAGE as error:
        raise UsageError(f"{path} holds no predicted samples, or is damaged: {shorten(error, 120)}") from error


class _JsonLines:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def add(self, values: dict[str, Any]) -> None:
        line = _to_json(values).encode() + b"\n"
        if len(line) > _LINE_BYTES:
            raise UsageError(
                f"a sample takes {len(line) // MIB} MiB as JSON, of at most {_LINE_BYTES // MIB}: "
                f"write a {NUMPY_SUFFIX} file instead"
            )
        self._file.write(line)

    def finish(self) -> None:
        pass


def _read_lines(path: Path) -> Iterator[Sample]:
    with open_file(path) as file:
        for number, line in enumerate(read_lines(file, _LINE_BYTES), start=1):
            yield _sample(_from_json(line.decode("utf-8"), f"line {number}"))


class _Columns:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._columns: dict[str, list[Any]] = {}
        self._count = 0

    def add(self, values: dict[str, Any]) -> None:
        for part, value in values.items():
            # A dict of arrays becomes a column per key, anything else one of text.
            named = {f"{part}/{key}": item for key, item in value.items()} if _is_arrays(value) else {part: value}
            for name, item in named.items():
                column = self._columns.setdefault(name, [])
                if len(column) != self._count:
                    raise UsageError(
                        f"sample {len(column)} has no {name}, which later ones have: write a {JSON_SUFFIX} file instead"
                    )
                column.append(item)
        self._count += 1

    def finish(self) -> None:
        arrays: dict[str, Array] = {"count": np.asarray(self._count)}
        for name, column in self._columns.items():
            if len(column) != self._count:
                raise UsageError(
                    f"sample {len(column)} has no {name}, which earlier ones have: write a {JSON_SUFFIX} file instead"
                )
            arrays.update(_column_arrays(name, column))
        np.savez(self._file, **arrays)  # type: ignore[arg-type]


def _is_arrays(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(_is_numeric(item) for item in value.values())


def _is_numeric(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufcV"


def _column_arrays(name: str, column: Sequence[Any]) -> dict[str, Array]:
    if not all(_is_numeric(value) for value in column) or len({(v.dtype, v.ndim) for v in column}) != 1:
        return {f"{name}{_TEXT}": np.asarray([_to_json({"value": value}) for value in column])}
    values = [_storable(value) for value in column]
    if len({value.shape for value in values}) == 1:
        return {name: np.stack(values)}
    shapes = np.asarray([value.shape for value in values])
    return {name: np.concatenate([value.ravel() for value in values]), f"{name}{_SHAPES}": shapes}


def _read_columns(path: Path) -> Iterator[Sample]:
    arrays = read_arrays(path)
    count = int(arrays.pop("count"))
    shapes = {name.removesuffix(_SHAPES): arrays.pop(name) for name in list(arrays) if name.endswith(_SHAPES)}
    columns = {name: _column_values(name, array, shapes.get(name)) for name, array in arrays.items()}
    if any(len(column) != count for column in columns.values()) or (count and not columns):
        raise ValueError(f"not {count} samples, as it says")
    for index in range(count):
        values: dict[str, Any] = {}
        for name, column in columns.items():
            part, _, key = name.removesuffix(_TEXT).partition("/")
            if key:
                values.setdefault(part, {})[key] = column[index]
            else:
                values[part] = column[index]
        yield _sample(values)


def _column_values(name: str, array: Array, shapes: Array | None) -> Sequence[Any]:
    if name.endswith(_TEXT):
        return [_from_json(str(text), f"{name}, sample {i}")["value"] for i, text in enumerate(array)]
    if shapes is None:
        return array  # type: ignore[return-value]
    ends = np.cumsum(shapes.prod(axis=1))
    return [array[end - shape.prod() : end].reshape(shape) for end, shape in zip(ends, shapes, strict=True)]


def _sample(values: Mapping[str, Any]) -> Sample:
    return Sample(**{part: values[part] for part in PARTS if part in values})


def _to_json(values: Mapping[str, Any]) -> str:
    """Values as a JSON object that `_from_json` turns back, their arrays included."""
    arrays: dict[str, Any] = {}
    return json.dumps({**_plain(values, "", arrays), "arrays": arrays})


def _plain(value: Any, path: str, arrays: dict[str, Any]) -> Any:
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufV":
        array = _storable(value)
        arrays[path] = [array.dtype.name, list(array.shape)]
        return array.tolist()
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist(), path, arrays)
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


def _storable(value: Any) -> Array:
    """Types that only an accelerator backend has (bfloat16) as float32, which holds each of their values."""
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def _from_json(text: str, name: str) -> dict[str, Any]:
    try:
        document = parse_json(text, name)
    except UsageError as error:
        raise ValueError(str(error)) from error
    arrays = document.pop("arrays")
    return {key: _restored(value, f"/{key}", arrays) for key, value in document.items()}


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
