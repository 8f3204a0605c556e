"""Curves of learning rates, scores and scheduled values as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from tfaip.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curve = Sequence[tuple[float, float]]


def draw(x_label: str, panels: Mapping[str, Mapping[str, Curve]]) -> Figure:
    """Draw panels of curves below each other, on the same epochs."""
    try:
        # Without pyplot, which has global state.
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise UsageError("a picture needs matplotlib: pip install matplotlib") from error

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            file = BytesIO()
            self.savefig(file, format="png")
            return file.getvalue()

    figure = Picture(figsize=(8.0, 2.7 * len(panels) + 0.4), layout="constrained")
    axes = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
    for (label, curves), axis in zip(panels.items(), axes, strict=True):
        for i, (name, curve) in enumerate(curves.items()):
            # A later curve is thinner, so that both are visible where they are equal.
            axis.plot([x for x, _ in curve], [y for _, y in curve], ".-", lw=2.5 / (i + 1), label=name)
        values = sorted(y for curve in curves.values() for _, y in curve)
        if values and values[0] > 0 and values[len(values) // 2] * 10 < values[-1]:
            axis.set_yscale("log")
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
        axis.legend()
    axes[-1].set_xlabel(x_label)
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure
