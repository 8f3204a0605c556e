"""Checks on untrusted zip files, before anything in them is read."""

from __future__ import annotations

import os
import zipfile
from io import BufferedReader
from pathlib import Path

from tfaip.util.reading import open_file

# A zip has a header of 30 bytes before each member; the list of members takes more than this for each of them.
_HEADER_BYTES = 30
_MOST_MEMBERS = 100_000


def open_stored(path: Path) -> BufferedReader:
    """Open a zip file that cannot expand: its members are not compressed, do not overlap, and fit into the file.

    Compressed members may expand to a thousand times their size, and members that overlap are read once for each
    name. What is written here has neither.

    Raises:
        OSError: it is missing, or not a regular file.
        ValueError: it can expand, or has an impossible number of members.
        zipfile.BadZipFile: it is not a zip.
    """
    file = open_file(path)
    try:
        with zipfile.ZipFile(file) as archive:
            _check(archive.infolist(), os.fstat(file.fileno()).st_size)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def require_uncompressed(path: Path) -> None:
    """Raise unless a zip file cannot expand, see `open_stored`."""
    open_stored(path).close()


def _check(members: list[zipfile.ZipInfo], size: int) -> None:
    if len(members) > _MOST_MEMBERS:
        raise ValueError(f"it has more than {_MOST_MEMBERS} members")
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
