"""Samples in tar files, in the layout of WebDataset: consecutive members with the same name belong to one sample."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

from tfaip.data.generators.decoding import VALUE_BYTES
from tfaip.data.generators.tables import PlacedFile, TableGenerator, refuse_missing
from tfaip.util.text import shorten, shorten_text

_BLOCK = 512
# Of a name, and of the records that precede a member.
_NAME_BYTES = 64 << 10
# Columns that a message names at most.
_MOST_SHOWN = 128
_REGULAR = (b"0", b"\0")
_LONG_NAME, _RECORDS, _SPARSE = b"L", b"x", b"S"
# Last part of an extension -> decoder.
_DECODERS = {
    **dict.fromkeys(("jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff"), "image"),
    **{"cls": "class", "txt": "text", "json": "json", "npy": "npy"},
}


class TarShards(TableGenerator):
    """Samples in tar files: `001.jpg`, `001.cls`, `002.jpg`, `002.cls` ... are two, with the columns `jpg` and `cls`.

    A column is the extension, that is what follows the first dot of the name (`seg.png`). Values are decoded by
    its last part: images, `cls` (a number), `txt`, `json`, `npy`; others are bytes, unless `decode` names a decoder.
    Nothing is unpacked: each value is read from its place in the file, which must not be compressed.
    """

    def open_table(self, path: str, columns: list[str]) -> _Shard:
        return _Shard(path, columns)

    def decoder_of(self, column: str) -> str | None:
        return self.decode.get(column) or _DECODERS.get(column.rpartition(".")[2].lower())


class _Shard:
    """Places of the values in a tar file: 16 bytes of memory for each."""

    def __init__(self, path: str, columns: list[str]) -> None:
        self._file = PlacedFile(path)
        self._places = {name: (array("q"), array("q")) for name in columns}
        self._size = 0
        found: set[str] = set()
        sample = None
        for name, begin, size in self._members():
            directory, _, base = name.removeprefix("./").rpartition("/")
            stem, dot, extension = base.partition(".")
            if not dot or not stem:  # no part of a sample, as in WebDataset
                continue
            if (directory, stem) != sample:
                sample = (directory, stem)
                self._begin_sample()
            if extension in self._places or len(found) < _MOST_SHOWN:
                found.add(extension)
            if extension in self._places:
                begins, sizes = self._places[extension]
                if sizes[-1] >= 0:
                    raise ValueError(f"it has two members {shorten(name)}")
                begins[-1], sizes[-1] = begin, size
        refuse_missing(path, [name for name in columns if name not in found], sorted(found))

    def __len__(self) -> int:
        return self._size

    def row(self, index: int) -> dict[str, Any]:
        values = {}
        for name, (begins, sizes) in self._places.items():
            begin, size = begins[index], sizes[index]
            if size < 0:
                raise ValueError(f"column {name} has no value")
            if size > VALUE_BYTES:
                raise ValueError(f"column {name} has {size:,} bytes, more than {VALUE_BYTES:,}")
            values[name] = self._file.read(size, begin)
            if len(values[name]) < size:
                raise ValueError(f"column {name}: the file has become shorter")
        return values

    def _begin_sample(self) -> None:
        self._size += 1
        for begins, sizes in self._places.values():
            begins.append(0)
            sizes.append(-1)

    def _members(self) -> Iterator[tuple[str, int, int]]:
        """Yield name, place and size of each regular file in the archive.

        The headers are read here and not by `tarfile`, which keeps an object for each member, and reads records of
        any size and depth that a file claims.
        """
        place = 0
        records: dict[str, str] = {}
        while place < self._file.size:
            header = self._file.read(_BLOCK, place)
            if header == bytes(_BLOCK):
                return
            name, kind, size = _parse_header(header)
            begin = place + _BLOCK
            if kind == _LONG_NAME:
                records["path"] = self._bytes(begin, size).rstrip(b"\0").decode("utf-8", "replace")
            elif kind == _RECORDS:
                records |= _parse_records(self._bytes(begin, size))
            else:
                size = _parse_size(records["size"]) if "size" in records else size
                if kind == _SPARSE or any(key.startswith("GNU.sparse.") for key in records):
                    raise ValueError("it has a sparse file: pack it without --sparse")
                if kind in _REGULAR and begin + size <= self._file.size:
                    yield records.get("path") or name, begin, size
                records = {}
            place = begin + -(-size // _BLOCK) * _BLOCK
        raise ValueError("it is cut off, or no tar file: the mark of its end is missing")

    def _bytes(self, begin: int, size: int) -> bytes:
        if size > _NAME_BYTES:
            raise ValueError(f"a header in it has {size:,} bytes, more than {_NAME_BYTES:,}")
        return self._file.read(size, begin)


def _parse_header(header: bytes) -> tuple[str, bytes, int]:
    """Return name, kind and size of a member.

    Raises:
        ValueError: if it is no header.
    """
    expected = sum(header) - sum(header[148:156]) + 8 * ord(" ")
    if len(header) < _BLOCK or _parse_octal(header[148:156]) != expected:
        raise ValueError("it is no tar file, or damaged")
    name = header[:100].partition(b"\0")[0]
    if header[257:263] == b"ustar\0" and header[345]:
        name = header[345:500].partition(b"\0")[0] + b"/" + name
    size = header[124:136]
    # Sizes from 8 GiB are binary.
    number = int.from_bytes(size[1:], "big") if size[0] == 0x80 else _parse_octal(size)
    return name.decode("utf-8", "replace"), header[156:157], number


def _parse_octal(field: bytes) -> int:
    text = field.strip(b" \0")
    if any(digit not in b"01234567" for digit in text):
        raise ValueError(f"it is no tar file, or damaged: {shorten_text(repr(field), 40)} is no number")
    return int(text or b"0", 8)


def _parse_size(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 19:
        raise ValueError(f"it is damaged: a size is {shorten(text)}")
    return int(text)


def _parse_records(content: bytes) -> dict[str, str]:
    """Return the records of an extended header: `LENGTH KEY=VALUE` and a line end, which values may have, too."""
    records = {}
    while content.strip(b"\0"):
        digits = content[:20].partition(b" ")[0]
        length = _parse_size(digits.decode("ascii", "replace"))
        if not len(digits) + 1 < length <= len(content):
            raise ValueError(f"it is damaged: a record has {length} bytes")
        key, _, value = content[len(digits) + 1 : length - 1].decode("utf-8", "replace").partition("=")
        records[key] = value
        content = content[length:]
    return records
