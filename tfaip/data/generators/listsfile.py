"""Samples named by list files: one line, one sample."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.generators.files import no_file, unreadable
from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.errors import UsageError
from tfaip.params import pai_dataclass, pai_meta
from tfaip.util.reading import TABLE_BYTES, read_bytes


@pai_dataclass
@dataclass
class ListsFileGeneratorParams(DataGeneratorParams):
    """Samples named by the lines of text files."""

    lists: list[str] = field(default_factory=list, metadata=pai_meta(help="Text files with one sample per line."))
    list_ratios: list[float] | None = field(
        default=None,
        metadata=pai_meta(
            help="Training only: share of each list in the samples, e.g. 1 3. A list that is too short for "
            "its share is repeated; every line comes at least once per pass. None: every line once."
        ),
    )
    ignore_prefix: str = field(
        default="#",
        metadata=pai_meta(help="Lines that start with this are no samples; empty: all lines are."),
    )

    @staticmethod
    def cls() -> type[DataGenerator[Any]]:
        return ListsFileGenerator


P = TypeVar("P", bound=ListsFileGeneratorParams)


class ListsFileGenerator(DataGenerator[P]):
    """Makes a sample of each line that is not empty. Override `sample` to give it another form."""

    def sample(self, line: str, list_file: Path) -> Sample:
        """The sample of a line; default: the line is inputs, targets and meta, for processors to load.

        Args:
            line: without white space around it.
            list_file: where it stands.
        """
        return Sample(inputs=line, targets=line, meta=line)

    @cached_property
    def _lists(self) -> list[tuple[Path, list[str]]]:
        if not self.params.lists:
            raise no_file("list", self.mode, "lists")
        return [(Path(name), _read_lines(Path(name), self.params.ignore_prefix)) for name in self.params.lists]

    @cached_property
    def _ends(self) -> list[int]:
        """For each list the index behind its last sample."""
        sizes = [len(lines) for _, lines in self._lists]
        ratios = self.params.list_ratios
        if ratios is not None:
            _check_ratios(ratios, self.params.lists)
            if self.mode is PipelineMode.TRAINING:
                sizes = _scaled(sizes, ratios)
        return list(accumulate(sizes))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> Sample:
        number = bisect_right(self._ends, index)
        list_file, lines = self._lists[number]
        begin = self._ends[number - 1] if number else 0
        return self.sample(lines[(index - begin) % len(lines)], list_file)


def _read_lines(path: Path, ignore_prefix: str) -> list[str]:
    try:
        lines = [line.strip() for line in read_bytes(path, TABLE_BYTES).decode("utf-8").splitlines()]
    except (OSError, ValueError) as error:  # not UTF-8, or a name that no file can have
        raise unreadable("list", path, error) from error
    samples = [line for line in lines if line and not (ignore_prefix and line.startswith(ignore_prefix))]
    if not samples:
        raise UsageError(f"the list file {path} names no sample: it has {len(lines)} lines, all empty or comments")
    return samples


def _check_ratios(ratios: list[float], lists: list[str]) -> None:
    if len(ratios) != len(lists) or not all(ratio > 0 and math.isfinite(ratio) for ratio in ratios):
        raise UsageError(f"list_ratios is {ratios}, expected one positive number for each of the {len(lists)} lists")


def _scaled(sizes: list[int], ratios: list[float]) -> list[int]:
    """Sizes in proportion to the ratios, none smaller than it is: sizes 10 and 100 at 1:2 give 50 and 100."""
    unit = max(size / ratio for size, ratio in zip(sizes, ratios, strict=True))
    return [max(size, round(unit * ratio)) for size, ratio in zip(sizes, ratios, strict=True)]
