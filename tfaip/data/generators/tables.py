"""Samples of several sources in a row, and of the columns of tables."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from tfaip.data.pipeline.datagenerator import missing_file, unreadable_file
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.errors import UsageError
from tfaip.params.fields import FieldError, check_fields

# More than anybody lists; their order takes 8 bytes each.
MAX_SAMPLES = 10**9


class Joined:
    """Sources in a row: `joined[index]` is the source that has a sample, and the index of the sample in it.

    Args:
        sources: the sources.
        sizes: the number of samples of each.
    """

    def __init__(self, sources: Sequence[Any], sizes: Iterable[int]) -> None:
        self._sources = sources
        self._ends = list(accumulate(sizes))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> tuple[Any, int]:
        number = bisect_right(self._ends, index)
        return self._sources[number], index - (self._ends[number - 1] if number else 0)


def open_tables(open_table: Callable[..., Any], kind: str, params: Any, mode: PipelineMode) -> Joined:
    """Return the rows of the files of a generator.

    Args:
        open_table: opens a file, and raises any error.
        kind: of the files, for messages.
        params: name the files and their columns.
        mode: purpose of the samples.
    """
    if not params.files:
        raise missing_file(kind, mode, "files")
    tables = []
    for path in params.files:
        try:
            tables.append(open_table(path, params, mode))
        except UsageError:
            raise
        except Exception as error:  # the libraries raise errors of many classes
            raise unreadable_file(kind, path, error, "files") from error
    return Joined(tables, map(len, tables))


def check_ratios(params: Any, name: str, count: int) -> None:
    """Raise unless a field has a number for each of `count` sources."""
    check_fields(params)  # they may have been set after the constructor
    ratios = getattr(params, name)
    if len(ratios) != count:
        raise FieldError(name, ratios, f"one number for each of the {count} sources")


def scaled_sizes(sizes: list[int], ratios: list[float], params: Any, name: str) -> list[int]:
    """Return sizes in proportion to the ratios, none reduced: 10 and 100 at 1:2 give 50 and 100.

    Raises:
        FieldError: if these are too many samples; `params` have the ratios in the field `name`.
    """
    unit = max(size / ratio for size, ratio in zip(sizes, ratios, strict=True))
    scaled = [min(unit * ratio, MAX_SAMPLES) for ratio in ratios]
    sizes = [max(size, round(wanted)) for size, wanted in zip(sizes, scaled, strict=True)]
    if sum(sizes) > MAX_SAMPLES:
        expected = f"ratios that give a pass at most {MAX_SAMPLES:,} samples, with every one in it"
        raise FieldError(name, getattr(params, name), expected)
    return sizes


def missing_columns(params: Any, mode: PipelineMode, found: Collection[str]) -> list[str]:
    """Return the columns that a table lacks; for a prediction it need not have those of the targets.

    Args:
        params: name the columns, `input_columns` and `target_columns`.
        mode: purpose of the samples.
        found: the columns of the table.
    """
    needed = params.input_columns if mode is PipelineMode.PREDICTION else columns_of(params)
    return [name for name in dict.fromkeys(needed) if name not in found]


def columns_of(params: Any) -> list[str]:
    """Return the names of all columns that params name, each once."""
    return list(dict.fromkeys([*params.input_columns, *params.target_columns]))


def sample_of(values: Mapping[str, Any], params: Any, mode: PipelineMode, meta: Any = None) -> Sample:
    """Return the sample of a row; for a prediction without the columns of the targets these are None.

    Args:
        values: of the row, by column.
        params: as in `missing_columns`.
        mode: purpose of the sample.
        meta: of the sample.
    """
    has_targets = all(name in values for name in params.target_columns)
    is_unlabelled = mode is PipelineMode.PREDICTION and not (has_targets and params.target_columns)
    targets = None if is_unlabelled else {name: values[name] for name in params.target_columns}
    return Sample(inputs={name: values[name] for name in params.input_columns}, targets=targets, meta=meta)
