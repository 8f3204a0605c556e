"""Samples of several sources in a row, and of the columns of tables."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tfaip.data.pipeline.definitions import PipelineMode, Sample

# More than anybody lists; their order takes 8 bytes each.
MAX_SAMPLES = 10**9


def place_of(index: int, ends: Sequence[int]) -> tuple[int, int]:
    """Return the number of the source that has a sample, and its index in this source.

    Args:
        index: of the sample among those of all sources.
        ends: for each source the index after its last sample.
    """
    number = bisect_right(ends, index)
    begin = ends[number - 1] if number else 0
    return number, index - begin


def scaled_sizes(sizes: list[int], ratios: list[float]) -> list[int]:
    """Return sizes in proportion to the ratios, none reduced: 10 and 100 at 1:2 give 50 and 100."""
    unit = max(size / ratio for size, ratio in zip(sizes, ratios, strict=True))
    scaled = [min(unit * ratio, MAX_SAMPLES) for ratio in ratios]
    return [max(size, round(wanted)) for size, wanted in zip(sizes, scaled, strict=True)]


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
