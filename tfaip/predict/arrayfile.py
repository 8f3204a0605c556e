"""Arrays of a `.npz` file that may come from anywhere: what is read takes no more memory than the file has bytes."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from tfaip.util.archives import open_stored
from tfaip.util.text import shorten

Array = np.ndarray[Any, Any]
_SUFFIX = ".npy"
# Rows of an array without content, of which no file proves how many there are.
_MOST_EMPTY_ROWS = 1_000_000


def read_arrays(path: Path) -> dict[str, Array]:
    """Return the arrays of a file that `np.savez` wrote, by name.

    Raises:
        OSError: it is missing, or not a regular file.
        ValueError: it holds something else, is compressed, or claims to be larger than it is.
        zipfile.BadZipFile: it is damaged.
    """
    arrays: dict[str, Array] = {}
    with open_stored(path) as file, zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(_SUFFIX)
            if name == member.filename or name in arrays:
                raise ValueError(f"{shorten(member.filename)} is no array, or the name of two")
            with archive.open(member) as content:
                _check_header(content, member.file_size, name)
            with archive.open(member) as content:
                arrays[name] = np.lib.format.read_array(content, allow_pickle=False)
    return arrays


def _check_header(content: IO[bytes], size: int, name: str) -> None:
    """Raise unless an array has the size that its header claims."""
    version = np.lib.format.read_magic(content)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(content)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(content)
    else:
        raise ValueError(f"{shorten(name)} has the unknown version {version}")
    if dtype.hasobject:
        raise ValueError(f"{shorten(name)} holds Python objects")
    if dtype.itemsize * math.prod(shape) != size - content.tell():
        raise ValueError(f"{shorten(name)} has another size than its shape {shorten(shape)}")
    rows = math.prod(length for length in shape if length)
    if rows > max(size, _MOST_EMPTY_ROWS):
        raise ValueError(f"{shorten(name)} has the shape {shorten(shape)}, which is not possible")
