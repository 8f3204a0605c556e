"""Several sources in a row, read as one: files, lists or generators."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

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
