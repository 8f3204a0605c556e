"""Untrusted zip files, and the arrays in them (`.npz`), read with no more memory than their size."""

from __future__ import annotations

import math
import os
import zipfile
from io import BufferedReader
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tfaip.util.reading import open_file
from tfaip.util.text import shorten

if TYPE_CHECKING:
    import numpy as np

# Size of the header before each member; in the list of members each takes more.
_HEADER_BYTES = 30
_MAX_MEMBERS = 100_000
# Rows of an array without content, whose number the size of the file does not limit.
_MAX_EMPTY_ROWS = 1_000_000


def open_stored(path: Path) -> BufferedReader:
    """Open a zip file with members that are not compressed, do not overlap, and fit into the file.

    Compressed members may expand to a thousand times their size, and members that overlap are read
    once for each name. The files of the toolkit have neither.

    Raises:
        OSError: if it is missing, or not a regular file.
        ValueError: if it can expand, or has an impossible number of members.
        zipfile.BadZipFile: if it is not a zip.
    """
    file = open_file(path)
    try:
        with zipfile.ZipFile(file) as archive:
            _check_members(archive.infolist(), os.fstat(file.fileno()).st_size)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def require_uncompressed(path: Path) -> None:
    """Raise unless a zip file cannot expand, see `open_stored`."""
    open_stored(path).close()


def _check_members(members: list[zipfile.ZipInfo], size: int) -> None:
    if len(members) > _MAX_MEMBERS:
        raise ValueError(f"it has more than {_MAX_MEMBERS} members")
    end = 0
    for member in sorted(members, key=lambda member: member.header_offset):
        name = member.filename[:80]
        if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
            raise ValueError(f"{name} is compressed and may expand to any size; what we write never is")
        if member.header_offset < end:
            raise ValueError(f"{name} overlaps another member; what we write never does")
        end = member.header_offset + _HEADER_BYTES + member.file_size
        if end > size:
            raise ValueError(f"{name} claims to be larger than the file")


def read_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of a file that `np.savez` wrote, by name.

    Raises:
        OSError: if it is missing, or not a regular file.
        ValueError: if it holds anything else, is compressed, or claims to be larger than it is.
        zipfile.BadZipFile: if it is damaged.
    """
    from numpy.lib import format as npy

    arrays: dict[str, np.ndarray[Any, Any]] = {}
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
    from numpy.lib import format as npy

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
