"""Samples named by list files: one line, one sample."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

from tfaip.data.generators.joined import MAX_SAMPLES, place_of, scaled_sizes
from tfaip.data.pipeline.datagenerator import DataGenerator, DataGeneratorParams, missing_file, unreadable_file
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.errors import UsageError
from tfaip.params import option
from tfaip.params.fields import FieldError, check_fields


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
    # Loads NumPy, which the params do without.
    from tfaip.data.generators.textlines import TextLines

    try:
        lines = TextLines(path, ignore_prefix)
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or an impossible file name
        raise unreadable_file("list", path, error, "lists") from error
    if not lines:
        raise UsageError(
            f"the list file {path} names no sample: it has {lines.number_of_lines} lines, all empty or comments"
        )
    return lines
