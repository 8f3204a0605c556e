"""Values of weights by attribute path: in safetensors files, in host memory, assigned to variables."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from tfaip.backend.active import backend
from tfaip.backend.kerastools import TooManyElements, limited_variables
from tfaip.errors import TfaipError, UsageError
from tfaip.util.manifest import MANIFEST_FILE, verify_files
from tfaip.util.reading import open_file
from tfaip.util.text import shorten_text

WEIGHTS_FILE = "weights.safetensors"
_LENGTH_BYTES = 8
# The types that are written, by their name in NumPy, in the order in which the safetensors library writes them.
_TYPES = {
    **{"uint64": "U64", "int64": "I64", "float64": "F64", "complex64": "C64", "float32": "F32", "uint32": "U32"},
    **{"int32": "I32", "bfloat16": "BF16", "float16": "F16", "uint16": "U16", "int16": "I16", "int8": "I8"},
    **{"uint8": "U8", "bool": "BOOL"},
}
_ORDER = list(_TYPES)
_ALIGNMENT = 8
# What is hashed and written at a time, while other threads run.
_PART_BYTES = 2**22
# What is compared at a time.
_COMPARED_BYTES = 2**20
HOST_ALIGNMENT = 64
# A model is built several times, with metrics; this often the stored elements, and so many more (a teacher in a loss).
_BUILDS, _SPARE_ELEMENTS = 8, 2**27


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Write named arrays, part by part; equal arrays give equal bytes, those of the safetensors library."""
    import hashlib  # loads OpenSSL, which only commands that write or read models need

    digest, size = hashlib.sha256(), 0
    with open(path, "wb") as file:
        for part in _file_parts(arrays):
            digest.update(part)
            file.write(part)
            size += len(part)
    return {"size": size, "sha256": digest.hexdigest()}


def _file_parts(arrays: Mapping[str, np.ndarray]) -> Iterator[bytes | memoryview]:
    """Yield the content of a safetensors file in parts of limited size."""
    names = sorted(arrays, key=lambda name: (_ORDER.index(arrays[name].dtype.name), name))
    header, end = {}, 0
    for name in names:
        begin, end = end, end + arrays[name].nbytes
        kind, shape = _TYPES[arrays[name].dtype.name], list(arrays[name].shape)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % _ALIGNMENT)
    yield len(text).to_bytes(_LENGTH_BYTES, "little") + text
    for name in names:
        little_endian = arrays[name].astype(arrays[name].dtype.newbyteorder("<"), copy=False)
        # An array of an accelerator backend may be a view with strides.
        content = np.ascontiguousarray(little_endian).reshape(-1).view(np.uint8).data
        for begin in range(0, len(content), _PART_BYTES):
            yield content[begin : begin + _PART_BYTES]


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read named arrays."""
    try:
        with open_file(path):  # a regular file
            return load_file(path)
    except (OSError, SafetensorError, AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise TfaipError(f"{path} cannot be read as weights: {shorten_text(str(error), 120)}") from error


def load_weights_of(directory: Path) -> dict[str, np.ndarray]:
    """Return the weights in a directory, compared with its manifest (those of other programs have none)."""
    if (directory / MANIFEST_FILE).is_file():
        verify_files(directory, [WEIGHTS_FILE])
    return load_arrays(directory / WEIGHTS_FILE)


def variable_arrays(variables: Mapping[str, keras.Variable]) -> dict[str, np.ndarray]:
    """Return copies of the values of named variables."""
    return HostBuffer().fill(variables)


class WeightsDoNotFit(UsageError):
    """Stored weights belong to another model than the one that is built."""


@contextmanager
def built_within(arrays: Mapping[str, np.ndarray], source: str) -> Iterator[None]:
    """Context that builds the model of stored weights; stored params may ask for a model of any size."""
    stored = sum(array.size for array in arrays.values())
    try:
        with limited_variables(_BUILDS * stored + _SPARE_ELEMENTS):
            yield
    except TooManyElements as error:
        built = f"{error.args[0]:,} or more"
        raise WeightsDoNotFit(
            f"{source} does not fit the model: it has {stored:,} numbers, the model {built}; check its params"
        ) from None


def assign_arrays(variables: Mapping[str, keras.Variable], arrays: Mapping[str, np.ndarray], source: str) -> None:
    """Give every variable its array."""
    missing = sorted(set(variables) - set(arrays))
    unused = sorted(set(arrays) - set(variables))
    if missing or unused:
        raise WeightsDoNotFit(
            f"{source} does not fit the model: missing {missing[:5]}, not known to the model {unused[:5]} "
            f"({len(missing)} and {len(unused)} in all); it was written by another model or with other params"
        )
    for name, variable in variables.items():
        if tuple(variable.shape) != arrays[name].shape:
            raise WeightsDoNotFit(
                f"{source} does not fit the model: {name} has shape {arrays[name].shape} there and "
                f"{tuple(variable.shape)} in the model; check the params of the model"
            )
    for name, variable in variables.items():
        variable.assign(arrays[name])


class HostBuffer:
    """Arrays in memory of the host, one for each variable.

    Memory that is new costs page faults (0.36 s for 240 MB), memory that was used before does not (0.03 s).
    """

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}
        self._held: frozenset[str] = frozenset()

    def hold(self, variables: Mapping[str, keras.Variable]) -> dict[str, np.ndarray]:
        """Copy the values of some variables; until `release` no `fill` overwrites these arrays."""
        self.release()
        arrays = {name: self._copy(name, variable) for name, variable in variables.items()}
        self._held = frozenset(arrays)
        return arrays

    def release(self) -> None:
        """Let the arrays of `hold` be overwritten."""
        self._held = frozenset()

    def fill(self, variables: Mapping[str, keras.Variable]) -> dict[str, np.ndarray]:
        """Copy the values of named variables; wait for their computation."""
        # What does not fit is freed before anything else is allocated: the next stage may have another model.
        kept = {name: array for name, array in self._arrays.items() if name in variables}
        self._arrays = {name: array for name, array in kept.items() if array.shape == tuple(variables[name].shape)}
        del kept
        for name, variable in variables.items():
            self._copy(name, variable)
        return {name: self._arrays[name] for name in variables}

    def _copy(self, name: str, variable: keras.Variable) -> np.ndarray:
        # A view, which ends with this method: while there is one, no step may change the variable in place.
        value, array = backend.host_view(variable), self._arrays.get(name)
        if array is not None and (array.dtype != value.dtype or array.shape != value.shape):
            array = None
        if array is not None and name in self._held:
            if _are_equal(array, value):
                return array
            array = None
        if array is None:  # a new one, at an address that TensorFlow can use as it is
            memory = np.empty(value.nbytes + HOST_ALIGNMENT, np.uint8)
            begin = -memory.ctypes.data % HOST_ALIGNMENT
            array = memory[begin : begin + value.nbytes].view(value.dtype).reshape(value.shape)
            self._arrays[name] = array
        np.copyto(array, value)
        return array


def _are_equal(array: np.ndarray, value: np.ndarray) -> bool:
    """Return True if the bytes of two arrays are equal, those of NaN included."""
    ours, theirs = (np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in (array, value))
    parts = range(0, ours.size, _COMPARED_BYTES)
    return all(np.array_equal(ours[i : i + _COMPARED_BYTES], theirs[i : i + _COMPARED_BYTES]) for i in parts)
