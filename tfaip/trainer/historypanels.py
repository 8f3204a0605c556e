"""Panels of a plot of a history: which of its values are drawn together."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from tfaip.errors import UsageError
from tfaip.util.chart import Curve
from tfaip.util.text import shorten_text

_MEASURED_ON = re.compile(r"^(?:val_|lav_l\d+_)")
_OTHER_NAME = "loss/mean_epoch"


def panels_of(curves: Mapping[str, Curve], names: Sequence[str]) -> dict[str, dict[str, Curve]]:
    """Return the curves of each panel.

    Args:
        curves: (epoch, value) by the name of the value; what is not finite is left out.
        names: of panels, without the prefixes of validation and LAV, or of single values; none: all
            panels, without the other name of the loss.

    Raises:
        UsageError: if there is no value of a name.
    """
    finite = {name: [point for point in curve if math.isfinite(point[1])] for name, curve in curves.items()}
    bases = {name: _MEASURED_ON.sub("", name) for name in curves}
    if not names:
        names = [base for base in dict.fromkeys(bases.values()) if base != _OTHER_NAME]
        names = sorted(names, key=lambda base: (base == "lr", base != "loss"))
    panels: dict[str, dict[str, Curve]] = {}
    for wanted in names:
        chosen = [name for name in finite if wanted in (name, bases[name])]
        if not chosen:
            raise UsageError(f"plot: no epoch has {wanted!r}, expected some of: {shorten_text(', '.join(curves), 200)}")
        panels[wanted] = {name: finite[name] for name in sorted(chosen, key=lambda name: name != bases[name])}
    return panels
