"""Samples named by list files (one line, one sample), of which only the places of the lines are in memory."""

from __future__ import annotations

import os
import weakref
from array import array
from codecs import BOM_UTF8
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tfaip.data.pipeline.datagenerator import (
    DataGenerator,
    DataGeneratorParams,
    Joined,
    check_ratios,
    missing_file,
    scaled_sizes,
    unreadable_file,
)
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.errors import UsageError
from tfaip.params import option
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
    def _lines(self) -> Joined:
        params, lists = self.params, []
        if not params.lists:
            raise missing_file("list", self.mode, "lists")
        for path in map(Path, params.lists):
            try:
                lines = TextLines(path, params.ignore_prefix)
            except (OSError, ValueError) as error:  # ValueError: not UTF-8, or an impossible file name
                raise unreadable_file("list", path, error, "lists") from error
            if not lines:
                raise UsageError(f"the list file {path} names no sample: all its lines are empty or comments")
            lists.append((path, lines))
        sizes = [len(lines) for _, lines in lists]
        if params.list_ratios is not None:
            check_ratios(params, "list_ratios", len(lists))
            if self.mode is PipelineMode.TRAINING:
                sizes = scaled_sizes(sizes, params.list_ratios, params, "list_ratios")
        return Joined(lists, sizes)

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int) -> Sample:
        (list_file, lines), line = self._lines[index]
        return self.sample(lines[line % len(lines)], list_file)


BLOCK_BYTES = MIB
# A file up to this size is kept in memory, so that it may change while it is used.
KEPT_BYTES = 64 * MIB


class TextLines:
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
        self._file = open_file(path, TABLE_BYTES)
        self._close = weakref.finalize(self, self._file.close)
        self._stamp = self._stamp_now()
        self._begins, self._lengths = array("q"), array("I")
        offset = len(BOM_UTF8) if self._file.read(len(BOM_UTF8)) == BOM_UTF8 else 0
        self._file.seek(offset)
        while block := self._file.read(block_bytes) + self._file.readline():  # whole lines
            begins, lengths = _find_lines(block, ignore_prefix)
            self._begins.frombytes((begins + offset).tobytes())
            self._lengths.frombytes(lengths.tobytes())
            offset += len(block)
        self._text: bytes | None = None
        if offset <= kept_bytes:
            self._text = os.pread(self._file.fileno(), offset, 0)
        self._check()
        if self._text is not None:
            self._close()

    def __len__(self) -> int:
        return len(self._begins)

    def __getitem__(self, index: int) -> str:
        """Return a line.

        Raises:
            OSError: the file has changed since it was opened.
        """
        begin, length = self._begins[index], self._lengths[index]
        if self._text is not None:
            line = self._text[begin : begin + length]
        else:
            line = os.pread(self._file.fileno(), length, begin)
            self._check()
        return line.decode().strip()

    def _check(self) -> None:
        if self._stamp_now() != self._stamp:
            raise OSError(f"{self._path} has changed while it was read: write a new file instead")

    def _stamp_now(self) -> tuple[int, int]:
        found = os.fstat(self._file.fileno())
        return found.st_size, found.st_mtime_ns


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
