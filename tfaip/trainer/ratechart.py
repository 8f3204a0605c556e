"""A picture of learning rates and scores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tfaip.errors import UsageError
from tfaip.util.text import shorten_text
from tfaip.util.textplot import Curve, needs_log_scale

# So few points are shown as such.
_FEW = 60


def write_png(path: Path, x_label: str, rates: Mapping[str, Curve], scores: Mapping[str, Curve] | None = None) -> None:
    """Draw rates, and scores below them on the same epochs; all numbers are finite.

    Args:
        path: of the PNG.
        x_label: what the first numbers of the points are.
        rates: name -> (epoch, rate).
        scores: name -> (epoch, score).

    Raises:
        UsageError: matplotlib is not installed, or the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise UsageError("--png needs matplotlib: pip install 'tfaip[plot]'") from error
    panels = {"learning rate": rates, **({"score": scores} if scores else {})}
    figure = Figure(figsize=(8.0, 2.7 * len(panels) + 0.4), layout="constrained")
    axes = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
    for (label, curves), axis in zip(panels.items(), axes, strict=True):
        for i, (name, curve) in enumerate(curves.items()):
            # A later curve is thinner, so that both are seen where they are equal.
            marker = "." if len(curve) < _FEW else ""
            axis.plot([x for x, _ in curve], [y for _, y in curve], marker=marker, lw=2.5 / (i + 1), label=name)
        if needs_log_scale([y for curve in curves.values() for _, y in curve]):
            axis.set_yscale("log")
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
        axis.legend()
    axes[-1].set_xlabel(x_label)
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    try:
        figure.savefig(path, format="png", dpi=100)
    except OSError as error:
        raise UsageError(f"{shorten_text(str(path), 160)} cannot be written: {error.strerror}") from error
