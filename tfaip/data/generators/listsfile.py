"""Samples named by list files (one line, one sample), of which only the places of the lines are in memory."""

from __future__ import annotations

import os
import weakref
from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from tfaip.data.generators.tables import MAX_SAMPLES, place_of, scaled_sizes
from tfaip.data.pipeline.datagenerator import DataGenerator, DataGeneratorParams, missing_file, unreadable_file
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.errors import UsageError
from tfaip.params import option
from tfaip.params.fields import FieldError, check_fields
from tfaip.util.reading import MIB, TABLE_BYTES, open_file

if TYPE_CHECKING:
    import numpy as np


class ListsFileGeneratorParams(DataGeneratorParams, cls=":ListsFileGenerator"):
    """Samples named by the lines of text files."""

    lists: list[str] = option([], "Text files with one sample per line", common=True)
    list_ratios: list[float] | None = option(
        None,
        "Share of each list in the training samples, e.g. 1 3: a list that is too short for its share is "
        "repeated, and every line is used at least once per pass (None: every line once)",
        above=0,
    )
    ignore_prefix: str = option("#", "Beginning of lines that are not samples (empty: all lines are)")


P = TypeVar("P", bound=ListsFileGeneratorParams)


class ListsFileGenerator(DataGenerator[P]):
    """Generator with one sample per non-empty line. Override `sample` to change its form."""

    def sample(self, line: str, list_file: Path) -> Sample:
        """Return the sample of a line; default: the line is its inputs, targets and meta.

        Args:
            line: without white space around it.
            list_file: the file that contains it.
        """
        return Sample(inputs=line, targets=line, meta=line)

    @cached_property
    def _lists(self) -> list[tuple[Path, Sequence[str]]]:
        if not self.params.lists:
            raise missing_file("list", self.mode, "lists")
        return [(Path(name), _read_lines(Path(name), self.params.ignore_prefix)) for name in self.params.lists]

    @cached_property
    def _ends(self) -> list[int]:
        """For each list the index after its last sample."""
        sizes = [len(lines) for _, lines in self._lists]
        ratios = self.params.list_ratios
        if ratios is not None:
            check_fields(self.params)  # they may have been set after the constructor
            if len(ratios) != len(self.params.lists):
                raise FieldError("list_ratios", ratios, f"one number for each of the {len(self.params.lists)} lists")
            if self.mode is PipelineMode.TRAINING:
                sizes = scaled_sizes(sizes, ratios)
                if sum(sizes) > MAX_SAMPLES:
                    expected = f"ratios that give a pass at most {MAX_SAMPLES:,} samples, with every line in it"
                    raise FieldError("list_ratios", ratios, expected)
        return list(accumulate(sizes))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> Sample:
        number, line = place_of(index, self._ends)
        list_file, lines = self._lists[number]
        return self.sample(lines[line % len(lines)], list_file)


def _read_lines(path: Path, ignore_prefix: str) -> Sequence[str]:
    try:
        lines = TextLines(path, ignore_prefix)
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or an impossible file name
        raise unreadable_file("list", path, error, "lists") from error
    if not lines:
        raise UsageError(
            f"the list file {path} names no sample: it has {lines.number_of_lines} lines, all empty or comments"
        )
    return lines


BLOCK_BYTES = MIB
# A file up to this size is kept in memory, so that it may change while it is used.
KEPT_BYTES = 64 * MIB
_BOM = b"\xef\xbb\xbf"


class TextLines(Sequence[str]):
    """Lines of a UTF-8 file without white space around them, without empty lines and comments.

    A large file stays open and is read line by line: 12 bytes of memory a line. It must not change.

    Args:
        path: of the file. Lines end with CR, LF, or both.
        ignore_prefix: beginning of comments; empty: there are none.
        block_bytes: of the file that are looked at at a time.
        kept_bytes: size up to which the text is in memory.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not UTF-8.
    """

    def __init__(
        self, path: Path, ignore_prefix: str = "", block_bytes: int = BLOCK_BYTES, kept_bytes: int = KEPT_BYTES
    ) -> None:
        self._path = path
        file = open_file(path, TABLE_BYTES)
        self._close = weakref.finalize(self, file.close)
        self._descriptor = file.fileno()
        self._stamp = self._stamp_now()
        self._begins, self._lengths, self.number_of_lines = array("q"), array("I"), 0
        for offset, block in _blocks(self._descriptor, self._stamp[0], block_bytes):
            self.number_of_lines += _count_lines(block)
            begins, lengths = _find_lines(block, ignore_prefix)
            self._begins.frombytes((begins + offset).tobytes())
            self._lengths.frombytes(lengths.tobytes())
        self._text: bytes | None = None
        if self._stamp[0] <= kept_bytes:
            self._text = os.pread(self._descriptor, self._stamp[0], 0)
            self._check()
            self._close()

    def __len__(self) -> int:
        return len(self._begins)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        """Return a line.

        Raises:
            OSError: the file has changed since it was opened.
        """
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        begin, length = self._begins[index], self._lengths[index]
        if self._text is not None:
            line = self._text[begin : begin + length]
        else:
            line = os.pread(self._descriptor, length, begin)
            self._check()
        return line.decode().strip()

    def _check(self) -> None:
        if self._stamp_now() != self._stamp:
            raise OSError(f"{self._path} has changed while it was read: write a new file instead")

    def _stamp_now(self) -> tuple[int, int]:
        found = os.fstat(self._descriptor)
        return found.st_size, found.st_mtime_ns


def _count_lines(block: bytes) -> int:
    number = block.count(b"\n") + block.count(b"\r") - block.count(b"\r\n")
    return number + (not block.endswith((b"\n", b"\r")))


def _find_lines(block: bytes, ignore_prefix: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the begins and the lengths of the lines of a block that count.

    Args:
        block: whole lines.
        ignore_prefix: beginning of comments; empty: there are none.
    """
    import numpy as np  # not at the top: params modules import this one

    block.decode()  # raises an error if it is not UTF-8
    values = np.frombuffer(block, np.uint8)
    ends = np.append(np.flatnonzero((values == ord("\n")) | (values == ord("\r"))), len(values))
    begins = np.concatenate([[0], ends[:-1] + 1])
    # Without empty lines, as that between CR and LF.
    filled = ends > begins
    begins, ends = begins[filled], ends[filled]
    # Most lines begin with a letter that is neither white space nor the beginning of a comment.
    first = values[begins]
    plain = (first > ord(" ")) & (first < 128) & (first != (ignore_prefix.encode() or b" ")[0])
    counts = plain.copy()
    for number in np.flatnonzero(~plain):
        line = block[begins[number] : ends[number]].decode().strip()
        counts[number] = bool(line) and not (ignore_prefix and line.startswith(ignore_prefix))
    return begins[counts].astype(np.int64), (ends - begins)[counts].astype(np.uint32)


def _blocks(descriptor: int, end_of_file: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of whole lines, each with its place in the file; what is added to the file meanwhile is left out."""
    offset = begin = len(_BOM) if os.pread(descriptor, len(_BOM), 0) == _BOM else 0
    rest = b""
    while read := os.pread(descriptor, min(max(size, len(rest)), end_of_file - begin), begin):
        begin += len(read)
        block = rest + read
        # The last byte stays: after a CR an LF may follow, which belongs to the same line.
        end = max(block.rfind(b"\n", 0, -1), block.rfind(b"\r", 0, -1)) + 1
        if block[end - 1 : end + 1] == b"\r\n":
            end += 1
        rest = block[end:]
        if end:
            yield offset, block[:end]
            offset += end
    if rest:
        yield offset, rest
