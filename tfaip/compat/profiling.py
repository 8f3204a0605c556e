"""Time and profile of a block of code."""

from __future__ import annotations

import cProfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self


class MeasureTime:
    """Context that measures the seconds of its block."""

    def __init__(self) -> None:
        self.duration = 0.0
        """Seconds of the block; 0 until it has ended."""
        self._begin = 0.0

    def __enter__(self) -> Self:
        self._begin = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self.duration = time.perf_counter() - self._begin


@contextmanager
def profile(path: str | Path) -> Iterator[cProfile.Profile]:
    """Context, or decorator, that profiles its block; `python -m pstats PATH` shows the file.

    Args:
        path: of the file that is written after the block, also if it failed.
    """
    with cProfile.Profile() as profiler:
        try:
            yield profiler
        finally:
            profiler.dump_stats(path)
