"""Samples named by list files (one line, one sample), kept in memory with 8 bytes for each line."""

import re
from array import array
from codecs import BOM_UTF8
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from tfaip.data.pipeline.datagenerator import (
    DataGenerator,
    DataGeneratorParams,
    Joined,
    check_ratios,
    open_files,
    scaled_sizes,
)
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.errors import UsageError
from tfaip.params import option
from tfaip.util.reading import TABLE_BYTES, read_bytes


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
        params = self.params

        def open_list(path: str) -> tuple[Path, TextLines]:
            lines = TextLines(Path(path), params.ignore_prefix)
            if not lines:
                raise UsageError(f"the list file {path} names no sample: all its lines are empty or comments")
            return Path(path), lines

        lists = open_files(open_list, "list", params, self.mode, "lists")
        sizes = [len(lines) for _, lines in lists]
        if params.list_ratios is not None:
            check_ratios(params, "list_ratios", len(lists))
            if self.mode is PipelineMode.TRAINING:
                sizes = scaled_sizes(sizes, params.list_ratios)
        return Joined(lists, sizes)

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int) -> Sample:
        (list_file, lines), line = self._lines[index]
        return self.sample(lines[line % len(lines)], list_file)


class TextLines:
    """Lines of a UTF-8 file without white space around them, without empty lines and comments.

    Args:
        path: of the file. Lines end with CR, LF, or both.
        ignore_prefix: beginning of comments; empty: there are none.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not UTF-8.
    """

    def __init__(self, path: Path, ignore_prefix: str = "") -> None:
        self._content = read_bytes(path, TABLE_BYTES).removeprefix(BOM_UTF8)
        self._begins, self._ends = array("I"), array("I")
        for found in re.compile(rb"[^\r\n]+").finditer(self._content):
            line = found[0].decode().strip()
            if line and not (ignore_prefix and line.startswith(ignore_prefix)):
                self._begins.append(found.start())
                self._ends.append(found.end())

    def __len__(self) -> int:
        return len(self._begins)

    def __getitem__(self, index: int) -> str:
        return self._content[self._begins[index] : self._ends[index]].decode().strip()
