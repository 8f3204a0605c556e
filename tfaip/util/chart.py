"""Curves of learning rates, scores and scheduled values, as text and as pictures."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from tfaip.errors import UsageError
from tfaip.util.text import shorten_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curve = Sequence[tuple[float, float]]

MARKS = "*o+x" + "#@%&" + string.ascii_letters.replace("o", "").replace("x", "")
DPI = 100
# Fewer points than this are marked.
_FEW = 60


def write_png(path: Path, x_label: str, panels: Mapping[str, Mapping[str, Curve]]) -> None:
    """Draw panels of curves below each other to a PNG file."""
    figure = draw(x_label, panels, "--png")
    try:
        figure.savefig(path, format="png", dpi=DPI)
    except OSError as error:
        raise UsageError(f"{shorten_text(str(path), 160)} cannot be written: {error.strerror}") from error
    except ValueError as error:  # differences of numbers that have no room in a float
        raise UsageError(f"--png cannot draw these curves: {shorten_text(str(error), 120)}") from error


def draw(x_label: str, panels: Mapping[str, Mapping[str, Curve]], wanted_by: str) -> Figure:
    """Draw panels of curves below each other, on the same epochs."""
    try:
        # Without pyplot, which has global state.
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise UsageError(f"{wanted_by} needs matplotlib: pip install matplotlib") from error
    if not panels:
        raise UsageError(f"{wanted_by} has nothing to draw: no run has such values")

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            file = BytesIO()
            self.savefig(file, format="png", dpi=DPI)
            return file.getvalue()

    figure = Picture(figsize=(8.0, 2.7 * len(panels) + 0.4), layout="constrained")
    axes = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
    for (label, curves), axis in zip(panels.items(), axes, strict=True):
        _draw_panel(axis, label, curves)
    axes[-1].set_xlabel(x_label)
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _draw_panel(axis: Axes, label: str, curves: Mapping[str, Curve]) -> None:
    for i, (name, curve) in enumerate(curves.items()):
        # A later curve is thinner, so that both are visible where they are equal.
        marker = "." if len(curve) < _FEW else ""
        axis.plot([x for x, _ in curve], [y for _, y in curve], marker=marker, lw=2.5 / (i + 1), label=_label(name))
    values = [y for curve in curves.values() for _, y in curve]
    if values and needs_log_scale(values):
        axis.set_yscale("log")
    axis.set_ylabel(_label(label))
    axis.grid(alpha=0.3)
    axis.legend()


def _label(name: str) -> str:
    """Return a name as matplotlib shows it: without formulas between dollars, and not hidden for its first letter."""
    text = shorten_text(name, 160).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def text_plot(curves: Mapping[str, Curve], width: int = 70, height: int = 12) -> str:
    """Draw curves in one frame, with the values at its edges; several curves with a legend."""
    xs = [x for curve in curves.values() for x, _ in curve]
    ys = [y for curve in curves.values() for _, y in curve]
    if not ys:
        return "(nothing to plot)"
    low, high, begin, end = min(ys), max(ys), min(xs), max(xs)
    scale = math.log if needs_log_scale(ys) else float
    rows = [[" "] * width for _ in range(height)]
    for mark, curve in reversed(list(zip(cycle(MARKS), curves.values(), strict=False))):
        for x, y in curve:
            row = _cell(scale(y), scale(low), scale(high), height)
            rows[height - 1 - row][_cell(x, begin, end, width)] = mark
    labels = [""] * height
    labels[-1] = f"{low:.4g}"
    if high > low:
        labels[0] = f"{high:.4g}"
    indent = max(map(len, labels))
    lines = [f"{label:>{indent}} |{''.join(row).rstrip()}" for label, row in zip(labels, rows, strict=True)]
    first, last = f"{begin:.4g}", f"{end:.4g}"
    lines.append(f"{'':>{indent}} +{'-' * width}")
    lines.append(f"{'':>{indent}}  {first}{last:>{width - len(first)}}")
    if len(curves) > 1:
        lines.append("   ".join(f"{mark} {name}" for mark, name in zip(cycle(MARKS), curves, strict=False)))
    return "\n".join(lines)


def needs_log_scale(values: Sequence[float]) -> bool:
    """Return True if half of the values are below a tenth of the largest one."""
    return min(values) > 0 and sorted(values)[len(values) // 2] * 10 < max(values)


def _cell(value: float, low: float, high: float, cells: int) -> int:
    """Return the index of the cell that a value falls into."""
    if math.isinf(high - low):
        value, low, high = value / 2, low / 2, high / 2
    return round((value - low) / (high - low) * (cells - 1)) if high > low else 0
