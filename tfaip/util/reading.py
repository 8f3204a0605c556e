"""Bounded reading: regular files of a limited size, JSON of limited depth and number of values, zip files and arrays.

Every file that a user, a run or a model directory names is opened here. A refused one (a directory, a pipe, a device,
too large) raises an `OSError` with a reason, as a missing one does, so that a reader has one kind of failure to report.
"""

import errno
import json
import os
import re
import stat
from collections import Counter
from io import BufferedReader
from pathlib import Path
from typing import Any

from tfaip.errors import UsageError
from tfaip.util.text import shorten, shorten_text

MIB = 1 << 20
# Params, config files, manifests.
DOCUMENT_BYTES = 16 * MIB
# Files that grow with the epochs of a run: its history, and the state of a checkpoint with it.
RECORDS_BYTES = 256 * MIB
# Lists and tables of samples.
TABLE_BYTES = 1024 * MIB
# Data may expand to a multiple of their file, at least to the first (a gray scan of A0 with 600 dpi has 532 MiB), at
# most to the second.
EXPANDED_BYTES = 576 * MIB, 4096 * MIB
EXPANSION = 100

# Params are some ten levels deep. Functions that walk through a document may recurse at each level.
MAX_DEPTH = 64
# Values of a JSON document; each takes some 100 bytes, however short its text is.
MAX_VALUES = 8_000_000


def open_file(path: str | os.PathLike[str], limit: int | None = None, follow_links: bool = True) -> BufferedReader:
    """Open a regular file for reading; a pipe or device is neither waited for nor read."""
    try:
        links = 0 if follow_links else os.O_NOFOLLOW
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | links)
    except ValueError as error:
        raise OSError(errno.EINVAL, "its name holds a NUL character") from error
    try:
        status = os.fstat(descriptor)
        _require_regular(status.st_mode, "it")
        if limit is not None and status.st_size > limit:
            raise OSError(errno.EFBIG, f"it has more than {limit // MIB} MiB, the most that is read of such a file")
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: str | os.PathLike[str], limit: int = DOCUMENT_BYTES) -> bytes:
    """Return the content of a regular file of at most `limit` bytes."""
    with open_file(path, limit) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(size + 1)
    if len(content) > size:  # a file of the system, whose size is not known
        raise OSError(errno.EFBIG, "it is larger than it says")
    return content


def read_text(path: str | os.PathLike[str], limit: int = DOCUMENT_BYTES) -> str:
    """Return the content of a text file in UTF-8, without a byte-order mark."""
    name = shorten_text(os.fspath(path), 200)
    try:
        return read_bytes(path, limit).decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{name}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: is not a text file in UTF-8") from error


def expansion_limit(size: int) -> int:
    """Return the bytes to which the data in `size` bytes of a file may expand."""
    least, most = EXPANDED_BYTES
    return min(max(least, EXPANSION * size), most)


def require_regular_files(directory: Path) -> int:
    """Raise unless a directory, to be read by a library, holds only files and directories."""
    size = 0
    for root, _, names in os.walk(directory):
        for name in names:
            status = os.stat(os.path.join(root, name))
            _require_regular(status.st_mode, shorten_text(name))
            size += status.st_size
    return size


def parse_json(text: str, name: str) -> dict[str, Any]:
    """Parse a JSON object."""
    name = shorten_text(name, 200)
    # Counted in the text, which costs less memory than the values would.
    if text.count(",") + text.count("[") + text.count("{") > MAX_VALUES:
        raise UsageError(f"{name}: has more than {MAX_VALUES} values")
    try:
        document = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise UsageError(f"{name}: broken JSON in line {error.lineno}, column {error.colno}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name}: broken JSON: {shorten_text(str(error), 120)}") from error
    if not isinstance(document, dict):
        raise UsageError(f"{name}: expected a JSON object, got {type(document).__name__}")
    if not is_shallow(document):
        raise UsageError(f"{name}: JSON is nested too deeply (more than {MAX_DEPTH} levels)")
    return document


def read_json(path: str | os.PathLike[str], limit: int = DOCUMENT_BYTES) -> dict[str, Any]:
    """Return the JSON object in a file."""
    return parse_json(read_text(path, limit), os.fspath(path))


def is_shallow(value: Any, max_depth: int = MAX_DEPTH) -> bool:
    """Return True if lists and dicts are nested at most `max_depth` levels deep; not recursive."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(max_depth):
        items = [item for at in level for item in (at.values() if isinstance(at, dict) else at)]
        level = [item for item in items if isinstance(item, dict | list)]
    return not level


def parse_whole_number(text: str) -> int | None:
    """Return the number of at most nine decimal digits; None for any other text."""
    return int(text) if re.fullmatch("0|[1-9][0-9]{0,8}", text) else None


def _require_regular(mode: int, name: str) -> None:
    if not stat.S_ISREG(mode):
        kind = "a directory" if stat.S_ISDIR(mode) else "a pipe or device"
        raise OSError(errno.EINVAL, f"{name} is {kind}, not a regular file")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"key {shorten(twice)} is given twice")
    return found


# Size of the header before each member.
_HEADER_BYTES = 30


def open_stored(path: Path) -> BufferedReader:
    """Open a zip file with members that are not compressed, do not overlap, and fit into the file.

    Compressed members may expand to a thousand times their size, and members that overlap are read
    once for each name. The files of the toolkit have neither.
    """
    import zipfile

    file = open_file(path)
    try:
        with zipfile.ZipFile(file) as archive:
            members, end = archive.infolist(), 0
        for member in sorted(members, key=lambda member: member.header_offset):
            name = member.filename[:80]
            if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
                raise ValueError(f"{name} is compressed and may expand to any size; what we write never is")
            if member.header_offset < end:
                raise ValueError(f"{name} overlaps another member; what we write never does")
            end = member.header_offset + _HEADER_BYTES + member.file_size
            if end > os.fstat(file.fileno()).st_size:
                raise ValueError(f"{name} claims to be larger than the file")
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file
