"""Curves as text, for terminals and logs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

MARKS = "*o+x"

Curve = Sequence[tuple[float, float]]


def text_plot(curves: Mapping[str, Curve], width: int = 70, height: int = 12) -> str:
    """Curves in one frame, with the values at its edges; several curves with a legend.

    Args:
        curves: name -> points (x, y) with finite numbers; an earlier curve lies above a later one.
        width: columns of the frame.
        height: rows of the frame.
    """
    points = [point for curve in curves.values() for point in curve]
    if not points:
        return "(nothing to plot)"
    low, high = min(y for _, y in points), max(y for _, y in points)
    begin, end = min(x for x, _ in points), max(x for x, _ in points)
    scale = math.log if needs_log_scale([y for _, y in points]) else float
    rows = [[" "] * width for _ in range(height)]
    for mark, curve in reversed(list(zip(MARKS, curves.values(), strict=False))):
        for x, y in curve:
            row = _cell(scale(y), scale(low), scale(high), height)
            rows[height - 1 - row][_cell(x, begin, end, width)] = mark
    labels = {height - 1: f"{low:.4g}", **({0: f"{high:.4g}"} if high > low else {})}
    indent = max(map(len, labels.values()))
    lines = [f"{labels.get(i, ''):>{indent}} |{''.join(row).rstrip()}" for i, row in enumerate(rows)]
    first, last = f"{begin:.4g}", f"{end:.4g}"
    lines.append(f"{'':>{indent}} +{'-' * width}")
    lines.append(f"{'':>{indent}}  {first}{last:>{width - len(first)}}")
    if len(curves) > 1:
        lines.append("   ".join(f"{mark} {name}" for mark, name in zip(MARKS, curves, strict=False)))
    return "\n".join(lines)


def needs_log_scale(values: Sequence[float]) -> bool:
    """Whether most values would lie on the ground of a linear scale: half of them are below a tenth of the largest."""
    return min(values) > 0 and statistics.median(values) * 10 < max(values)


def _cell(value: float, low: float, high: float, cells: int) -> int:
    return round((value - low) / (high - low) * (cells - 1)) if high > low else 0
